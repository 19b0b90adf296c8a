package web

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	block    = regexp.MustCompile(`(?s):root[^{]*\{([^}]*)\}`)
	variable = regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6})`)
)

// Text is readable in both themes: the contrast of WCAG's level AA.
func TestContrast(t *testing.T) {
	css, err := staticFiles.ReadFile("static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	screen, _, _ := strings.Cut(string(css), "@media print")
	themes := block.FindAllStringSubmatch(screen, -1)
	if len(themes) != 3 {
		t.Fatalf("%d blocks of colours, want light, dark by the system, dark by choice", len(themes))
	}
	if themes[1][1] != strings.ReplaceAll(themes[2][1], "\n  ", "\n    ") && colours(themes[1][1])["bg"] != colours(themes[2][1])["bg"] {
		t.Error("the two dark themes differ")
	}
	for i, theme := range themes {
		c := colours(theme[1])
		for _, pair := range [][2]string{
			{"text", "bg"}, {"text", "raised"}, {"text", "warn-bg"}, {"quiet", "bg"}, {"quiet", "raised"}, {"link", "bg"}, {"bad", "bg"}, {"bad", "raised"},
			{"bad", "bad-bg"}, {"warn", "bg"}, {"warn", "raised"}, {"warn", "warn-bg"}, {"on-mark", "mark"}, {"on-mark", "bad"}, {"on-mark", "warn"},
		} {
			fore, back := c[pair[0]], c[pair[1]]
			if ratio := contrast(fore, back); ratio < 4.5 {
				t.Errorf("theme %d: %s on %s has a contrast of %.2f", i, pair[0], pair[1], ratio)
			}
		}
		for _, shape := range []string{"run", "run-line", "focus", "mark"} {
			if ratio := contrast(c[shape], c["bg"]); ratio < 3 {
				t.Errorf("theme %d: %s on bg has a contrast of %.2f", i, shape, ratio)
			}
		}
	}
}

func colours(text string) map[string]string {
	all := map[string]string{}
	for _, m := range variable.FindAllStringSubmatch(text, -1) {
		all[m[1]] = m[2]
	}
	return all
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(colour string) float64 {
	channel := func(i int) float64 {
		n, err := strconv.ParseUint(colour[i:i+2], 16, 8)
		if err != nil {
			return math.NaN()
		}
		v := float64(n) / 255
		if v <= 0.03928 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(0) + 0.7152*channel(2) + 0.0722*channel(4)
}
