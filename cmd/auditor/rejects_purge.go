package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"auditor/event/reject"
	"auditor/event/view"
	"auditor/queries"
)

type rejectsPurge struct {
	storeAccess
	rejectsChoice
	rejectsBy
	State     []string `default:"any" placeholder:"STATE" help:"Where they are chosen by what they are: in these states only, such as replayed (${default})."`
	Yes       bool     `help:"Do it. Without, it is only said what would be purged."`
	Positions []string `arg:"" optional:"" name:"position" help:"topic:partition:offset, and :index for an element of an array."`
}

// purgeLimit is how long a purge may take: ClickHouse writes the parts anew that hold one of the rejects.
const purgeLimit = 30 * time.Minute

// Run deletes what rejects hold.
func (p rejectsPurge) Run(env *environment) error {
	at, err := positionsOf(p.Positions)
	if err != nil {
		return err
	}
	filter, err := p.filter(p.State)
	if err != nil {
		return err
	}
	switch {
	case len(at) == 0 && p.isEmpty():
		return usageError{errors.New("name the positions of rejects, or choose some with --reason, --topic, --partition, --since or --until")}
	case len(at) > 0 && !p.isEmpty():
		return usageError{errors.New("name the positions of rejects, or choose some by what they are, but not both")}
	}
	by, note, err := p.rejectsBy.check(env)
	if err != nil {
		return err
	}
	a, err := p.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	var chosen, size int
	for i := range at {
		r, err := rejectAt(env.ctx, a.store, at[i])
		if err != nil {
			return err
		}
		at[i] = r.Position
		chosen, size = chosen+1, size+r.Size
	}
	if len(at) == 0 {
		if chosen, size, err = countRejects(env.ctx, a.store.Pages(), filter); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("%s with %s", count(chosen, "reject"), count(size, "byte"))
	if chosen > 0 && !p.Yes {
		fmt.Fprintf(env.stdout, "Would purge %s.\n", what)
		return errors.New("nothing was purged: what a purge deletes is gone for good, so ask for it with --yes")
	}
	ctx, cancel := context.WithTimeout(env.ctx, purgeLimit)
	defer cancel()
	switch {
	case chosen == 0:
		_, err = fmt.Fprintln(env.stdout, "No reject was chosen.")
		return err
	case len(at) > 0:
		err = a.store.PurgeRejectsAt(ctx, at, by, note)
	default:
		err = a.store.PurgeRejects(ctx, filter, by, note)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "Purged %s.\n", what)
	return err
}

// countRejects counts those of the rejects that are not purged, and their bytes.
func countRejects(ctx context.Context, pages *queries.Pages, filter view.RejectFilter) (chosen, size int, err error) {
	counts, err := pages.RejectCounts(ctx, filter)
	for _, n := range counts {
		if n.State != reject.Purged {
			chosen, size = chosen+n.Count, size+n.Bytes
		}
	}
	return chosen, size, err
}
