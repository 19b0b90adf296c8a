package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// The kinds of retry storm.
const (
	kindLoop         = "loop"
	kindSynchronised = "synchronised"
	kindSurge        = "surge"
)

// retryLoops finds the task ids that retry in a tight loop.
func (j *judge) retryLoops() []finding.Finding {
	byID := map[string][]*event.Event{}
	for _, r := range j.history.Runs {
		if r.End != nil && r.End.Type == event.Retried && !slices.Contains(j.config.Polling, r.Task) {
			byID[r.TaskID] = append(byID[r.TaskID], r.End)
		}
	}
	var found []finding.Finding
	for _, id := range j.history.TaskIDs() {
		retries := byID[id]
		slices.SortFunc(retries, func(a, b *event.Event) int { return a.Time.Compare(b.Time) })
		if len(retries) == 0 {
			continue
		}
		task := j.history.RunsOf(id)[0].Task
		loop := j.config.of(task).RetryLoop
		if densest := densest(retries, loop.Within); len(densest) >= loop.Retries {
			found = append(found, j.retryLoop(loop, task, id, retries, densest))
		}
	}
	return found
}

// densest gives the most events that lie within one span of time.
func densest(events []*event.Event, within time.Duration) []*event.Event {
	var best []*event.Event
	from := 0
	for to := range events {
		for events[to].Time.Sub(events[from].Time) > within {
			from++
		}
		if to-from+1 > len(best) {
			best = events[from : to+1]
		}
	}
	return best
}

func (j *judge) retryLoop(loop RetryLoop, task, id string, retries, densest []*event.Event) finding.Finding {
	s := j.history.Subject
	first, last := densest[0], densest[len(densest)-1]
	f := finding.Finding{
		ID:          finding.ID(RetryStorm, s.Namespace, task, kindLoop+"\x00"+s.String()+"\x00"+id),
		Rule:        RetryStorm,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{id},
		FirstSeen:   retries[0].Time,
		LastSeen:    retries[len(retries)-1].Time,
		Title:       fmt.Sprintf("%s for %s retries in a tight loop", nameOf(task), s),
		Fields:      map[string]any{"kind": kindLoop, "retries": len(retries), "peak": len(densest), "window_seconds": loop.Within.Seconds(), "error_type": errorType(last)},
		Evidence:    []finding.Evidence{quote(first, "the first of the densest stretch"), quote(last, "the last of it")},
		Remedy:      "Retry with a back-off that grows, with jitter and a bound; send the task to a dead letter queue when the bound is reached.",
	}
	f.Explanation = fmt.Sprintf("The task id %s retried %d times between %s and %s; a task that backs off retries fewer than %d times in %s.",
		id, len(densest), clock(first.Time), clock(last.Time), loop.Retries, span(loop.Within))
	doubt{}.into(&f)
	if t := errorType(last); t != "" {
		f.Explanation += fmt.Sprintf(" The last of them failed with %s.", t)
	}
	return f
}

func errorType(e *event.Event) string {
	if e.Error == nil {
		return ""
	}
	return e.Error.Type
}

const (
	minGap        = 1.0  // seconds: shorter is a loop, or a prefetched attempt, not a schedule
	gapTolerance  = 0.25 // seconds by which the gaps of a fixed interval may differ, however short it is
	gapShare      = 0.05 // and the share of the interval
	narrowSecond  = 0.3  // seconds: a wave that fills less of its second came at once
	waveFactor    = 5    // a wave stands out from the rate around it by this factor
	singleWaveIDs = 5    // one wave alone counts when it has this many times the ids asked for
)

