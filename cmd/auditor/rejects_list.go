package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
	"auditor/queries"
)

type rejectsList struct {
	storeAccess
	rejectsChoice
	State   []string `default:"open,unknown" placeholder:"STATE" help:"In these states only: open, unknown, replayed, purged, or any (${default})."`
	Limit   int      `default:"100" help:"How many at most, the newest; 0: all (${default})."`
	Summary bool     `help:"Count them by topic, reason and state."`
	JSON    bool     `name:"json" help:"Print one JSON object a reject, or a count, not a table."`
}

// listRaw is how many bytes of a value a list holds: what the API gives, and what a table shows of it.
const (
	listRaw   = 64 << 10
	shownRaw  = 40
	shownText = 60
	listPage  = 500
)

// Run lists the rejects that were asked for.
func (l rejectsList) Run(env *environment) error {
	filter, err := l.filter(l.State)
	if err != nil {
		return err
	}
	if l.Limit < 0 {
		return usageError{fmt.Errorf("--limit: must be 0 or more, not %d", l.Limit)}
	}
	a, err := l.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	pages := a.store.Pages()
	if l.Summary {
		counts, err := pages.RejectCounts(env.ctx, filter)
		if err != nil {
			return err
		}
		return printCounts(env.stdout, counts, l.JSON)
	}
	if l.JSON {
		return eachReject(env.ctx, pages, filter, l.Limit, listRaw, func(r reject.Reject) error { return printLine(env.stdout, r) })
	}
	return l.table(env, pages, filter)
}

// eachReject calls f with rejects, the newest first, page by page.
func eachReject(ctx context.Context, pages *queries.Pages, filter view.RejectFilter, limit, raw int, f func(reject.Reject) error) error {
	var before view.Position
	for told := 0; limit == 0 || told < limit; {
		size := listPage
		if limit > 0 {
			size = min(size, limit-told)
		}
		page, err := pages.Rejects(ctx, view.RejectList{RejectFilter: filter, Limit: size, RawLimit: raw, Before: before})
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
			before = view.Position{KafkaTime: r.KafkaTime, Position: r.Position}
		}
		if told += len(page); len(page) < size {
			return nil
		}
	}
	return nil
}

// table tells a person of the rejects, and of how many more there are.
func (l rejectsList) table(env *environment, pages *queries.Pages, filter view.RejectFilter) error {
	table := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	shown := 0
	err := eachReject(env.ctx, pages, filter, l.Limit, 4*shownRaw, func(r reject.Reject) error {
		if shown++; shown == 1 {
			fmt.Fprintln(table, "POSITION\tTIME\tREASON\tSTATE\tBYTES\tDETAIL\tBEGINS WITH")
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(event.FormatPosition(r.Position)), moment(r.KafkaTime), printable(string(r.Reason)), r.State,
			r.Size, orDash(short(r.Detail, shownText)), orDash(short(strings.TrimSpace(string(r.Raw)), shownRaw)))
		return err
	})
	if err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	filter.States = nil
	counts, err := pages.RejectCounts(env.ctx, filter)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, l.remainder(shown, counts))
	return err
}

// remainder says how much of all there is was shown.
func (l rejectsList) remainder(shown int, counts []view.RejectCount) string {
	byState, all := make(map[reject.State]int), 0
	for _, n := range counts {
		byState[n.State] += n.Count
		all += n.Count
	}
	if all == 0 {
		return "Nothing was rejected."
	}
	var states []string
	for _, state := range reject.States {
		if byState[state] > 0 {
			states = append(states, fmt.Sprintf("%d %s", byState[state], state))
		}
	}
	return fmt.Sprintf("\n%s shown of %d: %s.", count(shown, "reject"), all, strings.Join(states, ", "))
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// short cuts text to so many characters.
func short(s string, limit int) string {
	n := 0
	for i := range s {
		if n == limit {
			return s[:i] + "..."
		}
		n++
	}
	return s
}

// printLine prints a value as one line of JSON.
func printLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

func printCounts(w io.Writer, counts []view.RejectCount, asJSON bool) error {
	if len(counts) == 0 && !asJSON {
		_, err := fmt.Fprintln(w, "Nothing was rejected.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(table, "REASON\tSTATE\tRECORDS\tBYTES\tOLDEST\tNEWEST\tTOPIC")
	}
	for _, n := range counts {
		if asJSON {
			if err := printLine(w, n); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", printable(string(n.Reason)), n.State, n.Count, n.Bytes, moment(n.First), moment(n.Last), printable(n.Topic))
	}
	return table.Flush()
}
