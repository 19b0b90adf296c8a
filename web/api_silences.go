package web

import (
	"cmp"
	"context"
	"net/http"

	"auditor/event/silence"
	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// apiSilences lists silences.
func (s *Server) apiSilences(c echo.Context) error {
	if err := known(c, "state", "limit"); err != nil {
		return err
	}
	limit, err := limitOf(c, apiMost)
	if err != nil {
		return err
	}
	var states []silence.State
	if text := cmp.Or(c.QueryParam("state"), string(silence.Active)); text != "any" {
		if states, err = silence.ParseStates(text); err != nil {
			return invalid(err)
		}
	}
	ctx, cancel := s.within(c)
	defer cancel()
	all, err := s.store.Silences(ctx, states, limit)
	if err != nil {
		return err
	}
	list := make([]silence.Shown, 0, len(all))
	for _, one := range all {
		list = append(list, one.Shown(s.now()))
	}
	return c.JSON(http.StatusOK, items[silence.Shown]{Items: list})
}

// apiSilence gives one silence.
func (s *Server) apiSilence(c echo.Context) error {
	ctx, cancel := s.within(c)
	defer cancel()
	return s.answerSilence(ctx, c, c.Param("id"))
}

// answerSilence answers with a silence and how many findings it keeps silent.
func (s *Server) answerSilence(ctx context.Context, c echo.Context, id string) error {
	one, err := s.store.Silence(ctx, id)
	if err != nil {
		return err
	}
	if one.State(s.now()) == silence.Active {
		page, err := s.store.Findings(ctx, view.FindingFilter{Silence: id, Limit: 1})
		if err != nil {
			return err
		}
		one.Findings = page.Total
	}
	return c.JSON(http.StatusOK, one.Shown(s.now()))
}

// apiAddSilence makes a silence and answers with it.
func (s *Server) apiAddSilence(c echo.Context) error {
	var asked silenceAsked
	if err := readBody(c, &asked); err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	one, err := s.addSilence(ctx, asked, "api")
	if err != nil {
		return err
	}
	return s.answerSilence(ctx, c, one.ID)
}

// apiEndSilence ends a silence and answers with it.
func (s *Server) apiEndSilence(c echo.Context) error {
	var asked struct {
		By      string `json:"by"`
		Note    string `json:"note"`
		Request string `json:"request"`
	}
	if err := readBody(c, &asked); err != nil {
		return err
	}
	one, err := s.endSilence(c, asked.By, asked.Note, asked.Request, "api")
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, one.Shown(s.now()))
}
