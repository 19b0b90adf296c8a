package timeline

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// SVG draws the timeline. All text from outside is escaped.
func (t *Timeline) SVG() []byte {
	p := &pen{id: t.options.ID}
	height := t.place()
	p.open(t.options.Width, height, t.title(), t.describe())
	p.patterns()
	if len(t.scale.stretches) > 0 {
		t.drawOverlaps(p, height)
		t.drawAxis(p, height)
		t.drawNow(p, height)
		t.drawSent(p)
		t.drawLanes(p)
		for _, g := range t.gaps {
			t.drawGap(p, g)
		}
		for _, l := range t.lanes {
			for _, row := range l.rows {
				t.drawRow(p, row)
			}
		}
	}
	p.write("</svg>\n")
	return p.out.Bytes()
}

func (t *Timeline) title() string { return "Timeline of " + t.history.Subject.String() }

func (t *Timeline) describe() string {
	drawn, all, left := t.Summary()
	if left {
		return fmt.Sprintf("%d of %d runs: the first, the last and the densest stretch. The table below has them all.", drawn, all)
	}
	return fmt.Sprintf("%s on %s. The table below says the same.", count(all, "run"), count(len(t.lanes), "lane"))
}

// drawOverlaps shades the stretches in which two runs were under way, through all lanes.
func (t *Timeline) drawOverlaps(p *pen, height float64) {
	for _, s := range t.overlap {
		left, right := t.scale.x(s.from), t.scale.x(s.to)
		if right-left < 1 {
			continue
		}
		p.write(`<g class="tl-overlap"><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%.1f"/>`,
			clean("two runs under way at once for "+Length(s.length())), left, axisHeight, right-left, height-axisHeight-18)
		if text := "overlap " + short(s.length()); right-left > width(text) {
			p.text((left+right)/2, height-5, "middle", "tl-note", text)
		}
		p.write("</g>")
	}
}

func (t *Timeline) drawAxis(p *pen, height float64) {
	zone := t.options.Zone
	if !t.narrow() {
		p.text(0, 14, "start", "tl-zone", t.scale.stretches[0].from.In(zone).Format("2 Jan 2006, MST"))
	}
	free := 0.0 // where the next label may begin
	for i, s := range t.scale.stretches {
		for _, k := range s.ticks(zone) {
			if len(t.open) > 0 && s.length() <= 0 && s.from.Equal(t.options.Now) {
				continue // labelled as now
			}
			x := t.scale.x(k.at)
			if s.length() <= 0 {
				x = (s.left + s.right) / 2
			}
			p.write(`<path class="tl-grid" d="M%.1f %dV%.1f"/>`, x, axisHeight-8, height-18)
			if at := max(x-width(k.label)/2, 0); at >= free || (at+6 >= free && i == 0) {
				at = max(at, t.scale.left-8)
				at = min(at, float64(t.options.Width)-width(k.label))
				p.text(at, 14, "start", "tl-tick", k.label)
				free = at + width(k.label) + 10
			}
		}
	}
	for _, f := range t.scale.folds {
		t.drawFold(p, f, height)
	}
}

// drawFold draws a break: the axis is cut by two slanted strokes, and the length left out stands beside them.
func (t *Timeline) drawFold(p *pen, f fold, height float64) {
	text, full := short(f.length()), "nothing for "+Length(f.length())
	if f.hidden > 0 {
		text, full = fmt.Sprintf("%d runs", f.hidden), fmt.Sprintf("%d runs in %s, not drawn", f.hidden, Length(f.length()))
	}
	middle := (f.left + f.right) / 2
	p.write(`<g class="tl-fold"><title>%s</title><rect x="%.1f" y="%d" width="%.1f" height="%.1f" fill="url(#%s)"/>`,
		clean(full), f.left+4, axisHeight-6, max(f.right-f.left-8, 1), height-axisHeight-12, p.name("break"))
	p.write(`<path d="M%.1f %dl4 -8M%.1f %dl4 -8"/>`, middle-5, axisHeight-3, middle+1, axisHeight-3)
	if width(text) < f.right-f.left+36 && (f.hidden > 0 || !t.spanned(f)) {
		p.text(middle, height-5, "middle", "tl-note", text)
	}
	p.write("</g>")
}

// spanned reports whether a gap that is drawn goes over the fold, and so carries its length already.
func (t *Timeline) spanned(f fold) bool {
	return slices.ContainsFunc(t.gaps, func(g gap) bool { return !g.span.from.After(f.from) && !g.span.to.Before(f.to) })
}

