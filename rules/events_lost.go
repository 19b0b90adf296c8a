package rules

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// lostEvents judges the emitters that were heard of since a time: which of their numbers are missing. It gives a finding for each
// emitter with a gap, and the ids of the findings of those that have none, or none any more.
func (e *Engine) lostEvents(ctx context.Context, since time.Time, at moment) (found []finding.Finding, gone []string, err error) {
	if !since.IsZero() {
		since = since.Add(-2 * e.config.Lost) // a gap is looked at again when it has lasted, even though nothing more was heard
	}
	emitters, err := e.store.Emitters(ctx, since)
	if err != nil {
		return nil, nil, fmt.Errorf("find who numbers events: %w", err)
	}
	seen := map[gapID]time.Time{}
	for namespace, names := range emitters {
		gaps, err := e.store.Gaps(ctx, namespace, names, e.numbersSince(at))
		if err != nil {
			return nil, nil, fmt.Errorf("read the emitters' numbers: %w", err)
		}
		byEmitter := map[string][]history.Gap{}
		for _, g := range gaps {
			if !at.past || !g.After.After(at.now) {
				byEmitter[g.Emitter] = append(byEmitter[g.Emitter], g)
			}
		}
		for _, name := range names {
			lasting := e.lasting(byEmitter[name], seen, at)
			switch {
			case len(lasting) > 0:
				found = append(found, eventsLost(namespace, name, lasting))
			case len(byEmitter[name]) == 0:
				gone = append(gone, lostID(namespace, name))
			}
		}
	}
	e.gapsSeen = seen
	return e.newlyLost(ctx, found, gone, at)
}

// newlyLost leaves the findings as they are that say nothing new: when the numbers were missing is an estimate, which changes with
// each event around them, and gaps that lie before the numbers that are read were not closed.
func (e *Engine) newlyLost(ctx context.Context, found []finding.Finding, gone []string, at moment) ([]finding.Finding, []string, error) {
	ids := slices.Clone(gone)
	for _, f := range found {
		ids = append(ids, f.ID)
	}
	known, err := e.store.Findings(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("read what is known of lost events: %w", err)
	}
	since := e.numbersSince(at)
	found = slices.DeleteFunc(found, func(f finding.Finding) bool {
		old, exists := known[f.ID]
		return exists && agree(old, f, "last_missing") && (old.FirstSeen.Before(since) || agree(old, f, "lost", "first_missing"))
	})
	gone = slices.DeleteFunc(gone, func(id string) bool { return known[id].LastSeen.Before(since) })
	return found, gone, nil
}

// agree reports whether findings say the same in some of their own fields.
func agree(a, b finding.Finding, fields ...string) bool {
	return !slices.ContainsFunc(fields, func(field string) bool {
		x, _ := json.Marshal(a.Fields[field])
		y, _ := json.Marshal(b.Fields[field])
		return !bytes.Equal(x, y)
	})
}

// lasting keeps the gaps that have been seen for so long that nothing that is still on its way can close them, and notes since
// when each of them has been seen.
func (e *Engine) lasting(gaps []history.Gap, seen map[gapID]time.Time, at moment) []history.Gap {
	if at.past {
		return gaps
	}
	var lasting []history.Gap
	for _, g := range gaps {
		of := gapID{g.Namespace, g.Emitter, g.First}
		first, known := e.gapsSeen[of]
		if !known {
			first = at.now
		}
		seen[of] = first
		if at.now.Sub(first) >= e.config.Lost {
			lasting = append(lasting, g)
		}
	}
	return lasting
}

// gapsOpen reports whether there are gaps that had not lasted long enough when they were last looked at, so that nothing more
// need be heard for them to be judged; gapsDue, whether one of them has by now.
func (e *Engine) gapsOpen() bool { return e.gapsDue(e.populations.judgedAt.Add(e.config.Lost)) }

func (e *Engine) gapsDue(now time.Time) bool {
	for _, first := range e.gapsSeen {
		if e.populations.judgedAt.Sub(first) < e.config.Lost && now.Sub(first) >= e.config.Lost {
			return true
		}
	}
	return false
}

// gapID is where an emitter's gap begins.
type gapID struct {
	namespace, emitter string
	first              int64
}

func lostID(namespace, emitter string) string { return finding.ID(EventsLost, namespace, "", emitter) }

// maxGaps is how many gaps of an emitter a finding lists.
const maxGaps = 20

func eventsLost(namespace, emitter string, gaps []history.Gap) finding.Finding {
	first, last := gaps[0], gaps[len(gaps)-1]
	lost := int64(0)
	listed := []map[string]any{}
	for _, g := range gaps {
		lost += g.Last - g.First + 1
		if len(listed) < maxGaps {
			listed = append(listed, map[string]any{"first": g.First, "last": g.Last, "after": g.After, "before": g.Before})
		}
	}
	f := finding.Finding{
		ID:        lostID(namespace, emitter),
		Rule:      EventsLost,
		Severity:  finding.Warning,
		Namespace: namespace,
		FirstSeen: first.After,
		LastSeen:  last.Before,
		Title:     fmt.Sprintf("%d events of %s were lost", lost, emitter),
		Fields: map[string]any{"emitter": emitter, "lost": lost, "first_missing": first.First, "last_missing": last.Last, "gaps": listed,
			"gap_count": len(gaps)},
		Remedy: "Look at the emitter's own counters of what it dropped, at its buffer and its connection to Kafka at that time (acks=all, enough retries, a flush before the process ends), and at records that were rejected. " +
			"What is said of tasks of this emitter at that time may lack its evidence.",
	}
	if lost == 1 {
		f.Title = fmt.Sprintf("an event of %s was lost", emitter)
	}
	doubt{}.into(&f)
	f.Explanation = sameDay(fmt.Sprintf("%s numbers its events, and %s never arrived, though later ones did: between about %s and %s.",
		emitter, numberWords(gaps, lost), clock(first.After), clock(last.Before)))
	return f
}

func numberWords(gaps []history.Gap, lost int64) string {
	first, last := gaps[0].First, gaps[len(gaps)-1].Last
	switch {
	case lost == 1:
		return fmt.Sprintf("number %d", first)
	case len(gaps) == 1:
		return fmt.Sprintf("the numbers %d to %d", first, last)
	}
	return fmt.Sprintf("%d numbers between %d and %d, in %d gaps,", lost, first, last, len(gaps))
}
