package review

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// count is a number and its noun: "1 task id", "12,345 task ids". The noun's other form is its own where it is not made with s.
func count(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return grouped(n) + " " + many[0]
	}
	return grouped(n) + " " + one + "s"
}

// none is count, with "no" for nought.
func none(n int, one string, many ...string) string {
	if n == 0 {
		return "no " + one
	}
	return count(n, one, many...)
}

// was is count and its verb.
func was(n int, one string, many ...string) string {
	if n == 1 {
		return count(n, one, many...) + " was"
	}
	return count(n, one, many...) + " were"
}

// only is was, for what there is too little of: "No copy was", "Only 2 copies were".
func only(n int, one string, many ...string) string {
	if n == 0 {
		return "No " + one + " was"
	}
	return "Only " + was(n, one, many...)
}

// outOf is a part of a whole: "2 of 40 task ids".
func outOf(part, whole int, one string, many ...string) string {
	return grouped(part) + " of " + count(whole, one, many...)
}

func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// percent is a share, never rounded to all or to nothing.
func percent(share float64) string {
	switch {
	case share <= 0:
		return "0 %"
	case share < 0.001:
		return "less than 0.1 %"
	case share < 0.01 || share > 0.99 && share < 1:
		return strconv.FormatFloat(min(share*100, 99.9), 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(share*100, 'f', 0, 64) + " %"
}

// Length is a length of time, given in seconds, for a person, without units that are nought: "650 ms", "9.3 s", "3 m", "1 h 1 s".
func Length(seconds float64) string { return length(time.Duration(seconds * float64(time.Second))) }

func length(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < time.Minute-50*time.Millisecond:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	}
	d = d.Round(time.Second)
	var parts []string
	for _, unit := range []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
			d -= n * unit.of
		}
	}
	return strings.Join(parts, " ")
}
