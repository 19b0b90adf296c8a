package web

import (
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"
)

const (
	sparkWidth  = 240
	sparkHeight = 22
)

// sparkline draws values as bars from the bottom up, the highest filling the height. Nought is a line along the bottom.
func sparkline(values []float64, tone, says string) template.HTML {
	var b strings.Builder
	top := slices.Max(append([]float64{0}, values...))
	fmt.Fprintf(&b, `<svg class="spark %s" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`,
		tone, sparkWidth, sparkHeight, html.EscapeString(fmt.Sprintf("%s: highest %s, now %s", says, figureText(top), figureText(last(values)))))
	fmt.Fprintf(&b, `<path class="base" d="M0 %.1fH%d"/>`, sparkHeight-0.5, sparkWidth)
	step := float64(sparkWidth) / float64(max(len(values), 1))
	for i, v := range values {
		if v <= 0 || top <= 0 {
			continue
		}
		height := max(v/top*(sparkHeight-2), 1.5)
		fmt.Fprintf(&b, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`, float64(i)*step, sparkHeight-height, max(step-1, 1), height)
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // numbers and escaped text
}

func last(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return values[len(values)-1]
}
