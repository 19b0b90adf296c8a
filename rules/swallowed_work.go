package rules

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// aside is a run that stood aside as a copy, and what became of the work that it left to another.
type aside struct {
	run    *history.Run
	holder *history.Run // the run that it left the work to, as far as it can be told; nil: none is known
	dead   bool         // the holder had ended without success, or was gone, when this run stood aside
	done   time.Time    // when the work was done for it; zero: it was not
	due    time.Time    // when it counts as swallowed if it is not done by then
}

// swallowedWork finds the tasks of which runs stood aside as copies although the work was never done for the history's
// subject, or not while a holder that had failed still blocked it. It also gives, by task id, the runs that
// stood aside for work that is not due yet.
func (j *judge) swallowedWork() (found []finding.Finding, waits map[string]aside) {
	waits = map[string]aside{}
	byTask := map[string][]*history.Run{}
	var tasks []string
	for _, r := range j.history.Runs {
		if byTask[r.Task] == nil {
			tasks = append(tasks, r.Task)
		}
		byTask[r.Task] = append(byTask[r.Task], r)
	}
	for _, task := range tasks {
		var swallowed []aside
		for _, r := range byTask[task] {
			if !r.Skipped() {
				continue
			}
			a := j.aside(r, byTask[task])
			switch {
			case !a.done.IsZero() && !a.done.After(a.due):
			case !a.done.IsZero() && !a.dead: // it took long, but nothing shows that it was blocked wrongly
			case a.holder == nil && j.cut: // the work may have been done before what was read
			case a.due.After(j.asOf) && !(a.dead && a.holder.TaskID != r.TaskID && a.run.End.Skip != nil && a.run.End.Skip.Holder != ""):
				waits[r.TaskID] = a
			default:
				swallowed = append(swallowed, a)
			}
		}
		if len(swallowed) > 0 {
			found = append(found, j.swallowed(task, swallowed))
		}
	}
	return found, waits
}

// aside tells what became of the work that r left to another of the runs.
func (j *judge) aside(r *history.Run, runs []*history.Run) aside {
	a := aside{run: r, due: r.End.Time.Add(j.config.of(r.Task).Swallowed)}
	a.holder = j.holderOf(r, runs)
	from := time.Time{}
	if h := a.holder; h != nil {
		a.dead = j.dead(h, r.End.Time)
		if a.dead {
			from = h.WorkFrom() // what was done before belongs to other work: the key is used again and again
		} else if h.End == nil || h.End.Type == event.Retried {
			a.due = later(a.due, j.expected(h))
		}
	}
	for _, other := range runs {
		done := doneAt(other)
		if done.IsZero() || done.Before(from) {
			continue
		}
		if !other.Begin().After(r.End.Time) && done.After(a.due) {
			done = a.due // it was at work when r stood aside: however long it took, r left the work to it rightly
		}
		if a.done.IsZero() || done.Before(a.done) {
			a.done = done
		}
	}
	return a
}

// leftToTheUnseen reports whether a run stood aside for work of which nothing is known: it may have been done before what was
// read.
func (j *judge) leftToTheUnseen() bool {
	return slices.ContainsFunc(j.history.Runs, func(r *history.Run) bool {
		return r.Skipped() && !slices.ContainsFunc(j.history.Runs, func(other *history.Run) bool {
			return other.Task == r.Task && (held(other) || !doneAt(other).IsZero())
		})
	})
}

// holderOf gives the run that r stood aside for: the last of the task id that r names; where it names none that is known and says
// that the work was done, the last that did it within the look-back; or else the last other run of the task that had begun by then
// and did not stand aside itself.
func (j *judge) holderOf(r *history.Run, runs []*history.Run) *history.Run {
	named, reason := "", ""
	if r.End.Skip != nil {
		named, reason = r.End.Skip.Holder, r.End.Skip.Reason
	}
	var holder *history.Run
	if reason == "already_processed" && named == "" {
		for _, other := range runs {
			ago := r.End.Time.Sub(doneAt(other))
			if other != r && ago > -j.config.ClockSkew && ago < j.config.lookBack(r.Task) {
				holder = other
			}
		}
		if holder != nil {
			return holder
		}
	}
	for _, wanted := range []string{named, ""} {
		for _, other := range runs {
			if other != r && held(other) && other.Begin().Before(r.End.Time.Add(j.config.ClockSkew)) && (wanted == "" || other.TaskID == wanted) {
				holder = other
			}
		}
		if holder != nil {
			return holder
		}
	}
	return nil
}

// held reports whether a run may have taken the work on itself: one that was revoked only if it had begun.
func held(r *history.Run) bool { return !r.StoodAside() || !r.Skipped() && r.Ran() }

// dead reports whether the holder could not do the work any more at t: it had failed or been revoked, or its worker was gone.
func (j *judge) dead(h *history.Run, t time.Time) bool {
	if h.End != nil {
		over := !h.End.Time.Add(j.config.ClockSkew).After(t)
		switch h.End.Type {
		case event.Failed, event.Revoked, event.WorkerLost:
			return over
		case event.Rejected:
			return over && !h.End.Requeue
		}
		return false
	}
	l := j.pulse.of(j.history.Subject.Namespace, h, t)
	return l.state == gone && l.why != silent
}

