package timeline

import (
	"slices"
	"time"

	"auditor/event/history"
)

// scale maps time to the width of the drawing: stretches in which something happens, each with its own even scale, and
// folds between them.
type scale struct {
	stretches []stretch
	folds     []fold
	left      float64
	right     float64
}

type stretch struct {
	span
	left, right float64
}

// fold is an idle stretch that is drawn as a break.
type fold struct {
	span
	left, right float64
	hidden      int // runs that began in it and are not drawn
}

const (
	foldAt       = 4  // an idle stretch this many times as long as all before it is folded
	leastStretch = 44 // width of a stretch at least
)

func (t *Timeline) newScale() scale {
	left, right := float64(labelWidth), float64(t.options.Width-fadeWidth)
	if t.narrow() {
		left = 10
	}
	busy := t.busy()
	if len(busy) == 0 {
		return scale{left: left, right: right}
	}
	hidden := t.hidden(busy)
	folded := folds(busy, hidden)
	if len(t.open) > 0 && len(folded) == 1 {
		folded[0] = hidden[0] > 0 // all that there is to see is the wait
	}

	s := scale{left: left, right: right}
	current := busy[0]
	for i, next := range busy[1:] {
		if folded[i] {
			s.stretches = append(s.stretches, stretch{span: current})
			s.folds = append(s.folds, fold{span: span{busy[i].to, next.from}, hidden: hidden[i]})
			current = next
			continue
		}
		current.to = next.to
	}
	s.stretches = append(s.stretches, stretch{span: current})
	s.divide()
	return s
}

// busy gives the stretches in which something that is drawn happens.
func (t *Timeline) busy() []span {
	var spans []span
	for _, r := range t.drawn {
		s := span{r.Begin(), alive(r).to}
		for _, e := range r.Events {
			if e.Time.After(s.to) {
				s.to = e.Time
			}
		}
		spans = append(spans, s)
	}
	if len(t.open) > 0 {
		spans = append(spans, span{t.options.Now, t.options.Now})
	}
	for _, e := range t.sent() {
		spans = append(spans, span{e.Time, e.Time})
	}
	return merge(spans)
}

// hidden counts, for each gap between busy stretches, the runs that are not drawn.
func (t *Timeline) hidden(busy []span) []int {
	counts := make([]int, max(len(busy)-1, 0))
	if len(t.drawn) == len(t.history.Runs) {
		return counts
	}
	drawn := map[*history.Run]bool{}
	for _, r := range t.drawn {
		drawn[r] = true
	}
	for _, r := range t.history.Runs {
		if drawn[r] {
			continue
		}
		i, _ := slices.BinarySearchFunc(busy, r.Begin(), func(s span, at time.Time) int { return s.from.Compare(at) })
		if i > 0 && i <= len(counts) && r.Begin().After(busy[i-1].to) {
			counts[i-1]++
		}
	}
	return counts
}

// folds decides which gaps between busy stretches are folded: those that hide runs, and those that would squeeze all
// else, and any as long as one of these.
func folds(busy []span, hidden []int) []bool {
	var total time.Duration
	for _, s := range busy {
		total += s.length()
	}
	lengths := make([]time.Duration, 0, len(busy))
	for i := range busy[1:] {
		lengths = append(lengths, busy[i+1].from.Sub(busy[i].to))
	}
	limit := time.Duration(-1)
	if total > 0 {
		for _, g := range slices.Sorted(slices.Values(lengths)) {
			if g > foldAt*total {
				limit = g
				break
			}
			total += g
		}
	}
	folded := make([]bool, len(lengths))
	for i, g := range lengths {
		folded[i] = hidden[i] > 0 || limit >= 0 && g >= limit
	}
	return folded
}

// divide shares the width out: a fold takes little, a stretch as its length asks, and no less than can be seen.
func (s *scale) divide() {
	width := s.right - s.left
	foldWidth := 0.0
	if n := float64(len(s.folds)); n > 0 {
		foldWidth = min(60, width*0.4/n)
	}
	free := width - foldWidth*float64(len(s.folds))
	widths := share(s.stretches, free)
	x := s.left
	for i := range s.stretches {
		s.stretches[i].left, s.stretches[i].right = x, x+widths[i]
		x += widths[i]
		if i < len(s.folds) {
			s.folds[i].left, s.folds[i].right = x, x+foldWidth
			x += foldWidth
		}
	}
}

// share gives each stretch its part of the width by length; those that would get too little get the least, and the
// others share the rest.
func share(stretches []stretch, width float64) []float64 {
	least := min(leastStretch, width/float64(len(stretches)))
	widths := make([]float64, len(stretches))
	fixed := make([]bool, len(stretches))
	for {
		free, total := width, 0.0
		for i, s := range stretches {
			if fixed[i] {
				free -= least
			} else {
				total += float64(s.length())
			}
		}
		settled := true
		for i, s := range stretches {
			if fixed[i] {
				widths[i] = least
				continue
			}
			widths[i] = free
			if total > 0 {
				widths[i] = free * float64(s.length()) / total
			}
			if widths[i] < least && len(stretches) > 1 {
				fixed[i], settled = true, false
			}
		}
		if settled {
			return widths
		}
	}
}

// x is where a moment stands.
func (s *scale) x(at time.Time) float64 {
	for i, st := range s.stretches {
		if !at.After(st.to) || i == len(s.stretches)-1 {
			return between(at, st.span, st.left, st.right)
		}
		if i < len(s.folds) && at.Before(s.folds[i].to) {
			return between(at, s.folds[i].span, s.folds[i].left, s.folds[i].right)
		}
	}
	return s.left
}

func between(at time.Time, s span, left, right float64) float64 {
	if s.length() <= 0 {
		return left + (right-left)/2
	}
	part := float64(at.Sub(s.from)) / float64(s.length())
	return left + min(max(part, 0), 1)*(right-left)
}

// tick is a labelled moment of the axis.
type tick struct {
	at    time.Time
	label string
}

var steps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour,
}

// ticks are the moments that a stretch's axis names: where it begins, and round ones as far as there is room.
func (s stretch) ticks(zone *time.Location) []tick {
	const room = 84
	start := s.from.In(zone)
	length := s.length()
	count := int((s.right - s.left) / room)
	layout := "15:04:05"
	if length < 5*time.Second && length > 0 {
		layout = "15:04:05.000"
	}
	ticks := []tick{{start, start.Format(layout)}}
	if count < 2 || length <= 0 {
		return ticks
	}
	step := steps[len(steps)-1]
	for _, candidate := range steps {
		if length/candidate <= time.Duration(count) {
			step = candidate
			break
		}
	}
	for length/step > time.Duration(count) {
		step *= 2
	}
	layout = "15:04:05"
	switch {
	case step >= 24*time.Hour:
		layout = "2 Jan"
	case step >= time.Minute:
		layout = "15:04"
	case step < time.Second:
		layout = "05.000"
	}
	ticks[0].label = start.Format("15:04:05")
	if step < time.Second {
		ticks[0].label = start.Format("15:04:05.000")
	}
	// Round in the zone shown: zones are whole minutes apart, days are not.
	_, offset := start.Zone()
	shift := time.Duration(offset) * time.Second
	for at := s.from.Add(shift).Truncate(step).Add(step - shift); at.Before(s.to); at = at.Add(step) {
		ticks = append(ticks, tick{at.In(zone), at.In(zone).Format(layout)})
	}
	return ticks
}