// synchronised finds the tasks whose ids retry in lock-step: the gaps between their attempts are all alike, so that
// there is no jitter, and they fall on the same moments, so that the service is hit by all of them at once.
func synchronised(config *Config, waves []history.Wave) []finding.Finding {
	byTask := map[[4]string][]history.Wave{}
	for _, w := range waves {
		if !slices.Contains(config.Polling, w.Task) && config.on(RetryStorm, w.Task) {
			of := [4]string{w.Namespace, w.Task, w.Second.UTC().Format(time.DateOnly), w.Measure}
			byTask[of] = append(byTask[of], w)
		}
	}
	best := map[string]finding.Finding{}
	for of, all := range byTask {
		slices.SortFunc(all, func(a, b history.Wave) int { return a.Second.Compare(b.Second) })
		var lockStep []history.Wave
		for i, w := range all {
			if w.IDs >= config.LockStep.Tasks && regular(w) && (w.Breadth <= narrowSecond || standsOut(all, i)) {
				lockStep = append(lockStep, w)
			}
		}
		if len(lockStep) < 2 && !slices.ContainsFunc(lockStep, func(w history.Wave) bool { return w.IDs >= singleWaveIDs*config.LockStep.Tasks }) {
			continue
		}
		f := lockStepFinding(of, lockStep)
		if other, seen := best[f.ID]; !seen || other.Fields["waves"].(int) < len(lockStep) || other.Fields["waves"] == len(lockStep) && of[3] == "attempt" {
			best[f.ID] = f
		}
	}
	return sortedFindings(best)
}

// regular reports whether the gaps before the wave are alike: a fixed interval, without jitter.
func regular(w history.Wave) bool {
	return w.Gap >= minGap && w.GapHigh-w.GapLow <= max(gapTolerance, gapShare*w.Gap)
}

// standsOut reports whether wave i has far more ids than the seconds around it, over one interval to both sides but for
// the neighbouring waves of the same storm.
func standsOut(all []history.Wave, i int) bool {
	w := all[i]
	reach := time.Duration(w.Gap*float64(time.Second)) - 1500*time.Millisecond
	if reach < time.Second {
		return false
	}
	others := 0
	for _, o := range all {
		if d := o.Second.Sub(w.Second).Abs(); d > time.Second && d <= reach {
			others += o.IDs
		}
	}
	mean := float64(others) / (2 * reach.Seconds())
	return float64(w.IDs) >= waveFactor*mean
}

func lockStepFinding(of [4]string, waves []history.Wave) finding.Finding {
	namespace, task, day := of[0], of[1], of[2]
	peak := slices.MaxFunc(waves, func(a, b history.Wave) int { return cmp.Compare(a.IDs, b.IDs) })
	first, last := waves[0], waves[len(waves)-1]
	gap := time.Duration(peak.Gap * float64(time.Second)).Round(time.Millisecond)
	retries := 0
	for _, w := range waves {
		retries += w.IDs
	}
	f := finding.Finding{
		ID:        finding.ID(RetryStorm, namespace, task, kindSynchronised+"\x00"+day),
		Rule:      RetryStorm,
		Severity:  finding.Warning,
		Namespace: namespace,
		Task:      task,
		TaskIDs:   peak.TaskIDs,
		FirstSeen: first.First,
		LastSeen:  last.Last,
		Title:     fmt.Sprintf("%s retries in lock-step: %d tasks every %s", nameOf(task), peak.IDs, span(gap)),
		Fields: map[string]any{"kind": kindSynchronised, "tasks": peak.IDs, "waves": len(waves), "retries": retries,
			"interval_seconds": peak.Gap, "peak_at": peak.First, "breadth_seconds": peak.Last.Sub(peak.First).Seconds(), "error_type": peak.ErrorType},
		Remedy: "Add jitter to the retry's delay and let it grow, so that the retries of one outage spread out; a circuit breaker keeps them from a service that is down.",
	}
	f.Explanation = fmt.Sprintf("%d tasks came to their retry within %s of each other at %s, each %s after its last failure, with no jitter. ",
		peak.IDs, span(peak.Last.Sub(peak.First)), clock(peak.First), span(gap))
	if len(waves) > 1 {
		f.Explanation += fmt.Sprintf("It happened in %d waves from %s to %s, %d retries in all. ", len(waves), clock(first.First), clock(last.Last), retries)
	}
	f.Explanation += "The service that they call is hit by all of them at once."
	if peak.ErrorType != "" {
		f.Explanation += fmt.Sprintf(" They fail with %s.", peak.ErrorType)
	}
	f.Explanation = sameDay(f.Explanation)
	doubt{}.into(&f)
	return f
}

