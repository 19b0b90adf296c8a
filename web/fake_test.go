package web_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/proof"
	"auditor/event/reject"
	"auditor/event/review"
	"auditor/event/silence"
	"auditor/event/view"
	"auditor/web"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// fake is a store that answers what a test has put into it.
type fake struct {
	mu       sync.Mutex
	err      error // what every question fails with
	findings []finding.Finding
	filter   view.FindingFilter // the last asked for
	log      []finding.Change
	silences []silence.Silence
	events   []event.Event
	hits     []view.Hit
	ledger   []view.Ledger
	progress []view.Partition
	proofs   []proof.Proof
	configs  []view.ConfigChange
	rejects  []reject.Reject
	fates    []reject.Fate
	list     view.RejectList // the last page of them asked for
	workers  []view.Worker
	activity []view.Activity
	measures []review.Measure
	reviewed []review.Query // what was asked for
	asked    int
	block    chan struct{} // when set, questions wait until it is closed or their context ends
}

func (f *fake) ask(ctx context.Context) error {
	f.mu.Lock()
	f.asked++
	block, err := f.block, f.err
	f.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (f *fake) Findings(ctx context.Context, filter view.FindingFilter) (view.FindingPage, error) {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filter = filter
	if filter.Cursor == "bad" {
		return view.FindingPage{}, view.ErrCursor
	}
	return view.FindingPage{Items: f.findings, Total: len(f.findings)}, err
}

func (f *fake) Finding(ctx context.Context, id string) (finding.Finding, error) {
	if err := f.ask(ctx); err != nil {
		return finding.Finding{}, err
	}
	for _, one := range f.findings {
		if one.ID == id {
			return one, nil
		}
	}
	return finding.Finding{}, view.ErrNotFound
}

func (f *fake) FindingLog(ctx context.Context, id string) ([]finding.Change, error) {
	return f.log, f.ask(ctx)
}

func (f *fake) Act(ctx context.Context, a finding.Act) error {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.findings {
		one := &f.findings[i]
		if one.ID != a.FindingID || err != nil {
			continue
		}
		entry, any, err := a.On(finding.Standing{State: one.State, Assignee: one.Assignee})
		if err != nil {
			return err
		}
		if any {
			f.log = append(f.log, entry)
		}
		if one.State = entry.To; a.Action == finding.Assign {
			one.Assignee = a.Assignee
		}
	}
	return err
}

func (f *fake) Silences(ctx context.Context, _ []silence.State, _ int) ([]silence.Silence, error) {
	return f.silences, f.ask(ctx)
}

func (f *fake) Silence(ctx context.Context, id string) (silence.Silence, error) {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.silences {
		if one.ID == id {
			return one, err
		}
	}
	return silence.Silence{}, cmp.Or(err, view.ErrNotFound)
}

func (f *fake) AddSilence(ctx context.Context, one silence.Silence) (silence.Silence, error) {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.ID = "s" + strconv.Itoa(len(f.silences)+1); err == nil {
		f.silences = append(f.silences, one)
	}
	return one, err
}

func (f *fake) EndSilence(ctx context.Context, id string, at time.Time, by, note, _ string) (silence.Silence, error) {
	if _, err := f.Silence(ctx, id); err != nil {
		return silence.Silence{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.silences {
		if one := &f.silences[i]; one.ID == id {
			one.EndedAt, one.EndedBy, one.EndedNote = at, by, note
			return *one, nil
		}
	}
	return silence.Silence{}, nil
}

func (f *fake) FindingValues(ctx context.Context) (view.FindingValues, error) {
	return view.FindingValues{Rules: []string{"repeated_effect"}, Causes: []string{"worker_lost"}, Namespaces: []string{""}, Tasks: []string{"mail.send"}}, f.ask(ctx)
}

func (f *fake) SubjectEvents(ctx context.Context, _ history.Subject, _ int) ([]event.Event, error) {
	return f.events, f.ask(ctx)
}

func (f *fake) TaskEvents(ctx context.Context, _ string, _ int) ([]event.Event, error) {
	return f.events, f.ask(ctx)
}

func (f *fake) Heard(ctx context.Context, _ string, _ []string, _, _ time.Time) ([]history.Signal, error) {
	return nil, f.ask(ctx)
}

func (f *fake) Search(ctx context.Context, _ string, _ int) ([]view.Hit, error) {
	return f.hits, f.ask(ctx)
}

func (f *fake) FindingCounts(ctx context.Context) ([]view.FindingCount, error) {
	err := f.ask(ctx)
	var counts []view.FindingCount
	for _, one := range f.findings {
		counts = append(counts, view.FindingCount{Rule: one.Rule, Severity: one.Severity, State: one.State, Silenced: one.Silenced != nil, Count: 1, Oldest: one.FirstSeen})
	}
	return counts, err
}

func (f *fake) Changes(ctx context.Context, _ int) ([]view.LoggedChange, error) {
	return nil, f.ask(ctx)
}

func (f *fake) ExtraEffects(ctx context.Context, _ time.Time, _ time.Duration) ([]view.ExtraEffects, error) {
	return nil, f.ask(ctx)
}

func (f *fake) Activity(ctx context.Context, _ time.Time, _ time.Duration) ([]view.Activity, error) {
	return f.activity, f.ask(ctx)
}

func (f *fake) Review(ctx context.Context, q review.Query) ([]review.Measure, error) {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reviewed = append(f.reviewed, q)
	var chosen []review.Measure
	for _, m := range f.measures {
		if (q.Task == nil || *q.Task == m.Task) && (q.Namespace == nil || *q.Namespace == m.Namespace) {
			chosen = append(chosen, m)
		}
	}
	return chosen, err
}

func (f *fake) Workers(ctx context.Context, _ int) ([]view.Worker, error) {
	return f.workers, f.ask(ctx)
}

func (f *fake) Ledger(ctx context.Context, _ time.Time) ([]view.Ledger, error) {
	return f.ledger, f.ask(ctx)
}

func (f *fake) ConfigLog(ctx context.Context, _ int) ([]view.ConfigChange, error) {
	return f.configs, f.ask(ctx)
}

func (f *fake) Proofs(ctx context.Context) ([]proof.Proof, error) {
	return f.proofs, f.ask(ctx)
}

func (f *fake) Progress(ctx context.Context) ([]view.Partition, error) {
	return f.progress, f.ask(ctx)
}

func (f *fake) Rejects(ctx context.Context, list view.RejectList) ([]reject.Reject, error) {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
	return f.rejects, err
}

func (f *fake) RejectCounts(ctx context.Context, _ view.RejectFilter) ([]view.RejectCount, error) {
	var counts []view.RejectCount
	for _, r := range f.rejects {
		counts = append(counts, view.RejectCount{Topic: r.Topic, Reason: r.Reason, State: r.State, Count: 1, Bytes: r.Size, First: r.KafkaTime, Last: r.KafkaTime})
	}
	return counts, f.ask(ctx)
}

func (f *fake) RejectRates(ctx context.Context, _ time.Time, _ time.Duration) ([]view.RejectRate, error) {
	var rates []view.RejectRate
	for _, r := range f.rejects {
		rates = append(rates, view.RejectRate{Slot: r.KafkaTime, Reason: r.Reason, Count: 1})
	}
	return rates, f.ask(ctx)
}

func (f *fake) Reject(ctx context.Context, at event.Position) (reject.Reject, error) {
	if err := f.ask(ctx); err != nil {
		return reject.Reject{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rejects {
		if r.Position == at {
			return r, nil
		}
	}
	return reject.Reject{}, view.ErrNotFound
}

func (f *fake) RejectFates(ctx context.Context, _ reject.Reject) ([]reject.Fate, error) {
	return f.fates, f.ask(ctx)
}

func (f *fake) PurgeReject(ctx context.Context, at event.Position, by, note string) error {
	err := f.ask(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.rejects {
		if f.rejects[i].Position == at && err == nil {
			f.rejects[i].State, f.rejects[i].Raw = reject.Purged, nil
			f.rejects[i].Log = append(f.rejects[i].Log, reject.Entry{Position: at, Time: noon, Action: reject.Purge, By: by, Note: note})
		}
	}
	return err
}

var errAway = errors.New("dial tcp 10.1.2.3:9000: connect: connection refused")

// newServer gives a server over a store, at noon.
func newServer(t *testing.T, store web.Store, change ...func(*web.Config, *web.Options)) http.Handler {
	t.Helper()
	config, options := web.DefaultConfig(), web.Options{Now: func() time.Time { return noon }}
	for _, f := range change {
		f(&config, &options)
	}
	server, err := web.New(config, store, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return server.Handler()
}

// answer is what a server answered.
type answer struct {
	*http.Response
	body string
}

// call asks a server; header lines are name, value in turn.
func call(t *testing.T, handler http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:8080"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	response := recorder.Result()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

func twice(key string) finding.Finding {
	return finding.Finding{
		ID: "0123456789abcdef01234567", Rule: "repeated_effect", Severity: finding.Critical, State: finding.Open, Task: "mail.send",
		BusinessKey: key, TaskIDs: []string{"a1"}, Cause: "worker_lost", Effects: 2, FirstSeen: noon.Add(-time.Hour), LastSeen: noon.Add(-time.Minute),
		Title: "email.send twice for " + key, Explanation: "It was sent twice.", Remedy: "Use a key. Acknowledge late.",
		Fields:   map[string]any{"effect": "email.send", "gap_seconds": 11.3, "idempotency_keys": []any{}, "timeout": ""},
		Evidence: []finding.Evidence{{Says: "the first time", EventID: "e1", Type: event.Effected, Time: noon, TaskID: "a1", Topic: "t"}},
	}
}

func happened(key string) []event.Event {
	at := func(offset int, t event.Type, after time.Duration) event.Event {
		return event.Event{ID: string(rune('a' + offset)), Type: t, Time: noon.Add(after), Task: "mail.send", TaskID: "a1", BusinessKey: key, Worker: "w1@host",
			MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown, Position: event.Position{Topic: "t", Offset: int64(offset)}, KafkaTime: noon}
	}
	return []event.Event{at(0, event.Received, -9*time.Second), at(1, event.Started, -8*time.Second), at(2, event.Succeeded, -7*time.Second)}
}
