package rules

import (
	"fmt"
	"slices"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// certainty is how sure the auditor is of a finding.
type certainty string

const (
	certain certainty = "certain" // the events show it
	likely  certainty = "likely"  // the events show the most of it, and nothing speaks against it
	unsure  certainty = "unsure"  // events are missing that would decide it
)

var certainties = []certainty{certain, likely, unsure}

// doubt is what keeps a finding from being certain. The zero value is none.
type doubt struct {
	missing []string // which evidence is missing, a sentence each
	level   int      // index in certainties
}

// raise adds a reason to doubt.
func (d *doubt) raise(to certainty, missing string) {
	d.level = max(d.level, slices.Index(certainties, to))
	if !slices.Contains(d.missing, missing) {
		d.missing = append(d.missing, missing)
	}
}

// into tells the finding how sure it is.
func (d doubt) into(f *finding.Finding) {
	f.Fields["certainty"] = string(certainties[d.level])
	if len(d.missing) > 0 {
		f.Fields["missing"] = d.missing
	}
}

// lostAfter gives the first numbers of the run's emitters that are missing after the last word of that run: its further
// events may be among them.
func (j *judge) lostAfter(r *history.Run) (history.Gap, bool) {
	last := map[string]int64{}
	for _, e := range r.Events {
		if e.Emitter != "" && e.Seq >= 0 {
			last[e.Emitter] = max(last[e.Emitter], e.Seq)
		}
	}
	for _, g := range j.gaps {
		if seq, ok := last[g.Emitter]; ok && g.Last > seq {
			return g, true
		}
	}
	return history.Gap{}, false
}

// doubtEnd raises doubt where the end of a run may have been lost on its way.
func (j *judge) doubtEnd(d *doubt, r *history.Run) {
	if r.End != nil {
		return
	}
	if g, ok := j.lostAfter(r); ok {
		d.raise(unsure, fmt.Sprintf("Events of %s were lost after the last word of the run on %s (numbers %d to %d): its end may have been among them.",
			g.Emitter, workerName(r), g.First, g.Last))
	}
}

// sameClock reports whether two runs were told by the clock of one machine.
func sameClock(a, b *history.Run) bool { return a.Worker != "" && a.Host() == b.Host() }

// emittersOf lists who told of the runs without an end, whose gaps decide whether those ends are missing.
func emittersOf(h *history.History) []string {
	var emitters []string
	for _, r := range h.Runs {
		if r.End != nil {
			continue
		}
		for _, e := range r.Events {
			if e.Emitter != "" && e.Seq != event.Unknown && !slices.Contains(emitters, e.Emitter) {
				emitters = append(emitters, e.Emitter)
			}
		}
	}
	return emitters
}

func workerName(r *history.Run) string {
	if r.Worker == "" {
		return "an unnamed worker"
	}
	return r.Worker
}
