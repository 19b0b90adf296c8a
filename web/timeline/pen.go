package timeline

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode"
)

// pen writes the drawing.
type pen struct {
	out bytes.Buffer
	id  string
}

func (p *pen) write(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *pen) name(s string) string { return "tl-" + p.id + s }

func (p *pen) open(width int, height float64, title, description string) {
	p.write(`<svg class="tl" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-labelledby="%s %s">`,
		width, height, p.name("title"), p.name("desc"))
	p.write(`<title id="%s">%s</title><desc id="%s">%s</desc>`, p.name("title"), clean(title), p.name("desc"), clean(description))
}

// patterns defines how failed runs, runs without an end, and breaks are filled. They take the class's colour.
func (p *pen) patterns() {
	p.write(`<defs><pattern id="%s" class="tl-hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">`+
		`<path d="M1 0V5" stroke="currentColor" stroke-width="2"/></pattern>`, p.name("hatch"))
	p.write(`<pattern id="%s" class="tl-break" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-30)">`+
		`<path d="M1 0V6" stroke="currentColor" stroke-width="1"/></pattern>`, p.name("break"))
	p.write(`<linearGradient id="%s" class="tl-fade"><stop offset="0" stop-color="currentColor"/>`+
		`<stop offset="1" stop-color="currentColor" stop-opacity="0"/></linearGradient></defs>`, p.name("fade"))
}

func (p *pen) text(x, y float64, anchor, class, text string) {
	p.write(`<text x="%.1f" y="%.1f"`, x, y)
	if anchor != "start" {
		p.write(` text-anchor="%s"`, anchor)
	}
	if class != "" {
		p.write(` class="%s"`, class)
	}
	p.write(`>%s</text>`, clean(text))
}

func (p *pen) link(address string, inside func()) {
	if address == "" {
		inside()
		return
	}
	p.write(`<a href="%s">`, html.EscapeString(address))
	inside()
	p.write("</a>")
}

// width is about how wide a text is in the drawing's small type.
func width(text string) float64 { return 5.9 * float64(len([]rune(text))) }

// fit cuts a text to so many characters; the whole of it stands in the title beside.
func fit(text string, most float64) string {
	runes := []rune(text)
	if float64(len(runes)) <= most {
		return text
	}
	return string(runes[:max(int(most)-1, 1)]) + "…"
}

// clean escapes a text from outside, and shows what would be invisible in it or turn the text around it.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return '\ufffd'
		}
		return r
	}, text)
	return html.EscapeString(text)
}
