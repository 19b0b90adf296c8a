package web

import (
	"net/http"
	"strings"

	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// configRow is a configuration that the rules began to go by.
type configRow struct {
	Digest, Program string
	Since           when
	Lines           []string // what differs from the one before
}

// mostConfigs is how many changes of the configuration a page lists.
const mostConfigs = 5

func (s *Server) configRows(all []view.ConfigChange) []configRow {
	rows := make([]configRow, 0, len(all))
	for _, c := range all {
		row := configRow{Digest: c.Digest, Program: c.Program, Since: s.when(c.Time), Lines: []string{"the first that was noted"}}
		if c.Changed != "" {
			row.Lines = strings.Split(c.Changed, "\n")
		}
		rows = append(rows, row)
	}
	return rows
}

// apiConfigLog tells what the rules went by.
func (s *Server) apiConfigLog(c echo.Context) error {
	if err := known(c, "limit"); err != nil {
		return err
	}
	limit, err := limitOf(c, s.config.PageSize)
	if err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	all, err := s.store.ConfigLog(ctx, limit)
	if err != nil {
		return err
	}
	if all == nil {
		all = []view.ConfigChange{}
	}
	return c.JSON(http.StatusOK, items[view.ConfigChange]{Items: all})
}
