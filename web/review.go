package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"auditor/event/review"

	"github.com/labstack/echo/v4"
)

const (
	reviewSpan    = 7 * 24 * time.Hour // how far back reviews look unless told otherwise
	reviewFresh   = time.Minute        // how long a review is shared between those who ask for the same
	reviewOld     = 10 * time.Minute   // how much older one may be that is shown while it is measured anew
	reviewTimeout = time.Minute        // how long measuring may take behind the backs of those who do not wait for it
	mostReviews   = 2                  // reviews under way at the same time
)

// measure has the store review tasks, not too many at a time.
func (s *Server) measure(ctx context.Context, q review.Query) ([]review.Review, error) {
	select {
	case s.reviews <- struct{}{}:
		defer func() { <-s.reviews }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	q.Settings = s.options.Review
	measures, err := s.store.Review(ctx, q)
	if err != nil {
		return nil, err
	}
	all := make([]review.Review, 0, len(measures))
	for _, m := range measures {
		all = append(all, review.Of(m))
	}
	slices.SortFunc(all, review.Compare)
	return all, nil
}

// lately gives the reviews of the last days that a query chooses, the worst first: of the last minute or, while they are
// measured anew, a little older.
func (s *Server) lately(ctx context.Context, q review.Query) ([]review.Review, error) {
	key := "reviews"
	for _, name := range []*string{q.Task, q.Namespace} {
		if name != nil {
			key += fmt.Sprintf(" %d:%s", len(*name), *name)
		} else {
			key += " any"
		}
	}
	return askLongest(ctx, s.reviewed, key, reviewFresh, reviewOld, func(ctx context.Context) ([]review.Review, error) {
		q.Since = s.now().Add(-reviewSpan)
		return s.measure(ctx, q)
	})
}

// asked reads what an API call asks of reviews, and answers it.
func (s *Server) asked(c echo.Context, task *string) ([]review.Review, error) {
	ctx, cancel := s.within(c)
	defer cancel()
	q := review.Query{Task: task}
	if values := c.QueryParams()["namespace"]; len(values) > 0 {
		q.Namespace = &values[0]
	}
	text := c.QueryParam("since")
	if text == "" {
		return s.lately(ctx, q)
	}
	var err error
	if q.Since, err = s.momentOf("since", text); err != nil {
		return nil, err
	}
	return s.measure(ctx, q)
}

func (s *Server) apiReviews(c echo.Context) error {
	if err := known(c, "task", "namespace", "since"); err != nil {
		return err
	}
	var task *string
	if values := c.QueryParams()["task"]; len(values) > 0 {
		task = &values[0]
	}
	all, err := s.asked(c, task)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, items[review.Review]{Items: all})
}

func (s *Server) apiReview(c echo.Context) error {
	if err := known(c, "namespace", "since"); err != nil {
		return err
	}
	task := taskOf(c)
	all, err := s.asked(c, &task)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return notFound("no event of a task of that name was seen in that time")
	case len(all) > 1:
		return badRequest("namespace: must be given, for several have a task of that name: " + strings.Join(namespacesOf(all), ", "))
	}
	return c.JSON(http.StatusOK, all[0])
}

// namespacesOf names them as JSON does, for the empty one is a name too.
func namespacesOf(all []review.Review) []string {
	var names []string
	for _, r := range all {
		names = append(names, fmt.Sprintf("%q", r.Namespace))
	}
	return names
}

// taskOf is the task that a path names. The router leaves escapes as they are in a path that needs them.
func taskOf(c echo.Context) string {
	name := c.Param("task")
	if c.Request().URL.RawPath != "" {
		if plain, err := url.PathUnescape(name); err == nil {
			return plain
		}
	}
	return name
}

// reviewHref is the address of a task's page. Names that would not arrive whole within a path go into the query: browsers
// and proxies take dots and slashes for steps.
func reviewHref(namespace, task string) string {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	path := "/tasks/" + url.PathEscape(task)
	if task == "" || task == "." || task == ".." || task == "id" || strings.ContainsAny(task, "/\\%\x00") {
		path = "/tasks/"
		q.Set("name", task)
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
