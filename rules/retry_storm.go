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
	best := map[string]finding.Finding{}
	for of, lockStep := range inLockStep(config, waves) {
		if len(lockStep) < 2 && lockStep[0].IDs < singleWaveIDs*config.LockStep.Tasks {
			continue
		}
		f := lockStepFinding(of, lockStep)
		if other, seen := best[f.ID]; !seen || other.Fields["waves"].(int) < len(lockStep) || other.Fields["waves"] == len(lockStep) && of.measure == "attempt" {
			best[f.ID] = f
		}
	}
	return sortedFindings(best)
}

// waveDay is the waves of one task on one day, by one measure.
type waveDay struct {
	history.Task
	day     string
	measure string
}

// inLockStep gives the waves that are no chance, in order of time, where there are any.
func inLockStep(config *Config, waves []history.Wave) map[waveDay][]history.Wave {
	byDay := map[waveDay][]history.Wave{}
	for _, w := range waves {
		if !slices.Contains(config.Polling, w.Task) && config.on(RetryStorm, w.Task) {
			of := waveDay{history.Task{Namespace: w.Namespace, Name: w.Task}, w.Second.UTC().Format(time.DateOnly), w.Measure}
			byDay[of] = append(byDay[of], w)
		}
	}
	for of, all := range byDay {
		slices.SortFunc(all, func(a, b history.Wave) int { return a.Second.Compare(b.Second) })
		var lockStep []history.Wave
		for i, w := range all {
			if w.IDs >= config.LockStep.Tasks && regular(w) && (w.Breadth <= narrowSecond || standsOut(all, i)) {
				lockStep = append(lockStep, w)
			}
		}
		if byDay[of] = lockStep; len(lockStep) == 0 {
			delete(byDay, of)
		}
	}
	return byDay
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

func lockStepFinding(of waveDay, waves []history.Wave) finding.Finding {
	namespace, task, day := of.Namespace, of.Name, of.day
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

const (
	minBaseMinutes     = 30  // minutes with runs that make a baseline
	leastAmplification = 0.5 // retries per first run below which nothing is a surge
)

// surges finds the tasks whose share of retries jumps against their own past, in a window that ends at a time or later.
func surges(config *Config, minutes []history.Minute, since time.Time) []finding.Finding {
	best := map[string]finding.Finding{}
	for _, w := range surgeWindows(config, minutes, since) {
		f, ok := surge(config, w)
		if !ok {
			continue
		}
		if earlier, seen := best[f.ID]; seen {
			f.FirstSeen = earlier.FirstSeen
			if earlier.Fields["retries"].(int) > f.Fields["retries"].(int) {
				earlier.LastSeen = f.LastSeen
				f = earlier
			}
		}
		best[f.ID] = f
	}
	return sortedFindings(best)
}

// surgeWindow is what a task did in the window up to a time, and in the time before it that it is compared with.
type surgeWindow struct {
	of          history.Task
	end         time.Time
	now, base   history.Minute
	baseMinutes int
}

// surgeWindows gives the windows in which a task retries so often that it may be a surge, and that end at a time or later; those of a
// task in order of time.
func surgeWindows(config *Config, minutes []history.Minute, since time.Time) []surgeWindow {
	byTask := map[history.Task][]history.Minute{}
	for _, m := range minutes {
		if m.Task != "" && !slices.Contains(config.Polling, m.Task) && config.on(RetryStorm, m.Task) {
			of := history.Task{Namespace: m.Namespace, Name: m.Task}
			byTask[of] = append(byTask[of], m)
		}
	}
	s := config.RetrySurge
	var windows []surgeWindow
	for of, all := range byTask {
		slices.SortFunc(all, func(a, b history.Minute) int { return a.Minute.Compare(b.Minute) })
		w := surgeWindow{of: of}
		first, baseFirst := 0, 0 // minute of the window, and of the time before it
		for _, m := range all {
			w.end = m.Minute.Add(time.Minute)
			w.now.Runs, w.now.Retries = w.now.Runs+m.Runs, w.now.Retries+m.Retries
			for ; all[first].Minute.Before(w.end.Add(-s.Window)); first++ {
				w.now.Runs, w.now.Retries = w.now.Runs-all[first].Runs, w.now.Retries-all[first].Retries
				w.base.Runs, w.base.Retries = w.base.Runs+all[first].Runs, w.base.Retries+all[first].Retries
			}
			for ; all[baseFirst].Minute.Before(w.end.Add(-s.Window - s.Base)); baseFirst++ {
				w.base.Runs, w.base.Retries = w.base.Runs-all[baseFirst].Runs, w.base.Retries-all[baseFirst].Retries
			}
			w.baseMinutes = first - baseFirst
			if !w.end.Before(since) && w.now.Retries >= s.Retries && amplification(w.now) >= leastAmplification {
				windows = append(windows, w)
			}
		}
	}
	return windows
}

// surge judges a window.
func surge(config *Config, w surgeWindow) (finding.Finding, bool) {
	s := config.RetrySurge
	of, now, end, from := w.of, w.now, w.end, w.end.Add(-s.Window)
	usual := amplification(w.base)
	if w.baseMinutes < minBaseMinutes || amplification(now) < s.Factor*usual {
		return finding.Finding{}, false
	}
	f := finding.Finding{
		ID:        finding.ID(RetryStorm, of.Namespace, of.Name, kindSurge+"\x00"+end.UTC().Format(time.DateOnly)),
		Rule:      RetryStorm,
		Severity:  finding.Warning,
		Namespace: of.Namespace,
		Task:      of.Name,
		FirstSeen: from,
		LastSeen:  end,
		Title:     fmt.Sprintf("%s retries %.1f times per first run (usual %.2f)", nameOf(of.Name), amplification(now), usual),
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