const minBaseMinutes = 30 // minutes with runs that make a baseline

// surges finds the tasks whose share of retries jumps against their own past.
func surges(config *Config, minutes []history.Minute) []finding.Finding {
	byTask := map[[2]string][]history.Minute{}
	for _, m := range minutes {
		if m.Task != "" && !slices.Contains(config.Polling, m.Task) && config.on(RetryStorm, m.Task) {
			of := [2]string{m.Namespace, m.Task}
			byTask[of] = append(byTask[of], m)
		}
	}
	best := map[string]finding.Finding{}
	for of, all := range byTask {
		slices.SortFunc(all, func(a, b history.Minute) int { return a.Minute.Compare(b.Minute) })
		for i := range all {
			if f, ok := surge(config, of, all[:i+1]); ok {
				if earlier, seen := best[f.ID]; seen {
					f.FirstSeen = earlier.FirstSeen
					if earlier.Fields["retries"].(int) > f.Fields["retries"].(int) {
						earlier.LastSeen = f.LastSeen
						f = earlier
					}
				}
				best[f.ID] = f
			}
		}
	}
	return sortedFindings(best)
}

// surge judges the window that ends with the last of a task's minutes.
func surge(config *Config, of [2]string, minutes []history.Minute) (finding.Finding, bool) {
	s := config.RetrySurge
	end := minutes[len(minutes)-1].Minute.Add(time.Minute)
	from, baseFrom := end.Add(-s.Window), end.Add(-s.Window-s.Base)
	var now, base history.Minute
	baseMinutes := 0
	for _, m := range minutes {
		switch {
		case !m.Minute.Before(from):
			now.Runs, now.Retries = now.Runs+m.Runs, now.Retries+m.Retries
		case !m.Minute.Before(baseFrom):
			base.Runs, base.Retries = base.Runs+m.Runs, base.Retries+m.Retries
			baseMinutes++
		}
	}
	usual := amplification(base)
	if now.Retries < s.Retries || baseMinutes < minBaseMinutes || amplification(now) < max(0.5, s.Factor*usual) {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		ID:        finding.ID(RetryStorm, of[0], of[1], kindSurge+"\x00"+end.UTC().Format(time.DateOnly)),
		Rule:      RetryStorm,
		Severity:  finding.Warning,
		Namespace: of[0],
		Task:      of[1],
		FirstSeen: from,
		LastSeen:  end,
		Title:     fmt.Sprintf("%s retries %.1f times per first run (usual %.2f)", nameOf(of[1]), amplification(now), usual),
		Fields:    map[string]any{"kind": kindSurge, "retries": now.Retries, "retries_per_run": amplification(now), "usual_retries_per_run": usual, "window_seconds": s.Window.Seconds()},
		Remedy:    "Look at the service that the task calls; bound the retries, let their delay grow, and add a circuit breaker.",
	}
	f.Explanation = fmt.Sprintf("Between %s and %s the task retried %d times, %.1f retries per first run; in the %s before it was %.2f.",
		clock(from), clock(end), now.Retries, amplification(now), span(s.Base), usual)
	doubt{}.into(&f)
	return f, true
}

// amplification is retries per first run.
func amplification(m history.Minute) float64 {
	return float64(m.Retries) / float64(max(1, m.Runs-m.Retries))
}

func sortedFindings(byID map[string]finding.Finding) []finding.Finding {
	var all []finding.Finding
	for _, f := range byID {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b finding.Finding) int {
		return cmp.Or(a.FirstSeen.Compare(b.FirstSeen), cmp.Compare(a.ID, b.ID))
	})
	return all
}
