package web

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode"

	"auditor/web/timeline"
)

var functions = template.FuncMap{
	"visible": visible,
	"number":  number[int],
	"plural":  plural,
}

// when is a moment as pages show it: how long ago, with the absolute at hand.
type when struct {
	ISO  string // for machines; empty when the moment is not known
	Full string // with date and zone
	Ago  string
}

func (s *Server) when(t time.Time) when {
	if t.IsZero() {
		return when{Ago: "never"}
	}
	return when{ISO: t.UTC().Format(time.RFC3339Nano), Full: s.full(t), Ago: ago(s.now().Sub(t))}
}

// precise is the time of day to the millisecond, with the date where that is another than today.
func (s *Server) precise(t time.Time) string {
	return s.clock(t) + t.In(s.zone).Format(".000")
}

func (s *Server) full(t time.Time) string { return t.In(s.zone).Format("2 Jan 2006 15:04:05.000 MST") }

// clock is the time of day, with the date where that is another than today.
func (s *Server) clock(t time.Time) string {
	local, today := t.In(s.zone), s.now().In(s.zone)
	if local.Format(time.DateOnly) != today.Format(time.DateOnly) {
		return local.Format("2 Jan 15:04:05")
	}
	return local.Format("15:04:05")
}

func ago(d time.Duration) string {
	switch {
	case d < -time.Second:
		return "in " + rough(-d)
	case d < time.Second:
		return "now"
	}
	return rough(d) + " ago"
}

// rough is a length of time in its largest unit.
func rough(d time.Duration) string {
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "\u00a0s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "\u00a0m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "\u00a0h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "\u00a0d"
}

// exact is a length of time in words, with the seconds beside it where the words hide them.
func exact(d time.Duration) string {
	text := timeline.Length(d)
	if d >= time.Minute {
		text += fmt.Sprintf(" (%s s)", number(int(d.Seconds())))
	}
	return text
}

// number groups digits by thousands.
func number[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// plural is a count and its noun: "1 run", "2 runs". The noun's other form is its own where it is not made with s.
func plural(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return number(n) + " " + many[0]
	}
	return number(n) + " " + one + "s"
}

// visible shows what would otherwise not be seen, or turn the text around it: control characters, bidirectional
// overrides, zero-width characters.
func visible(s string) string {
	if !strings.ContainsFunc(s, hides) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hides(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hides(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar
}

// phrase is a piece of a sentence or of a row of figures.
type phrase struct {
	Text string
	Href string // what the text counts; empty when it counts nothing
	Tone string // bad, warn, quiet, or empty
}

// visibleText is visible, but for line breaks and tabs, which a block of text shows by itself.
func visibleText(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j, part := range parts {
			parts[j] = visible(part)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
