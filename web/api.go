package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/proof"
	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// apiMost is how many items one answer of the API holds at most.
const apiMost = 500

// items is a page of a list.
type items[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// known refuses parameters that a call does not take: a misspelt filter must not widen the answer.
func known(c echo.Context, names ...string) error {
	for name, values := range c.QueryParams() {
		if !slices.Contains(names, name) {
			there := "this call takes none"
			if len(names) > 0 {
				there = "known here are " + strings.Join(names, ", ")
			}
			return badRequest(name + ": no such parameter; " + there)
		}
		if len(values) > 1 {
			return badRequest(name + ": given more than once")
		}
	}
	return nil
}

func limitOf(c echo.Context, otherwise int) (int, error) {
	text := c.QueryParam("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > apiMost {
		return 0, badRequest(fmt.Sprintf("limit: must be 1 to %d, got %q", apiMost, text))
	}
	return n, nil
}

// within bounds a question that an API call puts to the store.
func (s *Server) within(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), s.config.QueryTimeout)
}

func (s *Server) apiFindings(c echo.Context) error {
	err := known(c, "rule", "state", "business_key", "namespace", "task", "severity", "cause", "since", "q", "assignee", "silenced", "silence",
		"incident", "members", "sort", "limit", "cursor")
	if err != nil {
		return err
	}
	filter, err := s.filterOf(c.QueryParams(), "any")
	if err != nil {
		return err
	}
	if filter.Fold, err = foldOf(c.QueryParams(), "yes"); err != nil {
		return err
	}
	if filter.Limit, err = limitOf(c, s.config.PageSize); err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	page, err := s.store.Findings(ctx, filter)
	if err != nil {
		return err
	}
	if page.Items == nil {
		page.Items = []finding.Finding{}
	}
	return c.JSON(http.StatusOK, items[finding.Finding]{page.Items, page.NextCursor})
}

func (s *Server) apiFinding(c echo.Context) error {
	ctx, cancel := s.within(c)
	defer cancel()
	f, err := s.store.Finding(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, f)
}

// readBody reads the one JSON object of a request, strictly.
func readBody(c echo.Context, into any) error {
	if kind := c.Request().Header.Get("Content-Type"); !slices.Contains([]string{"application/json", "application/json; charset=utf-8"}, kind) {
		return &problem{Status: http.StatusUnsupportedMediaType, Title: "Not understood", Message: "Content-Type: must be application/json"}
	}
	decoder := json.NewDecoder(c.Request().Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return badRequest("body: " + err.Error())
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return badRequest("body: must be one JSON object")
	}
	return nil
}

// apiRun is one run of a key's history.
type apiRun struct {
	Number   int        `json:"number"`
	TaskID   string     `json:"task_id"`
	Task     string     `json:"task"`
	Worker   string     `json:"worker"`
	Retries  *int       `json:"retries"` // null when not told
	Begin    time.Time  `json:"begin"`
	End      *time.Time `json:"end"`     // null when not seen
	Outcome  string     `json:"outcome"` // empty when no end was seen
	Effects  int        `json:"effects"`
	EventIDs []string   `json:"event_ids"`
}

func apiRunOf(r *history.Run) apiRun {
	out := apiRun{Number: r.Number, TaskID: r.TaskID, Task: r.Task, Worker: r.Worker, Begin: r.Begin(), Effects: len(r.Effects)}
	if r.Retries != event.Unknown {
		out.Retries = &r.Retries
	}
	if r.End != nil {
		out.End, out.Outcome = &r.End.Time, string(r.End.Type)
	}
	for _, e := range r.Events {
		out.EventIDs = append(out.EventIDs, e.ID)
	}
	return out
}

func (s *Server) apiKey(c echo.Context) error {
	if err := known(c, "business_key", "namespace"); err != nil {
		return err
	}
	key := c.QueryParam("business_key")
	if key == "" {
		return badRequest("business_key: must be given")
	}
	ctx, cancel := s.within(c)
	defer cancel()
	subject := history.Subject{Namespace: c.QueryParam("namespace"), BusinessKey: key}
	events, err := s.store.SubjectEvents(ctx, subject, s.config.KeyEvents)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return view.ErrNotFound
	}
	h := history.Build(subject, events)
	runs := make([]apiRun, 0, len(h.Runs))
	for _, r := range h.Runs {
		runs = append(runs, apiRunOf(r))
	}
	return c.JSON(http.StatusOK, map[string]any{
		"namespace": subject.Namespace, "business_key": key, "task_ids": h.TaskIDs(), "runs": runs,
		"events": apiEventsOf(h.Events), "repeats": h.Repeats, "truncated": len(events) >= s.config.KeyEvents,
	})
}

// apiEvent is an event with its place in Kafka beside it.
type apiEvent struct{ *event.Event }

