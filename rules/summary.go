package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"auditor/event/finding"
	"auditor/event/history"
)

// summarise tells judges whose history was cut what all events of their subjects come to.
func (e *Engine) summarise(ctx context.Context, judges []*judge, r reach, at moment) error {
	var subjects []history.Subject
	for _, j := range judges {
		if j.cut {
			subjects = append(subjects, j.history.Subject)
		}
	}
	if len(subjects) == 0 {
		return nil
	}
	summaries, err := e.store.Summaries(ctx, subjects, r.since, at.limit())
	if err != nil {
		return fmt.Errorf("summarise histories: %w", err)
	}
	for _, j := range judges {
		j.summary = summaries[j.history.Subject]
	}
	return nil
}

// complete tells in a finding of a history that was cut how much there is of it in truth.
func (j *judge) complete(f *finding.Finding) {
	f.Fields["truncated"] = true
	f.Explanation += fmt.Sprintf(" The key has %d events of %d task ids, more than are read at once: this quotes its newest %d",
		j.summary.Events, j.summary.Tasks, j.config.MaxKeyEvent)
	i := slices.IndexFunc(j.summary.Deeds, func(d history.Deed) bool {
		return f.Rule == RepeatedEffect && d.Effect == f.Fields["effect"] && d.Target == f.Fields["target"] && (d.Effect != "" || d.Task == f.Task)
	})
	if i < 0 || j.summary.Deeds[i].Count <= f.Effects {
		f.Explanation += "."
		return
	}
	d := j.summary.Deeds[i]
	f.Explanation += fmt.Sprintf(" and the first. In all it happened %s since %s.", times(d.Count), clock(d.First.Time))
	f.Title = fmt.Sprintf("%s %s for %s", cmp.Or(d.Effect, d.Task, "work done"), times(d.Count), j.history.Subject)
	f.Effects = d.Count
	if !d.First.Time.Before(f.FirstSeen) {
		return
	}
	f.FirstSeen = d.First.Time
	for k := range f.Evidence {
		if f.Evidence[k].Says == firstTime {
			f.Evidence[k].Says = "the earliest of those that were read"
		}
	}
	f.Evidence = slices.Insert(f.Evidence, 0, quote(&d.First, firstTime))
}
