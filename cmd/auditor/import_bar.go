package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// importBar shows how far an import is: on a terminal in a line that is written over, elsewhere now and then in a line of its own.
type importBar struct {
	out      io.Writer
	terminal bool
	name     string
	size     int64        // of the file in bytes, 0 when it is not known
	read     func() int64 // bytes read
	now      func() time.Time

	start  time.Time
	first  int // events before the start
	told   time.Time
	width  int // of the line on the terminal
	events int
	bad    int
}

// Between two changes of the line.
const barEvery = 100 * time.Millisecond

func (b *importBar) begin(events int) {
	b.start, b.first = b.now(), events
	b.told = b.start
}

// tell shows the state, unless it was shown just before.
func (b *importBar) tell(events, bad int) {
	b.events, b.bad = events, bad
	now := b.now()
	every := lineEvery
	if b.terminal {
		every = barEvery
	}
	if now.Sub(b.told) < every {
		return
	}
	b.told = now
	line := b.line(now)
	if !b.terminal {
		fmt.Fprintln(b.out, line)
		return
	}
	fmt.Fprintf(b.out, "\r%-*s", b.width, line)
	b.width = len(line)
}

// end clears the terminal's line for the sentence that follows.
func (b *importBar) end() {
	if b.terminal && b.width > 0 {
		fmt.Fprintf(b.out, "\r%*s\r", b.width, "")
	}
}

// line is such as: [=========>          ] 45 %  events.jsonl  1,204,331 events, 3 records not read, 23,100 events/s, 1m20s left.
func (b *importBar) line(now time.Time) string {
	var parts []string
	seconds := now.Sub(b.start).Seconds()
	share := 0.0
	if b.size > 0 {
		share = min(1, float64(b.read())/float64(b.size))
		const cells = 20
		full := int(share * cells)
		parts = append(parts, fmt.Sprintf("[%-*s] %d %%", cells, strings.Repeat("=", full)+">"[:min(1, cells-full)], int(100*share)))
	}
	text := count(b.events, "event")
	if b.bad > 0 {
		text += ", " + count(b.bad, "record") + " not read"
	}
	if seconds > 0 {
		text += ", " + count(int(float64(b.events-b.first)/seconds), "event") + "/s"
	}
	if share > 0 && seconds > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(seconds*(1-share)/share*float64(time.Second)).Round(time.Second))
	}
	return strings.Join(append(parts, printable(b.name), text), "  ")
}
