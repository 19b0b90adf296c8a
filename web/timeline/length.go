package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Length is a length of time for a person: "0.4 ms", "650 ms", "9.3 s", "1 h 0 m 1 s". Nothing below a second is told
// from a minute on, nothing below a minute from two days on.
func Length(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Length(-d)
	case d < 10*time.Millisecond:
		return decimal(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + " ms"
	case d < time.Minute-50*time.Millisecond:
		return decimal(d.Seconds()) + " s"
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%d m %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d m %d s", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// short leaves out the units that are nought at the end.
func short(d time.Duration) string {
	text := strings.TrimSuffix(Length(d), " 0 s")
	return strings.TrimSuffix(text, " 0 m")
}

// decimal has one place, and none where that is nought.
func decimal(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}