// drawNow marks the present, up to which runs without an end go on.
func (t *Timeline) drawNow(p *pen, height float64) {
	if len(t.open) == 0 {
		return
	}
	x := t.scale.x(t.options.Now)
	p.write(`<g class="tl-now"><path d="M%.1f %dV%.1f"/>`, x, axisHeight-8, height-18)
	p.text(x, height-5, "middle", "tl-note", "now")
	p.write("</g>")
}

func (t *Timeline) drawSent(p *pen) {
	sent := t.sent()
	if len(sent) == 0 {
		return
	}
	y := float64(axisHeight) + t.sentHeight() - 14
	label := y + 2
	if t.narrow() {
		label = y - 12
	}
	p.text(0, label, "start", "tl-note", "published")
	for _, e := range sent {
		x := t.scale.x(e.Time)
		p.link(t.link(e), func() {
			p.write(`<g class="tl-sent"><title>%s</title><path d="M%.1f %.1fl-6 -9h12z"/></g>`,
				clean(fmt.Sprintf("published %s as task id %s", t.clock(e.Time), e.TaskID)), x, y+4)
		})
	}
}

// drawLanes draws each lane's name, its ground line, and when its worker was heard of.
func (t *Timeline) drawLanes(p *pen) {
	for _, l := range t.lanes {
		name := l.name
		switch {
		case l.heap:
			name = "many workers"
		case name == "":
			name = "worker not told"
		}
		top := l.top
		if t.narrow() {
			top += nameHeight
		}
		t.drawName(p, name, l.top)
		y := top + barTop + barHeight/2
		for range l.rows {
			p.write(`<path class="tl-lane" d="M%.1f %.1fH%d"/>`, t.scale.left, y, t.options.Width)
			y += rowHeight
		}
		t.drawHeard(p, l.name, top+barTop-3)
	}
}

// drawHeard draws a line over the bars that ends where the worker fell silent.
func (t *Timeline) drawHeard(p *pen, worker string, y float64) {
	for _, h := range t.options.Heard {
		if h.Worker != worker || worker == "" {
			continue
		}
		left, right := t.scale.x(h.First), t.scale.x(h.Last)
		p.write(`<path class="tl-heard" d="M%.1f %.1fH%.1f"><title>%s</title></path>`, left, y, max(right, left+1),
			clean(fmt.Sprintf("%s heard of until %s", worker, t.clock(h.Last))))
	}
}

func (t *Timeline) drawName(p *pen, name string, top float64) {
	y, room := top+barTop+barHeight/2+4, float64(labelWidth-14)
	if t.narrow() {
		y, room = top+14, float64(t.options.Width-20)
	}
	p.write(`<g><title>%s</title>`, clean(name))
	p.text(0, y, "start", "tl-name", fit(name, room/7.3))
	p.write("</g>")
}

// drawGap draws the time that led to a run: from the run before, down to the lane of the new one, and along it.
func (t *Timeline) drawGap(p *pen, g gap) {
	from, seen := t.rowOf(g.from)
	to, drawn := t.rowOf(g.to)
	left, right := t.scale.x(g.span.from), t.scale.x(g.span.to)
	if !seen || !drawn || right-left < 14 {
		return
	}
	const middle = barTop + barHeight/2
	p.write(`<g class="tl-gap"><title>%s</title>`, clean(fmt.Sprintf("run %d came %s", g.to.Number, t.sayGap(g))))
	if from != to {
		p.write(`<path class="tl-drop" d="M%.1f %.1fV%.1f"/>`, left, from+middle, to+middle)
	}
	p.write(`<path d="M%.1f %.1fH%.1fm-5 -3.5l5 3.5l-5 3.5"/>`, left, to+middle, right-1)
	room, center, y := right-left-4, (left+right)/2, to+middle+17
	length, name := short(g.length()), t.timeOut(g)
	switch both := length + " · " + name; {
	case name != "" && width(both) < room:
		p.text(center, y, "middle", "tl-length", both)
	case name != "" && width(name) < room:
		p.text(center, y, "middle", "tl-length", length)
		p.text(center, y+12, "middle", "tl-length", name)
	case width(length) < room:
		p.text(center, y, "middle", "tl-length", length)
	}
	p.write("</g>")
}

// drawRow draws the runs of one row: bars first, marks upon them, and names as far as there is room before the next.
func (t *Timeline) drawRow(p *pen, row []*history.Run) {
	top, _ := t.rowOf(row[0])
	free := 0.0 // where the next name may begin
	for i, r := range row {
		t.drawBar(p, r, top)
		left := t.scale.x(r.Begin())
		limit := float64(t.options.Width)
		if i+1 < len(row) {
			limit = t.scale.x(row[i+1].Begin()) - 6
		}
		for _, name := range names(r) {
			at := left
			if i+1 == len(row) {
				at = min(at, limit-width(name))
			}
			if at >= max(free, t.scale.left-2) && at+width(name) <= limit {
				p.text(at, top+11, "start", "tl-run-name", name)
				free = at + width(name) + 5
				break
			}
		}
	}
	edge := 0.0
	for _, r := range row {
		for _, m := range t.marks[r] {
			edge = t.drawMark(p, m, top, edge)
		}
	}
}

