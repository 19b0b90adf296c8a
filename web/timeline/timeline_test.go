package timeline

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/history"
)

var update = flag.Bool("update", false, "write the golden drawings")

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// past makes the events of one key.
type past struct{ events []event.Event }

func (p *past) at(after time.Duration, t event.Type, e event.Event) {
	e.Type, e.Time = t, noon.Add(after)
	e.ID = fmt.Sprintf("e%d", len(p.events))
	e.Position = event.Position{Topic: "t", Offset: int64(len(p.events))}
	e.MaxRetries, e.RetryIn, e.Active, e.Seq = event.Unknown, event.Unknown, event.Unknown, event.Unknown
	p.events = append(p.events, e)
}

// run adds a delivery, its start, one effect where it is told when, and an end where it is told what.
func (p *past) run(begin, effect, length time.Duration, end event.Type, e event.Event) {
	p.at(begin, event.Received, e)
	p.at(begin+time.Millisecond, event.Started, e)
	if effect > 0 {
		with := e
		if with.Effect == nil {
			with.Effect = &event.Effect{Name: "email.send"}
		}
		p.at(begin+effect, event.Effected, with)
	}
	e.Effect = nil
	if end != "" {
		p.at(begin+length, end, e)
	}
}

func (p *past) build() *history.History {
	return history.Build(history.Subject{BusinessKey: "receipt:9"}, p.events)
}

func task(id, worker string) event.Event {
	return event.Event{Task: "mail.send_receipt", TaskID: id, Worker: worker, BusinessKey: "receipt:9"}
}

func again(e event.Event, worker string) event.Event {
	e.Worker, e.Redelivered = worker, new(true)
	return e
}

func workerKilled() *history.History {
	p := &past{}
	e := task("a1", "w1@host-a")
	p.at(-300*time.Millisecond, event.Sent, task("a1", ""))
	p.run(0, 2*time.Second, 0, "", e)
	p.run(11300*time.Millisecond, 1350*time.Millisecond, 2700*time.Millisecond, event.Succeeded, again(e, "w2@host-b"))
	return p.build()
}

func visibilityTimeOut() *history.History {
	p := &past{}
	e := task("a1", "w1@host-a")
	p.run(0, 0, 90*time.Minute, event.Succeeded, e)
	p.run(3670*time.Second, 0, 92*time.Minute, event.Succeeded, again(e, "w2@host-a"))
	return p.build()
}

func publishedTwice() *history.History {
	p := &past{}
	for i, id := range []string{"a0", "a1"} {
		shift := time.Duration(i) * 800 * time.Millisecond
		p.at(shift-time.Second, event.Sent, task(id, ""))
		p.run(shift, time.Second, 1500*time.Millisecond, event.Succeeded, task(id, "w1@host-a"))
	}
	return p.build()
}

func retried(times int, every, length time.Duration) *history.History {
	p := &past{}
	e := task("a1", "w1@host-a")
	for i := range times {
		e.Retries = i
		begin := time.Duration(i) * every
		if i == times-1 {
			p.run(begin, 0, length, event.Succeeded, e)
			break
		}
		e.Error = &event.Error{Type: "HTTPError", Message: "503"}
		p.run(begin, 0, length, event.Retried, e)
		e.Error = nil
	}
	return p.build()
}

func mixed() *history.History {
	p := &past{}
	e := task("a1", "w1@host-a")
	e.Effect = &event.Effect{Name: "payment.charge", IdempotencyKey: "k1"}
	p.run(0, time.Second, 2*time.Second, event.Failed, e)
	p.run(3*time.Second, time.Second, 2*time.Second, event.WorkerLost, again(e, "w2@host-b"))
	e.Effect = &event.Effect{Name: "payment.charge", IdempotencyKey: "k1", Deduplicated: true}
	p.run(6*time.Second, time.Second, 2*time.Second, event.Succeeded, again(e, "w3@host-b"))
	e.Effect = &event.Effect{Name: "payment.charge", IdempotencyKey: "k2"}
	p.run(9*time.Second, time.Second, 2*time.Second, event.Succeeded, again(e, "w4@host-b"))
	other := task("a2", "w1@host-a")
	other.Skip = &event.Skip{Reason: "already_processed", Holder: "a1"}
	p.run(4*time.Second, 0, 500*time.Millisecond, event.Skipped, other)
	return p.build()
}

func stuck() *history.History {
	p := &past{}
	p.run(0, 0, 0, "", task("a1", "w9@host-d"))
	return p.build()
}

