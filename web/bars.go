package web

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"

	"auditor/event/review"
)

const (
	barWidth  = 110
	barHeight = 12

	courseWidth  = 720
	courseHeight = 150
	courseFoot   = 34 // beneath the bars, for the axis
	courseHead   = 16 // above them, for the count of the highest
)

// marginBar draws how much of a time-out runs take: a bar to the longest, a notch at p95, and what is left of the
// time-out, which is the whole width.
func marginBar(took review.Lengths, timeout float64, tone, says string) template.HTML {
	at := func(seconds float64) float64 { return math.Min(seconds/timeout, 1) * (barWidth - 1) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="margin %s" viewBox="0 0 %d %d" role="img" aria-label="%s">`, tone, barWidth, barHeight, html.EscapeString(says))
	fmt.Fprintf(&b, `<title>%s</title>`, html.EscapeString(says))
	fmt.Fprintf(&b, `<rect class="whole" x="0.5" y="2.5" width="%d" height="%d"/>`, barWidth-1, barHeight-5)
	fmt.Fprintf(&b, `<rect class="longest" x="0.5" y="2.5" width="%.1f" height="%d"/>`, math.Max(at(took.Max), 1), barHeight-5)
	fmt.Fprintf(&b, `<path class="usual" d="M%.1f 0V%d"/></svg>`, 0.5+at(took.P95), barHeight)
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped text
}

// gapCourse draws how many attempts followed their retry after how long, on a logarithmic axis. It is empty where there
// are none.
func gapCourse(course []review.Bucket) template.HTML {
	if len(course) == 0 {
		return ""
	}
	first, last := math.Log2(course[0].From), math.Log2(course[len(course)-1].To)
	if last-first < 4 { // at least four octaves, or a single bar would fill the drawing
		more := (4 - (last - first)) / 2
		first, last = first-more, last+more
	}
	most := 0
	for _, b := range course {
		most = max(most, b.Count)
	}
	x := func(seconds float64) float64 { return (math.Log2(seconds) - first) / (last - first) * courseWidth }
	ground := float64(courseHeight - courseFoot)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="course-of-gaps" viewBox="0 0 %d %d" role="img" aria-label="%s">`, courseWidth, courseHeight, html.EscapeString(courseText(course)))
	fmt.Fprintf(&b, `<path class="base" d="M0 %.1fH%d"/>`, ground+0.5, courseWidth)
	for _, g := range course {
		height := math.Max(float64(g.Count)/float64(most)*(ground-courseHead), 1.5)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`, x(g.From)+0.5, ground-height,
			math.Max(x(g.To)-x(g.From)-1, 1.5), height, html.EscapeString(bucketText(g)))
		if g.Count == most {
			middle := (x(g.From) + x(g.To)) / 2
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, math.Min(math.Max(middle, 30), courseWidth-30), ground-height-5, number(g.Count))
		}
	}
	for _, t := range ticksBetween(math.Exp2(first), math.Exp2(last)) {
		fmt.Fprintf(&b, `<path class="tick" d="M%.1f %.1fv4"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x(t), ground, x(t), ground+18, review.Length(t))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped text
}

func bucketText(b review.Bucket) string {
	return fmt.Sprintf("%s after %s to %s", plural(b.Count, "attempt"), review.Length(b.From), review.Length(b.To))
}

func courseText(course []review.Bucket) string {
	most := course[0]
	for _, b := range course {
		if b.Count > most.Count {
			most = b
		}
	}
	return fmt.Sprintf("Gaps between retries and the attempts after them, from %s to %s; most often %s", review.Length(course[0].From),
		review.Length(course[len(course)-1].To), bucketText(most))
}

// ticksBetween chooses round lengths of time within the range, in seconds, far enough apart to be read.
func ticksBetween(from, to float64) []float64 {
	round := []float64{0.001, 0.01, 0.1, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400}
	var ticks []float64
	for _, t := range round {
		apart := len(ticks) == 0 || math.Log2(t/ticks[len(ticks)-1])/math.Log2(to/from) > 0.11
		if t > from*1.04 && t < to/1.04 && apart {
			ticks = append(ticks, t)
		}
	}
	return ticks
}
