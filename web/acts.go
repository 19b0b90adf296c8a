package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"auditor/event/finding"

	"github.com/labstack/echo/v4"
)

// actOf is what leads a finding to each state.
var actOf = map[string]finding.Action{
	string(finding.Acknowledged): finding.Acknowledge, string(finding.Resolved): finding.Resolve, string(finding.Open): finding.Reopen,
}

// postState takes the form on a finding's page that changes its state.
func (s *Server) postState(c echo.Context) error {
	return s.postAct(c, func(a *finding.Act) error { return toState(a, c.FormValue("state")) })
}

// toState makes an act of the state that it is to lead to.
func toState(a *finding.Act, state string) error {
	action, ok := actOf[state]
	if !ok {
		return badRequest("state: must be open, acknowledged or resolved, got " + strconv.Quote(state))
	}
	a.Action = action
	return nil
}

// postComment takes the same form, sent as a comment alone.
func (s *Server) postComment(c echo.Context) error {
	return s.postAct(c, func(a *finding.Act) error { a.Action = finding.Comment; return nil })
}

// postAssign takes the form that says who shall see to a finding. It tells whom the page named before.
func (s *Server) postAssign(c echo.Context) error {
	return s.postAct(c, func(a *finding.Act) error {
		was := c.FormValue("was")
		a.Action, a.Assignee, a.Was = finding.Assign, strings.TrimSpace(c.FormValue("assignee")), &was
		return nil
	})
}

// postAct does what a form on a finding's page asks for, and leads back to the page.
func (s *Server) postAct(c echo.Context, fill func(*finding.Act) error) error {
	if err := parsed(c); err != nil {
		return err
	}
	a := finding.Act{FindingID: c.Param("id"), By: c.FormValue("by"), Note: c.FormValue("note"), Request: c.FormValue("request")}
	if err := fill(&a); err != nil {
		return err
	}
	if err := s.act(c, a, "web"); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/findings/"+url.PathEscape(a.FindingID))
}

// act does to a finding what was asked for by somebody or, where no name was told, by the way that it came.
func (s *Server) act(c echo.Context, a finding.Act, otherwise string) error {
	ctx, cancel := s.within(c)
	defer cancel()
	a.By, a.Note, a.Time = cmp.Or(strings.TrimSpace(a.By), otherwise), strings.TrimSpace(a.Note), s.now().UTC()
	if err := a.Validate(); err != nil {
		return invalid(err)
	}
	if err := s.store.Act(ctx, a); err != nil {
		return refused(err)
	}
	s.cache.forget()
	s.log.Info("finding changed", "finding", a.FindingID, "action", a.Action)
	return nil
}

// invalid is what is wrong with a request, all of it in one line.
func invalid(err error) error { return badRequest(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// refused tells why something cannot be done as things stand.
func refused(err error) error {
	var refusal finding.Refusal
	if errors.As(err, &refusal) {
		return &problem{Status: http.StatusConflict, Title: "Not as it stands", Message: refusal.Error()}
	}
	return err
}

// apiState changes a finding's state and answers with the finding.
func (s *Server) apiState(c echo.Context) error {
	var asked struct {
		State   string `json:"state"`
		By      string `json:"by"`
		Note    string `json:"note"`
		Request string `json:"request"`
	}
	if err := readBody(c, &asked); err != nil {
		return err
	}
	a := finding.Act{FindingID: c.Param("id"), By: asked.By, Note: asked.Note, Request: asked.Request}
	if err := toState(&a, asked.State); err != nil {
		return err
	}
	if err := s.act(c, a, "api"); err != nil {
		return err
	}
	return s.apiFinding(c)
}

// apiAct does one thing to a finding and answers with the finding.
func (s *Server) apiAct(action finding.Action) echo.HandlerFunc {
	return func(c echo.Context) error {
		var asked struct {
			Assignee string  `json:"assignee"`
			Was      *string `json:"was"`
			By       string  `json:"by"`
			Note     string  `json:"note"`
			Request  string  `json:"request"`
		}
		if err := readBody(c, &asked); err != nil {
			return err
		}
		a := finding.Act{FindingID: c.Param("id"), Action: action, Assignee: strings.TrimSpace(asked.Assignee), Was: asked.Was,
			By: asked.By, Note: asked.Note, Request: asked.Request}
		if err := s.act(c, a, "api"); err != nil {
			return err
		}
		return s.apiFinding(c)
	}
}

// apiLog tells what became of a finding.
func (s *Server) apiLog(c echo.Context) error {
	if err := known(c); err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	if _, err := s.store.Finding(ctx, c.Param("id")); err != nil {
		return err
	}
	log, err := s.store.FindingLog(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	if log == nil {
		log = []finding.Change{}
	}
	return c.JSON(http.StatusOK, items[finding.Change]{Items: log})
}
