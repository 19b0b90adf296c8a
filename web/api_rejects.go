package web

import (
	"net/http"
	"slices"

	"auditor/event/reject"
	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// rawAnswered is how many bytes of a rejected record a list of the API gives.
const rawAnswered = 64 << 10

// rejectParameters choose rejects.
var rejectParameters = []string{"topic", "partition", "reason", "state", "since", "until"}

func (s *Server) apiRejects(c echo.Context) error {
	if err := known(c, append(slices.Clone(rejectParameters), "cursor", "limit")...); err != nil {
		return err
	}
	limit, err := limitOf(c, s.config.PageSize)
	if err != nil {
		return err
	}
	list, err := s.rejectList(c.QueryParams(), "any", limit)
	if err != nil {
		return err
	}
	list.RawLimit = rawAnswered
	ctx, cancel := s.within(c)
	defer cancel()
	rejects, err := s.store.Rejects(ctx, list)
	if err != nil {
		return err
	}
	answer := items[reject.Reject]{Items: rejects}
	if rejects == nil {
		answer.Items = []reject.Reject{}
	}
	if len(rejects) == limit {
		answer.NextCursor = rejectCursor(rejects[limit-1].Reject)
	}
	return c.JSON(http.StatusOK, answer)
}

func (s *Server) apiRejectCounts(c echo.Context) error {
	if err := known(c, rejectParameters...); err != nil {
		return err
	}
	list, err := s.rejectList(c.QueryParams(), "any", 1)
	if err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	counts, err := s.store.RejectCounts(ctx, list.RejectFilter)
	if err != nil {
		return err
	}
	if counts == nil {
		counts = []view.RejectCount{}
	}
	return c.JSON(http.StatusOK, items[view.RejectCount]{Items: counts})
}

func (s *Server) apiReject(c echo.Context) error {
	ctx, cancel := s.within(c)
	defer cancel()
	r, err := s.rejectOf(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, r)
}

// apiReplay sends a reject again and answers with what came of it.
func (s *Server) apiReplay(c echo.Context) error {
	var asked struct {
		Raw    *[]byte `json:"raw"` // base64; absent: as it is
		Topic  string  `json:"topic"`
		Again  bool    `json:"again"`
		Force  bool    `json:"force"`
		DryRun bool    `json:"dry_run"`
		By     string  `json:"by"`
		Note   string  `json:"note"`
	}
	if err := readBody(c, &asked); err != nil {
		return err
	}
	order := reject.Order{Topic: asked.Topic, Again: asked.Again, Force: asked.Force}
	if asked.Raw != nil {
		order.Value = append([]byte{}, *asked.Raw...)
	}
	var err error
	if order.By, order.Note, err = whoAndWhy(asked.By, asked.Note, "api"); err != nil {
		return err
	}
	ctx, cancel := replaying(c)
	defer cancel()
	r, err := s.rejectOf(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	result, err := s.replay(ctx, r.Position, order, asked.DryRun)
	if err != nil {
		return err
	}
	return c.JSON(statusOfResult(result), result)
}

// apiPurge deletes what a reject holds, and answers with what is left.
func (s *Server) apiPurge(c echo.Context) error {
	var asked struct {
		By   string `json:"by"`
		Note string `json:"note"`
	}
	if err := readBody(c, &asked); err != nil {
		return err
	}
	if _, err := s.purge(c, asked.By, asked.Note, "api"); err != nil {
		return err
	}
	return s.apiReject(c)
}