// expected is when a run that has not ended, or that waits for its next attempt, must have come to its end.
func (j *judge) expected(h *history.Run) time.Time {
	from := h.WorkFrom()
	if h.End != nil {
		from = h.End.Time
		if h.End.RetryIn > 0 {
			from = from.Add(time.Duration(h.End.RetryIn) * time.Second)
		}
	}
	return from.Add(j.stuckAfter(h.Task))
}

// doneAt is when a run did the work: its success or, where it has none, its last effect that was no dropped copy.
func doneAt(r *history.Run) time.Time {
	if done := doneSuccess(r); !done.IsZero() {
		return done
	}
	for _, e := range slices.Backward(r.Effects) {
		if !e.Effect.Deduplicated {
			return e.Time
		}
	}
	return time.Time{}
}

// doneSuccess is when a run said that it had succeeded, be it beside another end; zero when it did not.
func doneSuccess(r *history.Run) time.Time {
	for _, e := range append([]*event.Event{r.End}, r.Conflicting...) {
		if e != nil && e.Type == event.Succeeded {
			return e.Time
		}
	}
	return time.Time{}
}

func (j *judge) swallowed(task string, all []aside) finding.Finding {
	s, first, last := j.history.Subject, all[0], all[len(all)-1]
	f := finding.Finding{
		ID:          finding.ID(SwallowedWork, s.Namespace, task, s.String()),
		Rule:        SwallowedWork,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        task,
		BusinessKey: s.BusinessKey,
		FirstSeen:   first.run.End.Time,
		LastSeen:    last.run.End.Time,
		Fields: map[string]any{
			"skips": len(all), "reasons": reasonsOf(all), "holder": "", "holder_end": "", "first_skip": first.run.End.Time, "last_skip": last.run.End.Time, "done_at": nil,
		},
		Evidence: []finding.Evidence{quote(first.run.End, "stood aside")},
	}
	if last.run != first.run {
		f.Evidence = append(f.Evidence, quote(last.run.End, "still stood aside"))
	}
	for _, a := range all {
		if !slices.Contains(f.TaskIDs, a.run.TaskID) {
			f.TaskIDs = append(f.TaskIDs, a.run.TaskID)
		}
	}
	var d doubt
	text := fmt.Sprintf("%d runs stood aside as copies between %s and %s", len(all), clock(f.FirstSeen), clock(f.LastSeen))
	if len(all) == 1 {
		text = fmt.Sprintf("%s stood aside as a copy at %s", workerOf(first.run), clock(f.FirstSeen))
	}
	text += fmt.Sprintf(" (%s), but ", wordsOf(reasonsOf(all)))
	if h := last.holder; h != nil {
		f.Fields["holder"] = h.TaskID
		f.Evidence = append([]finding.Evidence{quote(beginOf(h), "the run that they left the work to began")}, f.Evidence...)
		switch {
		case h.End != nil:
			f.Fields["holder_end"] = h.End.Type
			f.Evidence = append(f.Evidence, quote(h.End, "the end of the run that they left the work to"))
			text += fmt.Sprintf("the run that they left the work to (%s) had ended in %s at %s. ", h.TaskID, failure(h.End), clock(h.End.Time))
		case last.dead:
			f.Fields["holder_end"] = "worker_lost"
			text += fmt.Sprintf("the run that they left the work to (%s) was gone with its worker, last heard of at %s. ", h.TaskID, clock(h.LastSeen()))
		default:
			text += fmt.Sprintf("the run that they left the work to (%s) has no end. ", h.TaskID)
		}
		j.doubtEnd(&d, h)
	} else {
		text += "no run that could have done the work is known. "
		f.Severity = finding.Info
		d.raise(unsure, "The run that they left the work to was not seen: it may have done the work before the first event that is kept.")
	}
	f.Title = fmt.Sprintf("%s for %s was skipped as done and never succeeded", nameOf(task), s)
	f.Remedy = "Write the dedup record in the same transaction as the work, or as pending first and done after it, and release it when the run fails; give a lock an owner and a time to live a little above the longest run, " +
		"and let whoever finds it look whether its owner still lives."
	if done := last.done; !done.IsZero() {
		f.Title = fmt.Sprintf("%s for %s was skipped as done for %s before it succeeded", nameOf(task), s, span(done.Sub(f.FirstSeen)))
		f.Fields["done_at"] = done
		text += fmt.Sprintf("The work was done only at %s, %s after the first run had stood aside.", clock(done), span(done.Sub(f.FirstSeen)))
	} else {
		text += "No run of this task has succeeded for this key since: the work was not done."
	}
	d.into(&f)
	f.Explanation = sameDay(text)
	return f
}

func reasonsOf(all []aside) []string {
	reasons := []string{}
	for _, a := range all {
		reason := "no reason told"
		if a.run.End.Skip != nil && a.run.End.Skip.Reason != "" {
			reason = a.run.End.Skip.Reason
		}
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}