// drawBar draws one run: a thin line while it waited at its worker, a bar from its start to its end.
func (t *Timeline) drawBar(p *pen, r *history.Run, top float64) {
	s := alive(r)
	begin, left, right := t.scale.x(r.Begin()), t.scale.x(s.from), t.scale.x(s.to)
	y := top + barTop
	p.write(`<g class="tl-run tl-%s"><title>%s</title>`, shape(r), clean(t.sentence(r)))
	if left-begin > 1 {
		p.write(`<path class="tl-wait" d="M%.1f %.1fH%.1f"/>`, begin, y+barHeight/2, left)
	}
	width := max(right-left, 5)
	switch shape(r) {
	case "hatched":
		p.write(`<rect class="tl-outline" x="%.1f" y="%.1f" width="%.1f" height="%d" fill="url(#%s)"/>`, left, y, width, barHeight, p.name("hatch"))
	case "open":
		p.write(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d"/>`, left, y, max(right-left, 2), barHeight)
		p.write(`<rect x="%.1f" y="%.1f" width="%d" height="%d" fill="url(#%s)"/>`, left+max(right-left, 2), y, fadeWidth-8, barHeight, p.name("fade"))
	default:
		p.write(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" rx="1.5"/>`, left, y, width, barHeight)
	}
	if t.open[r] {
		t.drawOpen(p, r, right, y+barHeight/2)
	}
	p.write("</g>")
}

// drawOpen draws how a run without an end goes on until now.
func (t *Timeline) drawOpen(p *pen, r *history.Run, from, y float64) {
	from = max(from, t.scale.left) + 2
	to := t.scale.x(t.options.Now)
	if to-from < 4 {
		return
	}
	p.write(`<path class="tl-open-on" d="M%.1f %.1fH%.1f"/>`, from, y, to)
	if text := "no end for " + short(t.options.Now.Sub(r.LastSeen())); width(text) < to-from-fadeWidth {
		p.text((from+fadeWidth+to)/2, y+17, "middle", "tl-length", text)
	}
}

// shape is how a run's bar is drawn.
func shape(r *history.Run) string {
	switch {
	case r.End == nil:
		return "open"
	case r.Succeeded():
		return "solid"
	case r.End.Type == event.Skipped, r.End.Type == event.Revoked, r.End.Type == event.Rejected:
		return "aside"
	}
	return "hatched"
}

// drawMark draws one effect, a little to the right where it would cover the one before; edge is where that one ends.
func (t *Timeline) drawMark(p *pen, m mark, top, edge float64) float64 {
	const half = 9.0
	x := t.scale.x(m.event.Time)
	if x-half < edge && x+half > edge-2*half {
		x = edge + half - 3
	}
	x = min(x, float64(t.options.Width)-half-1)
	y := top + barTop + barHeight/2
	p.link(t.link(m.event), func() {
		p.write(`<g class="tl-mark tl-%s"><title>%s</title>`, kindClass[m.kind], clean(m.String()+", at "+t.clock(m.event.Time)))
		p.write(`<path d="M%.1f %.1fl%.0f %.0fl-%.0f %.0fl-%.0f -%.0fz"/>`, x, y-half, half, half, half, half, half, half)
		if m.kind != dropped && m.number < 100 {
			p.text(x, y+3.5, "middle", "", fmt.Sprint(m.number))
		}
		p.write("</g>")
	})
	return x + half
}

// sentence says in words what a bar shows.
func (t *Timeline) sentence(r *history.Run) string {
	text := fmt.Sprintf("run %d of %s, from %s", r.Number, taskName(r), t.clock(r.Begin()))
	if r.Worker != "" {
		text += " on " + r.Worker
	}
	if redelivered(r) {
		text += ", redelivered"
	}
	text += ": " + outcome(r)
	if r.End != nil {
		return text + " after " + Length(alive(r).length())
	}
	return text + ", last sign at " + t.clock(r.LastSeen())
}

func (t *Timeline) clock(at time.Time) string {
	return at.In(t.options.Zone).Format("15:04:05.000 MST")
}

func (t *Timeline) link(e *event.Event) string {
	if t.options.Link == nil {
		return ""
	}
	return t.options.Link(e)
}

// count says how many there are of what, which takes an s where they are several.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
