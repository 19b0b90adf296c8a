package queries

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"auditor/event/finding"
	"auditor/event/silence"
	"auditor/event/view"
)

// silenceRow is a row of the view silences.
type silenceRow struct {
	ID        string    `ch:"id"`
	Rule      string    `ch:"rule"`
	Task      string    `ch:"task"`
	Namespace string    `ch:"namespace"`
	Key       string    `ch:"business_key"`
	Worker    string    `ch:"worker"`
	Severity  string    `ch:"severity"`
	Begun     time.Time `ch:"begun"`
	Until     time.Time `ch:"until"`
	By        string    `ch:"by"`
	Note      string    `ch:"note"`
	Request   string    `ch:"request"`
	EndedAt   time.Time `ch:"ended_at"`
	EndedBy   string    `ch:"ended_by"`
	EndedNote string    `ch:"ended_note"`
}

func (r *silenceRow) silence() silence.Silence {
	return silence.Silence{
		ID: r.ID, From: r.Begun, Until: r.Until, By: r.By, Note: r.Note, Request: r.Request,
		Matchers: silence.Matchers{Rule: r.Rule, Task: r.Task, Namespace: r.Namespace, BusinessKey: r.Key, Worker: r.Worker, Severity: r.Severity},
		EndedAt:  known(r.EndedAt), EndedBy: r.EndedBy, EndedNote: r.EndedNote,
	}
}

// Silences lists silences in some states, or in all where none is given: the active ones first, that which ends first before
// the others, then the one that was over last.
func (p *Pages) Silences(ctx context.Context, states []silence.State, limit int) ([]silence.Silence, error) {
	type row struct {
		silenceRow
		State string `ch:"state"`
		Found uint64 `ch:"found"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/silences", params{"states": states, "limit": max(limit, 1)})
	return pluck(rows, func(r *row) silence.Silence {
		one := r.silence()
		one.Findings = int(r.Found)
		return one
	}), err
}

// Silence gives one silence, or view.ErrNotFound. How many findings it keeps silent is not counted.
func (p *Pages) Silence(ctx context.Context, id string) (silence.Silence, error) {
	r, ok, err := selectOne[silenceRow](ctx, p.store, "store/silence", params{"id": id})
	if err == nil && !ok {
		err = view.ErrNotFound
	}
	return r.silence(), err
}

// AddSilence makes a silence, and gives it as it is in the store. The same request again gives the same silence, and so does
// one without an id of its own that asks for what an active silence says already. A request id that was given to another
// silence is a finding.Refusal.
func (p *Pages) AddSilence(ctx context.Context, one silence.Silence) (silence.Silence, error) {
	one.Until = storable(one.Until).Truncate(time.Microsecond)
	if err := one.Validate(); err != nil {
		return one, err
	}
	if one.Request == "" {
		active, err := p.Silences(ctx, []silence.State{silence.Active}, mostSilences)
		if err != nil {
			return one, err
		}
		for _, other := range active {
			if other.Same(one) {
				return other, nil
			}
		}
		one.ID = rand.Text()
	} else {
		one.ID = "request:" + one.Request
	}
	hash := sha256.Sum256([]byte(one.ID))
	one.ID = hex.EncodeToString(hash[:12])
	known, err := p.Silence(ctx, one.ID)
	if !errors.Is(err, view.ErrNotFound) {
		return known, cmp.Or(err, sameRequest(known, one))
	}
	if err := p.store.insert(ctx, "silence_log", "", silenceBlock("add", one, one.From, one.By, one.Note)); err != nil {
		return one, err
	}
	known, err = p.Silence(ctx, one.ID)
	return known, cmp.Or(err, sameRequest(known, one)) // another may have come first
}

// mostSilences is how many active ones are looked through for the same.
const mostSilences = 1000

// sameRequest refuses a request whose id made another silence. When it is to end does not count: a length of time
// that is told twice comes to two moments.
func sameRequest(known, asked silence.Silence) error {
	asked.Until = known.Until
	if !known.Same(asked) {
		return finding.Refusal("request: this id was given to another silence: " + known.Matchers.String())
	}
	return nil
}

// EndSilence ends a silence before its time, and gives it as it is then, or view.ErrNotFound. One that is over stays as it
// is.
func (p *Pages) EndSilence(ctx context.Context, id string, at time.Time, by, note, request string) (silence.Silence, error) {
	if err := finding.Words(by, note, request); err != nil {
		return silence.Silence{}, err
	}
	one, err := p.Silence(ctx, id)
	if err != nil || one.State(at) != silence.Active {
		return one, err
	}
	if err := p.store.insert(ctx, "silence_log", "", silenceBlock("end", silence.Silence{ID: id, Request: request}, at, by, note)); err != nil {
		return one, err
	}
	return p.Silence(ctx, id)
}

func silenceBlock(action string, one silence.Silence, at time.Time, by, note string) []values {
	return []values{
		{"silence_id", []string{one.ID}},
		{"time", []time.Time{storable(at).Truncate(time.Microsecond)}},
		{"action", []string{action}},
		{"rule", []string{one.Rule}},
		{"task", []string{one.Task}},
		{"namespace", []string{one.Namespace}},
		{"business_key", []string{one.BusinessKey}},
		{"worker", []string{one.Worker}},
		{"severity", []string{one.Severity}},
		{"until", []time.Time{storable(one.Until)}},
		{"by", []string{by}},
		{"note", []string{note}},
		{"request", []string{one.Request}},
	}
}
