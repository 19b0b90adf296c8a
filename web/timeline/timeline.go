// Package timeline draws the history of one key: every run as a bar on its worker's lane, every effect as a diamond.
//
// It is pure: a history in, an SVG and a table with the same content out. A run is solid when it succeeded, hatched when
// it failed or was retried, an outline when it stood aside, and fades where its end was never seen. Effects are numbered;
// the first is grey, those after it red, copies that carried the same idempotency key amber, copies that the receiver
// dropped hollow. Where a task reports no effects, its success counts as one. Stretches in which two runs of one task were
// under way are shaded, gaps that explain a run carry their length, and long idle stretches are folded with a visible
// break. More than Many runs are drawn as a summary: the first, the last and the densest stretch.
//
// Colours come from the style sheet by class, so that one drawing serves both themes and print.
package timeline

import (
	"cmp"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// Many is how many runs are drawn one by one; beyond it the drawing is a summary.
const Many = 200

// Options are how to draw.
type Options struct {
	ID    string         // distinguishes several drawings on one page; letters and digits
	Width int            // in the drawing's own units, which are pixels at full size; below 600 labels stand above their lanes
	Zone  *time.Location // of the times shown; nil: UTC
	// Link gives the address of an event's details; nil or empty: none.
	Link func(*event.Event) string
	// Heard is when the workers were heard of; a lane shows it as a thin line, which ends where its worker fell silent.
	Heard []history.Signal
	// Now is when the drawing is made: a task whose last run has no end is shown as waiting until then. Zero: the drawing
	// ends with the last event.
	Now time.Time
	// TimeOuts are those that gaps of this history were found to fit; a gap of about that length carries the name.
	TimeOuts []TimeOut
}

// TimeOut is a gap between two deliveries, and the name of the time-out that it fits.
type TimeOut struct {
	Name string
	Gap  time.Duration
}

// Timeline is a history laid out.
type Timeline struct {
	history *history.History
	options Options
	drawn   []*history.Run // those that are drawn one by one
	marks   map[*history.Run][]mark
	open    map[*history.Run]bool // see waiting
	gaps    []gap
	overlap []span
	lanes   []lane
	scale   scale
}

// New lays out a history. It needs at least one event; of none it draws an empty frame.
func New(h *history.History, options Options) *Timeline {
	if options.Zone == nil {
		options.Zone = time.UTC
	}
	options.Width = max(options.Width, 320)
	t := &Timeline{history: h, options: options, drawn: h.Runs}
	if len(h.Runs) > Many {
		t.drawn = summary(h.Runs)
	}
	t.marks = number(h)
	t.open = t.waiting()
	t.gaps = gaps(h)
	t.overlap = overlaps(h.Runs)
	t.lanes = layOut(t.drawn, t.narrow())
	t.scale = t.newScale()
	return t
}

// waiting gives the runs without an end that no further run of their task followed: for all that is known, they still run.
func (t *Timeline) waiting() map[*history.Run]bool {
	last := map[string]*history.Run{}
	for _, r := range t.history.Runs {
		last[r.TaskID] = r
	}
	open := map[*history.Run]bool{}
	for _, r := range last {
		if r.End == nil && t.options.Now.After(r.LastSeen()) {
			open[r] = true
		}
	}
	return open
}

// Summary reports whether some runs are left out of the drawing, and how many are in it.
func (t *Timeline) Summary() (drawn, all int, left bool) {
	return len(t.drawn), len(t.history.Runs), len(t.drawn) < len(t.history.Runs)
}

func (t *Timeline) narrow() bool { return t.options.Width < 600 }

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// alive is the stretch in which a run is known to have been under way: from its start, where that was seen, to its end
// or the last that was seen of it.
func alive(r *history.Run) span {
	from := r.Begin()
	if r.Started != nil {
		from = r.Started.Time
	}
	to := r.LastSeen()
	if r.End != nil {
		to = r.End.Time
	}
	if to.Before(from) {
		to = from
	}
	return span{from, to}
}

// summary picks the runs to draw of very many: the first, the last, and the densest stretch.
func summary(runs []*history.Run) []*history.Run {
	const ends, dense = 8, 24
	best := 0
	for i := 0; i+dense <= len(runs); i++ {
		length := runs[i+dense-1].Begin().Sub(runs[i].Begin())
		if length < runs[best+dense-1].Begin().Sub(runs[best].Begin()) {
			best = i
		}
	}
	picked := slices.Concat(runs[:ends], runs[best:best+dense], runs[len(runs)-ends:])
	slices.SortFunc(picked, func(a, b *history.Run) int { return cmp.Compare(a.Number, b.Number) })
	return slices.CompactFunc(picked, func(a, b *history.Run) bool { return a == b })
}

// overlaps gives the stretches in which two runs of one task were under way. Runs that stood aside do not count.
func overlaps(runs []*history.Run) []span {
	byTask := map[string][]span{}
	for _, r := range runs {
		if r.Skipped() || r.Started == nil && len(r.Effects) == 0 && !r.Succeeded() {
			continue
		}
		byTask[r.Task] = append(byTask[r.Task], alive(r))
	}
	var found []span
	for _, spans := range byTask {
		slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
		end := time.Time{}
		for _, s := range spans {
			if s.from.Before(end) {
				to := s.to
				if end.Before(to) {
					to = end
				}
				found = append(found, span{s.from, to})
			}
			if s.to.After(end) {
				end = s.to
			}
		}
	}
	return merge(found)
}

// merge orders spans and joins those that touch.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	var out []span
	for _, s := range spans {
		if last := len(out) - 1; last >= 0 && !s.from.After(out[last].to) {
			if s.to.After(out[last].to) {
				out[last].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}