func (e apiEvent) MarshalJSON() ([]byte, error) {
	out := e.AppendJSON(nil)
	place, err := json.Marshal(map[string]any{"topic": e.Topic, "partition": e.Partition, "offset": e.Offset, "index": e.Index, "time": e.KafkaTime})
	if err != nil {
		return nil, err
	}
	out = out[:len(out)-1]
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"kafka":`...)
	return append(append(out, place...), '}'), nil
}

func apiEventsOf(events []*event.Event) []apiEvent {
	list := make([]apiEvent, 0, len(events))
	for _, e := range events {
		list = append(list, apiEvent{e})
	}
	return list
}

func (s *Server) apiEvents(c echo.Context) error {
	if err := known(c, "task_id", "business_key", "namespace", "limit"); err != nil {
		return err
	}
	limit, err := limitOf(c, apiMost)
	if err != nil {
		return err
	}
	taskID, key := c.QueryParam("task_id"), c.QueryParam("business_key")
	if (taskID == "") == (key == "") {
		return badRequest("task_id, business_key: one of them must be given")
	}
	ctx, cancel := s.within(c)
	defer cancel()
	var events []event.Event
	if taskID != "" {
		events, err = s.store.TaskEvents(ctx, taskID, limit)
	} else {
		events, err = s.store.SubjectEvents(ctx, history.Subject{Namespace: c.QueryParam("namespace"), BusinessKey: key}, limit)
	}
	if err != nil {
		return err
	}
	list := make([]apiEvent, 0, len(events))
	for i := range events {
		list = append(list, apiEvent{&events[i]})
	}
	return c.JSON(http.StatusOK, items[apiEvent]{Items: list})
}

// apiPartition is where the evidence of one partition stands.
type apiPartition struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	First     int64      `json:"first_offset"` // of those in the store; above last when there are none
	Last      int64      `json:"last_offset"`
	Events    int        `json:"events"`
	Rejects   int        `json:"rejects"`
	Missing   int64      `json:"missing"`
	Judged    int64      `json:"judged_offset"` // the rules have read everything before it
	Newest    *time.Time `json:"newest"`
	Lag       *int64     `json:"lag"` // null when no process has told
	Problem   string     `json:"problem,omitempty"`
	Proof     *apiProof  `json:"proof"` // null when it was not compared yet
}

// apiProof is what the last comparison of Kafka, the ledger and the tables came to.
type apiProof struct {
	First    int64           `json:"first_offset"`
	Next     int64           `json:"next_offset"` // everything before it was compared
	Checked  time.Time       `json:"checked"`
	Missing  int64           `json:"missing"`
	Doubled  int64           `json:"doubled"`
	Holes    int64           `json:"holes"`
	Lost     int64           `json:"lost"`
	Troubles []proof.Trouble `json:"troubles"`
}

func apiProofOf(p proof.Proof) *apiProof {
	return &apiProof{First: p.First, Next: p.Next, Checked: p.Checked, Missing: proof.Count(p.Troubles, proof.Missing),
		Doubled: proof.Count(p.Troubles, proof.Doubled), Holes: proof.Count(p.Troubles, proof.Hole), Lost: proof.Count(p.Troubles, proof.Lost),
		Troubles: append([]proof.Trouble{}, p.Troubles...)}
}

type apiCount struct {
	Rule     string           `json:"rule"`
	Severity finding.Severity `json:"severity"`
	State    finding.State    `json:"state"`
	Silenced bool             `json:"silenced"`
	Count    int              `json:"count"`
}

func (s *Server) apiStatus(c echo.Context) error {
	if err := known(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	ledger, err := s.ledger(ctx)
	if err != nil {
		return err
	}
	counts, err := s.findingCounts(ctx)
	if err != nil {
		return err
	}
	partitions := []apiPartition{}
	for _, l := range ledger {
		p := apiPartition{Topic: l.Topic, Partition: l.Partition, First: l.First, Last: l.Last, Events: l.Events, Rejects: l.Rejects,
			Missing: l.Missing, Judged: l.Judged}
		if !l.KafkaTime.IsZero() {
			p.Newest = &l.KafkaTime
		}
		partitions = append(partitions, p)
	}
	read, err := s.partitions(ctx)
	if err != nil {
		return err
	}
	partitions = withLag(partitions, read)
	proofs, err := s.proofs(ctx)
	if err != nil {
		return err
	}
	for _, p := range proofs {
		i := slices.IndexFunc(partitions, func(a apiPartition) bool { return a.Topic == p.Topic && a.Partition == p.Partition })
		if i >= 0 {
			partitions[i].Proof = apiProofOf(p)
		}
	}
	tallies := []apiCount{}
	for _, n := range counts {
		tallies = append(tallies, apiCount{n.Rule, n.Severity, n.State, n.Silenced, n.Count})
	}
	line := s.evidence(ctx)
	return c.JSON(http.StatusOK, map[string]any{
		"version": s.options.Version, "time": s.now().UTC(), "evidence": line.Text, "evidence_ok": line.Tone == "",
		"partitions": partitions, "findings": tallies, "ready": s.check(ctx),
	})
}

// withLag adds what ingest reports to what the ledger proves.
func withLag(partitions []apiPartition, status []view.Partition) []apiPartition {
	for _, p := range status {
		i := slices.IndexFunc(partitions, func(a apiPartition) bool { return a.Topic == p.Topic && a.Partition == p.Partition })
		if i < 0 {
			i = len(partitions)
			partitions = append(partitions, apiPartition{Topic: p.Topic, Partition: p.Partition, First: p.Next, Last: p.Next - 1})
		}
		partitions[i].Lag, partitions[i].Problem = &p.Lag, p.Problem
	}
	return partitions
}

// eventText is an event for a person to read: as indented JSON.
func eventText(e *event.Event) string {
	compact, err := apiEvent{e}.MarshalJSON()
	if err != nil {
		return ""
	}
	var text bytes.Buffer
	if json.Indent(&text, compact, "", "  ") != nil {
		return string(compact)
	}
	return text.String()
}