func hostile() *history.History {
	p := &past{}
	e := task("<script>\x00\"'&\u202e", "w<b>&\"'\u202e\xff@"+strings.Repeat("x", 200))
	e.Effect = &event.Effect{Name: "</svg><script>alert(1)</script>", Target: "]]>"}
	p.run(0, time.Second, 2*time.Second, event.Succeeded, e)
	return history.Build(history.Subject{BusinessKey: "</title><script>alert(1)</script>\x00\u202e"}, p.events)
}

var scenes = []struct {
	name    string
	history func() *history.History
	options Options
}{
	{"worker_killed", workerKilled, Options{Heard: []history.Signal{{Worker: "w1@host-a", First: noon, Last: noon.Add(2 * time.Second)}}}},
	{"visibility_time_out", visibilityTimeOut, Options{TimeOuts: []TimeOut{{Name: "visibility time-out", Gap: 3670 * time.Second}}}},
	{"published_twice", publishedTwice, Options{}},
	{"retried_in_lock_step", func() *history.History { return retried(5, 3*time.Minute, 120*time.Millisecond) }, Options{}},
	{"mixed", mixed, Options{Link: func(e *event.Event) string { return "#" + e.ID }}},
	{"stuck", stuck, Options{Now: noon.Add(41 * time.Minute)}},
	{"many", func() *history.History { return retried(300, 4*time.Second, 900*time.Millisecond) }, Options{}},
	{"hostile", hostile, Options{}},
	{"empty", func() *history.History { return history.Build(history.Subject{BusinessKey: "receipt:9"}, nil) }, Options{}},
}

