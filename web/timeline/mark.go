package timeline

import (
	"fmt"
	"slices"

	"auditor/event"
	"auditor/event/history"
)

// kind is what a mark is beside the others of its effect.
type kind int

const (
	first   kind = iota
	extra        // beyond the first
	guarded      // beyond the first, under the first one's idempotency key
	dropped      // its receiver recognised a copy and dropped it
)

var kindClass = [...]string{first: "first", extra: "extra", guarded: "guarded", dropped: "dropped"}

// mark is one effect.
type mark struct {
	event  *event.Event
	what   string // the effect's name and target, or that of a task's own success
	number int    // 1-based among the effects of its name and target; 0 when dropped
	of     int    // how many there are
	kind   kind
}

func (m mark) String() string {
	switch m.kind {
	case dropped:
		return fmt.Sprintf("%s, a copy that the receiver dropped", m.what)
	case guarded:
		return fmt.Sprintf("%s, %d of %d, under the same idempotency key", m.what, m.number, m.of)
	}
	return fmt.Sprintf("%s, %d of %d", m.what, m.number, m.of)
}

// number finds what each run did to the world and counts it in order of time.
func number(h *history.History) map[*history.Run][]mark {
	type found struct {
		run *history.Run
		mark
	}
	reports := map[string]bool{} // tasks that report effects
	for _, r := range h.Runs {
		if len(r.Effects) > 0 {
			reports[r.Task] = true
		}
	}
	var all []found
	for _, r := range h.Runs {
		for _, e := range r.Effects {
			all = append(all, found{r, mark{event: e, what: effectName(e)}})
		}
		if !reports[r.Task] && r.Succeeded() {
			all = append(all, found{r, mark{event: r.End, what: "success of " + taskName(r)}})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.event.Time.Compare(b.event.Time) })

	counts := map[string]int{}
	keys := map[string]string{}
	for i := range all {
		m := &all[i].mark
		if m.event.Effect != nil && m.event.Effect.Deduplicated {
			m.kind = dropped
			continue
		}
		counts[m.what]++
		m.number = counts[m.what]
		key := ""
		if m.event.Effect != nil {
			key = m.event.Effect.IdempotencyKey
		}
		switch {
		case m.number == 1:
			keys[m.what] = key
		case key != "" && key == keys[m.what]:
			m.kind = guarded
		default:
			m.kind = extra
		}
	}
	marks := map[*history.Run][]mark{}
	for _, f := range all {
		f.of = counts[f.what]
		marks[f.run] = append(marks[f.run], f.mark)
	}
	return marks
}

func effectName(e *event.Event) string {
	if e.Effect == nil {
		return "effect"
	}
	if e.Effect.Target != "" {
		return e.Effect.Name + " to " + e.Effect.Target
	}
	return e.Effect.Name
}

func taskName(r *history.Run) string {
	if r.Task == "" {
		return "the task"
	}
	return r.Task
}

// gap is the time that led to a run: since the delivery before it, since the end of the attempt before it, or since the
// last that was seen of a run which never ended.
type gap struct {
	from, to *history.Run
	span
	says string // what the length is measured from
}

// gaps finds what led to each further run of a task id.
func gaps(h *history.History) []gap {
	last := map[string]*history.Run{}
	var found []gap
	for _, r := range h.Runs {
		before := last[r.TaskID]
		last[r.TaskID] = r
		if before == nil {
			continue
		}
		g := gap{from: before, to: r, span: span{before.LastSeen(), r.Begin()}, says: "after the last sign of the run"}
		switch {
		case before.End != nil && !before.End.Time.After(r.Begin()):
			g.span.from, g.says = before.End.Time, "after the end of the run"
			if before.End.Type == event.Retried {
				g.says = "until the retry"
			}
		case before.End != nil || before.LastSeen().After(r.Begin()):
			g.span.from, g.says = before.Begin(), "after the delivery of a run that was still under way"
		}
		if g.length() > 0 {
			found = append(found, g)
		}
	}
	return found
}

// timeOut names the time-out that the gap fits, as it was found for this history. It goes from delivery to delivery, and
// fits no run that followed one which had ended in order.
func (t *Timeline) timeOut(g gap) string {
	if g.from.End != nil && !g.from.End.Time.After(g.to.Begin()) {
		return ""
	}
	length := g.to.Begin().Sub(g.from.Begin())
	for _, known := range t.options.TimeOuts {
		if (length - known.Gap).Abs() <= known.Gap/30 {
			return known.Name
		}
	}
	return ""
}

func (t *Timeline) sayGap(g gap) string {
	text := Length(g.length()) + " " + g.says
	if name := t.timeOut(g); name != "" {
		text += ", fits " + name
	}
	return text
}
