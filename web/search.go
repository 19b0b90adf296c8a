package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

const (
	longestSearch = 1024 // bytes
	mostHits      = 50
)

// searchView lists what a text may be.
type searchView struct {
	Text     string
	Sentence []phrase
	Hits     []hitRow
}

type hitRow struct {
	Kind string
	Name string
	Href string
	More string // the key that a task id belongs to, or a task's name
	Last when
}

// searchPage leads straight to what the text names, where there is one such thing, and else lists what there is.
func (s *Server) searchPage(c echo.Context) error {
	text := strings.TrimSpace(c.QueryParam("q"))
	if len(text) > longestSearch {
		return badRequest(fmt.Sprintf("q: must be at most %d bytes", longestSearch))
	}
	if text == "" {
		return c.Redirect(http.StatusSeeOther, "/findings")
	}
	hits, err := ask(c.Request().Context(), s.cache, "search "+text, shared, func(ctx context.Context) ([]view.Hit, error) {
		return s.store.Search(ctx, text, mostHits)
	})
	if err != nil {
		return err
	}
	if href, ok := only(hits); ok {
		return c.Redirect(http.StatusSeeOther, href)
	}
	v := searchView{Text: text, Sentence: []phrase{{Text: searchSentence(text, len(hits))}}}
	for _, h := range hits {
		v.Hits = append(v.Hits, s.hitRow(h))
	}
	drawn, err := s.draw(document{Title: "Search", Section: "search", Page: "search", View: v})
	if err != nil {
		return err
	}
	return s.writePage(c, drawn)
}

func searchSentence(text string, hits int) string {
	shown := []rune(visible(text))
	if len(shown) > 80 {
		shown = append(shown[:79], '…')
	}
	switch {
	case hits == 0:
		return fmt.Sprintf("Nothing is known by the name %q: no business key that begins so, no task id, no request id, no worker.", string(shown))
	case hits == mostHits:
		return fmt.Sprintf("The first %d that fit %q.", hits, string(shown))
	}
	return fmt.Sprintf("%s for %q.", plural(hits, "answer"), string(shown))
}

// only gives the address of the one thing that the hits speak of: the only exact one or, where none is, the only one.
func only(hits []view.Hit) (href string, ok bool) {
	for _, exact := range []bool{true, false} {
		addresses := map[string]bool{}
		for _, h := range hits {
			if h.Exact == exact {
				href = hitHref(h)
				addresses[href] = true
			}
		}
		if len(addresses) > 0 {
			return href, len(addresses) == 1
		}
	}
	return "", false
}

func hitHref(h view.Hit) string {
	switch {
	case h.Kind == view.HitWorker:
		return "/workers"
	case h.Kind != view.HitTask && h.BusinessKey != "":
		return keyHref(h.Namespace, h.BusinessKey)
	}
	return taskHref(h.TaskID)
}

func (s *Server) hitRow(h view.Hit) hitRow {
	row := hitRow{Kind: string(h.Kind), Href: hitHref(h), Last: s.when(h.Last), More: h.Task}
	switch h.Kind {
	case view.HitKey:
		row.Name = h.BusinessKey
	case view.HitWorker:
		row.Name = h.Worker
	default:
		row.Name = h.TaskID
		if h.BusinessKey != "" {
			row.More = h.BusinessKey
		}
	}
	return row
}