// The drawings are looked at when they change; what must hold of every one is checked by itself below.
func TestDrawings(t *testing.T) {
	for _, s := range scenes {
		for _, width := range []int{1000, 360} {
			t.Run(fmt.Sprint(s.name, "_", width), func(t *testing.T) {
				s.options.ID, s.options.Width = "t", width
				got := New(s.history(), s.options).SVG()
				golden(t, fmt.Sprintf("%s_%d.svg", s.name, width), got)
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(string(want)), lines(string(got))); diff != "" {
		t.Errorf("%s differs; look at it, and write it with -update: %s", name, diff)
	}
}

func lines(s string) []string { return strings.Split(strings.ReplaceAll(s, "><", ">\n<"), "\n") }

// Whatever a history holds, the drawing is well-formed, has nothing in it that runs, and says what it is.
func TestDrawingsAreSafe(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			s.options.Width = 1000
			svg := New(s.history(), s.options).SVG()
			decoder := xml.NewDecoder(strings.NewReader(string(svg)))
			var elements []string
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				start, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				elements = append(elements, start.Name.Local)
				for _, a := range start.Attr {
					if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" || strings.HasPrefix(a.Value, "javascript:") {
						t.Errorf("%s has %s=%q", start.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
			for _, bad := range []string{"script", "style", "foreignObject", "image", "use"} {
				if slices.Contains(elements, bad) {
					t.Errorf("the drawing has a %s", bad)
				}
			}
			if !slices.Contains(elements, "desc") || !slices.Contains(elements, "title") {
				t.Error("the drawing does not say what it is")
			}
			for _, bad := range []string{"\x00", "\u202e", "\xff"} {
				if strings.Contains(string(svg), bad) {
					t.Errorf("%q got through", bad)
				}
			}
		})
	}
}

func TestRowsSayWhatTheDrawingShows(t *testing.T) {
	for _, c := range []struct {
		name    string
		history *history.History
		options Options
		want    []string
	}{
		{"worker killed", workerKilled(), Options{}, []string{
			"1 w1@host-a  no end seen | email.send, 1 of 2 first |",
			"2 w2@host-b 2.7 s redelivered, succeeded | email.send, 2 of 2 extra | 9.3 s after the last sign of the run",
		}},
		{"visibility time-out", visibilityTimeOut(), Options{TimeOuts: []TimeOut{{"a lease", time.Hour + time.Minute}}}, []string{
			"1 w1@host-a 1 h 30 m 0 s succeeded | success of mail.send_receipt, 1 of 2 first |",
			"2 w2@host-a 1 h 32 m 0 s redelivered, succeeded | success of mail.send_receipt, 2 of 2 extra | 1 h 1 m 10 s after the delivery of a run that was still under way, fits a lease",
		}},
		{"lock-step", retried(2, 3*time.Minute, 120*time.Millisecond), Options{}, []string{
			"1 w1@host-a 119 ms retried: HTTPError | |",
			"2 w1@host-a 119 ms succeeded | success of mail.send_receipt, 1 of 1 first | 3 m 0 s until the retry",
		}},
		{"mixed", mixed(), Options{}, []string{
			"1 w1@host-a 2 s failed | payment.charge, 1 of 3 first |",
			"2 w2@host-b 2 s redelivered, worker lost | payment.charge, 2 of 3, under the same idempotency key guarded | 1 s after the end of the run",
			"3 w1@host-a 499 ms skipped: already processed | |",
			"4 w3@host-b 2 s redelivered, succeeded | payment.charge, a copy that the receiver dropped dropped | 1 s after the end of the run",
			"5 w4@host-b 2 s redelivered, succeeded | payment.charge, 3 of 3 extra | 1 s after the end of the run",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, r := range New(c.history, c.options).Rows() {
				effects := ""
				for _, e := range r.Effects {
					effects += e.Text + " " + e.Class + " "
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s | %s| %s", r.Number, r.Worker, r.Length, r.Outcome, effects, r.Gap)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManyRunsAreSummarised(t *testing.T) {
	for _, c := range []struct {
		runs, drawn int
		left        bool
	}{{1, 1, false}, {Many, Many, false}, {Many + 1, 32, true}, {3000, 32, true}} {
		drawing := New(retried(c.runs, 4*time.Second, time.Second), Options{Width: 1000})
		drawn, all, left := drawing.Summary()
		if drawn != c.drawn || all != c.runs || left != c.left {
			t.Errorf("of %d runs %d are drawn (%v)", all, drawn, left)
		}
		if size := len(drawing.SVG()); size > 400<<10 {
			t.Errorf("%d runs take %d bytes", c.runs, size)
		}
		if rows := len(drawing.Rows()); rows != c.runs {
			t.Errorf("the table of %d runs has %d rows", c.runs, rows)
		}
	}
}

// A moment must stand after all earlier ones, whatever is folded, and inside the drawing.
func TestScaleIsMonotone(t *testing.T) {
	for _, s := range scenes {
		for _, width := range []int{1000, 360} {
			s.options.Width = width
			drawing := New(s.history(), s.options)
			before := -1.0
			for _, e := range drawing.history.Events {
				x := drawing.scale.x(e.Time)
				if x < before || x < 0 || x > float64(width) {
					t.Errorf("%s: %s stands at %.1f after %.1f", s.name, e.Time.Format("15:04:05.000"), x, before)
				}
				before = x
			}
		}
	}
}

func TestIdleStretchesAreFolded(t *testing.T) {
	for _, c := range []struct {
		name    string
		history *history.History
		folds   int
	}{
		{"a short pause stays", workerKilled(), 0},
		{"every pause of the same length", retried(5, 3*time.Minute, 120*time.Millisecond), 4},
		{"a long run is no pause", visibilityTimeOut(), 0},
		{"runs that are left out", retried(300, 4*time.Second, time.Second), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := len(New(c.history, Options{Width: 1000}).scale.folds); got != c.folds {
				t.Errorf("%d folds, want %d", got, c.folds)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	spans := New(visibilityTimeOut(), Options{}).overlap
	if len(spans) != 1 || spans[0].length().Round(time.Second) != 90*time.Minute-3670*time.Second {
		t.Errorf("overlaps %v", spans)
	}
	if spans := New(mixed(), Options{}).overlap; len(spans) != 0 {
		t.Errorf("a run that stood aside overlaps: %v", spans)
	}
}

func TestLength(t *testing.T) {
	for _, c := range []struct {
		d           time.Duration
		long, short string
	}{
		{0, "0 ms", "0 ms"},
		{400 * time.Microsecond, "0.4 ms", "0.4 ms"},
		{650 * time.Millisecond, "650 ms", "650 ms"},
		{9300 * time.Millisecond, "9.3 s", "9.3 s"},
		{5 * time.Second, "5 s", "5 s"},
		{59960 * time.Millisecond, "1 m 0 s", "1 m"},
		{179880 * time.Millisecond, "3 m 0 s", "3 m"},
		{3601 * time.Second, "1 h 0 m 1 s", "1 h 0 m 1 s"},
		{2 * time.Hour, "2 h 0 m 0 s", "2 h"},
		{50 * time.Hour, "2 d 2 h", "2 d 2 h"},
		{-3 * time.Second, "-3 s", "-3 s"},
	} {
		if long, brief := Length(c.d), short(c.d); long != c.long || brief != c.short {
			t.Errorf("%d: %q and %q, want %q and %q", c.d, long, brief, c.long, c.short)
		}
	}
}

// The axis must not try to name every moment of a stretch that a wrong clock made centuries long.
func TestTicksAreBounded(t *testing.T) {
	s := stretch{span: span{time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC)}, left: 0, right: 1000}
	if n := len(s.ticks(time.UTC)); n > 20 {
		t.Errorf("%d ticks", n)
	}
}

func BenchmarkDraw(b *testing.B) {
	h := retried(Many, 4*time.Second, time.Second)
	for b.Loop() {
		New(h, Options{Width: 1000}).SVG()
	}
}
