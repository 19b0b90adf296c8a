package rules

import (
	"fmt"
	"slices"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// partialEffects finds the tasks that do several effects of which some were done for the history's subject, and the others
// not, when the work ended for good: in failure, or because it was lost.
//
// Which effects a task does is told by the configuration or learned from its successful runs. Where neither is known, a
// run that did an effect to several targets before it was lost or failed counts.
func (j *judge) partialEffects() []finding.Finding {
	byTask := map[string][]*history.Run{}
	var tasks []string
	for _, r := range j.history.Runs {
		if r.Ran() && !r.Skipped() {
			if byTask[r.Task] == nil {
				tasks = append(tasks, r.Task)
			}
			byTask[r.Task] = append(byTask[r.Task], r)
		}
	}
	var found []finding.Finding
	for _, task := range tasks {
		if f, ok := j.partial(task, byTask[task]); ok {
			found = append(found, f)
		}
	}
	return found
}

func (j *judge) partial(task string, runs []*history.Run) (finding.Finding, bool) {
	last := runs[0]
	var effects []*event.Event
	for _, r := range runs {
		if !doneSuccess(r).IsZero() {
			return finding.Finding{}, false
		}
		if r.LastSeen().After(last.LastSeen()) {
			last = r
		}
		for _, e := range r.Effects {
			if !j.config.ignoresEffect(task, e.Effect.Name) {
				effects = append(effects, e)
			}
		}
	}
	if len(effects) == 0 || !j.over(last) {
		return finding.Finding{}, false
	}
	names, targets := []string{}, []string{}
	for _, e := range effects {
		if !slices.Contains(names, e.Effect.Name) {
			names = append(names, e.Effect.Name)
		}
		if target := e.Effect.Name + "\x00" + e.Effect.Target; e.Effect.Target != "" && !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(j.usual[task]), func(name string) bool {
		return slices.Contains(names, name) || j.config.ignoresEffect(task, name)
	})
	if len(missing) == 0 && (len(j.usual[task]) > 1 || len(targets) < 2) {
		return finding.Finding{}, false
	}
	return j.partialFinding(task, last, effects, names, missing, len(targets)), true
}

// over reports whether the work has ended for good with this run, its last.
func (j *judge) over(r *history.Run) bool {
	if r.End == nil {
		l := j.pulse.of(j.history.Subject.Namespace, r, j.asOf)
		return l.state == gone && !j.expected(r).After(j.asOf)
	}
	switch r.End.Type {
	case event.Failed, event.Revoked:
		return true
	case event.Rejected:
		return !r.End.Requeue
	case event.WorkerLost:
		return !j.expected(r).After(j.asOf)
	}
	return false
}

func (j *judge) partialFinding(task string, last *history.Run, effects []*event.Event, names, missing []string, targets int) finding.Finding {
	s := j.history.Subject
	slices.SortStableFunc(effects, func(a, b *event.Event) int { return a.Time.Compare(b.Time) })
	end := "the worker was lost"
	if last.End != nil {
		end = "it ended in " + failure(last.End)
	}
	f := finding.Finding{
		ID:          finding.ID(PartialEffects, s.Namespace, task, s.String()),
		Rule:        PartialEffects,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{last.TaskID},
		FirstSeen:   effects[0].Time,
		LastSeen:    last.LastSeen(),
		Fields:      map[string]any{"done": names, "not_done": missing, "targets": targets, "worker": last.Worker, "error_type": ""},
		Evidence:    []finding.Evidence{quote(effects[0], "the first effect that was done")},
		Remedy: "Make each effect a task of its own that follows the one before, or note each effect as done beside the work so that a later run goes on where this one ended; " +
			"put what can fail before the first effect.",
	}
	if n := len(effects); n > 1 {
		f.Evidence = append(f.Evidence, quote(effects[n-1], "the last"))
	}
	if last.End != nil {
		f.Evidence = append(f.Evidence, quote(last.End, "the end"))
		f.Fields["error_type"] = errorType(last.End)
	}
	var d doubt
	did := wordsOf(names)
	if len(missing) > 0 {
		f.Title = fmt.Sprintf("%s for %s was done by halves: %s without %s", nameOf(task), s, did, wordsOf(missing))
		f.Explanation = fmt.Sprintf("The task does %s. For this key %s was done by %s, then %s, and %s was not done; no other run completed it.",
			wordsOf(j.usual[task]), did, clock(effects[len(effects)-1].Time), end, wordsOf(missing))
	} else {
		d.raise(likely, "How many targets there were to be is not told.")
		f.Title = fmt.Sprintf("%s for %s ended after %s to %d targets", nameOf(task), s, did, targets)
		f.Explanation = fmt.Sprintf("%s was done to %d targets between %s and %s, then %s, and no other run completed it: targets that were still to come were left out.",
			did, targets, clock(effects[0].Time), clock(effects[len(effects)-1].Time), end)
	}
	j.doubtEnd(&d, last)
	if d.level == slices.Index(certainties, unsure) {
		f.Severity = finding.Info
	}
	d.into(&f)
	f.Explanation = sameDay(f.Explanation)
	return f
}

// partialSuspects lists the tasks that did effects and did not succeed, of which it has to be known which effects they do.
func partialSuspects(h *history.History) []string {
	did, succeeded := map[string]bool{}, map[string]bool{}
	for _, r := range h.Runs {
		did[r.Task] = did[r.Task] || len(r.Effects) > 0
		succeeded[r.Task] = succeeded[r.Task] || !doneSuccess(r).IsZero()
	}
	var tasks []string
	for task := range did {
		if did[task] && !succeeded[task] && task != "" {
			tasks = append(tasks, task)
		}
	}
	slices.Sort(tasks)
	return tasks
}
