package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"auditor/event/history"
)

// openTasks knows which tasks were noted to have no end, and when each is due, so that not every look need ask the store for those
// that are: nearly all of them have ended by then, and lie among all that ever ended. It is filled from the store now and then, for
// others may note tasks too (see Keep), and with what the engine stores itself. The zero value knows nothing.
type openTasks struct {
	due map[pendingPlace]time.Time // nil: not known, or there are too many
	at  time.Time                  // when it was filled
}

const (
	mostOpen  = 200_000          // tasks that are known: some 50 MB
	openAgain = 10 * time.Minute // after which it is filled again
)

// fillOpen fills in the open tasks from the store, if it is time to.
func (e *Engine) fillOpen(ctx context.Context, at moment) error {
	if !e.open.at.IsZero() && at.now.Sub(e.open.at).Abs() < openAgain {
		return nil
	}
	tasks, err := e.store.OpenPending(ctx, mostOpen+1)
	if err != nil {
		return fmt.Errorf("read the tasks without an end: %w", err)
	}
	e.open = openTasks{due: make(map[pendingPlace]time.Time, len(tasks)), at: at.now}
	e.open.note(tasks)
	return nil
}

// savePending stores how tasks stand.
func (e *Engine) savePending(ctx context.Context, tasks []history.Pending) error {
	if err := e.store.SavePending(ctx, tasks); err != nil {
		return fmt.Errorf("store the tasks without an end: %w", err)
	}
	e.open.note(tasks)
	return nil
}

// note remembers what is stored. Of more tasks than it can hold it knows nothing.
func (o *openTasks) note(tasks []history.Pending) {
	if o.due == nil {
		return
	}
	for _, t := range tasks {
		if t.Open {
			o.due[placeOf(t)] = t.Due
		} else {
			delete(o.due, placeOf(t))
		}
	}
	if len(o.due) > mostOpen {
		o.due = nil
	}
}

func placeOf(t history.Pending) pendingPlace { return pendingPlace{t.Subject, t.PendingTaskID} }

// dueBy gives the places of at most so many tasks that are due by now, the longest due first.
func (o *openTasks) dueBy(now time.Time, most int) []pendingPlace {
	var places []pendingPlace
	for place, due := range o.due {
		if !due.After(now) {
			places = append(places, place)
		}
	}
	slices.SortFunc(places, func(a, b pendingPlace) int { return o.due[a].Compare(o.due[b]) })
	return places[:min(len(places), most)]
}

// duePending gives at most so many of the tasks without an end that are due by now, and reports whether there may be more.
func (e *Engine) duePending(ctx context.Context, at moment, most int) (tasks []history.Pending, more bool, err error) {
	if !at.past {
		if err := e.fillOpen(ctx, at); err != nil {
			return nil, false, err
		}
	}
	if e.open.due == nil || at.past {
		tasks, err = e.store.DuePending(ctx, nil, at.known, most)
		return tasks, len(tasks) == most, err
	}
	places := e.open.dueBy(at.known, most)
	if len(places) == 0 {
		return nil, false, nil
	}
	subjects := map[history.Subject]bool{}
	for _, place := range places {
		subjects[place.Subject] = true
	}
	of := make([]history.Subject, 0, len(subjects))
	for s := range subjects {
		of = append(of, s)
	}
	if tasks, err = e.store.DuePending(ctx, of, at.known, most); err != nil {
		return nil, false, err
	}
	more = len(places) == most || len(tasks) == most
	if len(tasks) < most { // what is not among them is kept no longer
		kept := map[pendingPlace]bool{}
		for _, t := range tasks {
			kept[placeOf(t)] = true
		}
		for _, place := range places {
			if !kept[place] {
				delete(e.open.due, place)
			}
		}
	}
	return tasks, more, nil
}
