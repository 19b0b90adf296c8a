package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/history"
	"auditor/event/history/historytest"
)

// signalsOf gives what the store would say of the workers in events: slices of ten seconds, by process.
func signalsOf(events []event.Event) []history.Signal {
	type slice struct {
		worker string
		pid    int
		at     time.Time
	}
	by := map[slice]*history.Signal{}
	for _, e := range events {
		if e.Worker == "" || e.Type == event.Sent {
			continue
		}
		at := slice{e.Worker, e.PID, e.Time.Truncate(10 * time.Second)}
		s := by[at]
		if s == nil {
			s = &history.Signal{Worker: e.Worker, PID: e.PID, First: e.Time, Last: e.Time}
			by[at] = s
		}
		s.First, s.Last = earlier(s.First, e.Time), later(s.Last, e.Time)
		if e.Type == event.Heartbeat && e.Active == 0 {
			s.Idle = later(s.Idle, e.Time)
		}
		if e.Type == event.WorkerLost && e.TaskID == "" {
			s.Lost = later(s.Lost, e.Time)
		}
	}
	var all []history.Signal
	for _, s := range by {
		all = append(all, *s)
	}
	return all
}

// findings judges events as of a second of the day, and writes each finding in short.
func findings(t *testing.T, text string, asOf float64, change ...func(*Config)) []string {
	t.Helper()
	config := DefaultConfig()
	for _, f := range change {
		f(&config)
	}
	return findingsBy(t, text, asOf, config, func(*judge) {})
}

// findingsBy does so by a configuration, with what else is known.
func findingsBy(t *testing.T, text string, asOf float64, config Config, know func(*judge)) []string {
	t.Helper()
	events := historytest.Events(t, text)
	own := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return e.TaskID == "" })
	subject := history.Subject{BusinessKey: "order:1"}
	j := &judge{config: &config, history: history.Build(subject, before(own, historytest.At(asOf))), asOf: historytest.At(asOf)}
	j.pulse = newPulse(signalsOf(events), j.asOf)
	know(j)
	lines := []string{}
	for _, f := range j.verdict().findings {
		line := f.Rule + " " + string(f.Severity)
		switch f.Rule {
		case RepeatedEffect:
			line += fmt.Sprintf(" %s %d", f.Cause, f.Effects)
		case StuckPending:
			line += fmt.Sprintf(" %s %s", f.TaskIDs[0], f.Fields["phase"])
		case RetryStorm:
			line += fmt.Sprintf(" %s %v", f.Fields["kind"], f.Fields["peak"])
		case ConcurrentRuns:
			line += fmt.Sprintf(" %s %v", f.Cause, f.Fields["runs"])
		case RedeliveryLoop:
			line += fmt.Sprintf(" %v", f.Fields["deliveries"])
		case KeyDrift:
			line += fmt.Sprintf(" %v %v", f.Fields["kind"], f.Fields["keys"])
		case SwallowedWork:
			line += fmt.Sprintf(" %v %v", f.Fields["skips"], f.Fields["holder_end"])
		case PartialEffects:
			line += fmt.Sprintf(" %v %v", f.Fields["done"], f.Fields["not_done"])
		case TerminalConflict:
			line += fmt.Sprintf(" %v %v", f.Fields["first_end"], f.Fields["second_end"])
		case DeadlineMissed:
			line += fmt.Sprintf(" %v", f.Fields["late_seconds"])
		}
		if f.Fields["certainty"] == nil {
			t.Errorf("%s does not say how sure it is", line)
		}
		if f.Explanation == "" || f.Title == "" || f.Remedy == "" || len(f.Evidence) == 0 {
			t.Errorf("%s does not explain itself: %+v", line, f)
		}
		lines = append(lines, line)
	}
	return lines
}

// The least that an event may say leaves out the task's name, its worker and its start.
func TestLeastToldReadsWell(t *testing.T) {
	config := DefaultConfig()
	events := historytest.Events(t, "1 succeeded a task=\n9 succeeded b task=")
	j := &judge{config: &config, history: history.Build(history.Subject{BusinessKey: "order:1"}, events), asOf: historytest.At(60)}
	j.pulse = newPulse(nil, j.asOf)
	found := j.verdict().findings
	if len(found) != 1 {
		t.Fatalf("%d findings, want 1", len(found))
	}
	const title = "work done twice for order:1"
	const explanation = "A worker first ran it to success at 2026-11-02 00:00:01.000Z. The same work stood in the queue a second time " +
		"under another task id (b beside a), and a worker ran it to success again at 00:00:09.000Z. " +
		"The task emits no effects, so its success is counted."
	if f := found[0]; f.Title != title || f.Explanation != explanation {
		t.Errorf("%s\n%s", f.Title, f.Explanation)
	}
	j.history = history.Build(history.Subject{BusinessKey: "order:1"}, historytest.Events(t, "1 started a task="))
	j.asOf = historytest.At(3600)
	if found := j.verdict().findings; len(found) != 1 || found[0].Title != "work for order:1 is stuck: started and no end" {
		t.Errorf("%+v", found)
	}
}

// beats are heartbeats of a worker every two seconds.
func beats(worker string, from, to float64, more string) string {
	var b strings.Builder
	for s := from; s <= to; s += 2 {
		fmt.Fprintf(&b, "%g heartbeat w=%s %s\n", s, worker, more)
	}
	return b.String()
}

func TestCauses(t *testing.T) {
	const again = `
		60 received a w=w2 r=0 redelivered
		61 started a w=w2 r=0
		62 effect a w=w2 r=0 name=mail
		63 succeeded a w=w2 r=0`
	const first = `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		2 effect a w=w1 r=0 name=mail
		`
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"the first run ends after the second delivery", first + again + "\n90 succeeded a w=w1 r=0",
			[]string{"repeated_effect critical redelivered_while_running 2", "concurrent_runs warning redelivered_while_running 2"}},
		{"the first run says anything after the second delivery", first + again + "\n61.5 effect a w=w1 r=0 name=log",
			[]string{"repeated_effect critical redelivered_while_running 2", "concurrent_runs info redelivered_while_running 2"}},
		{"the first run has no end, and its worker's heartbeats go on", first + again + "\n" + beats("w1", 0, 100, ""),
			[]string{"repeated_effect critical redelivered_while_running 2"}},
		{"its worker's heartbeats stop", beats("w1", -40, 3, "") + first + again,
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its worker's heartbeats stop, and it comes back under its name", beats("w1", -40, 3, "") + first + again + "\n" + beats("w1", 50, 200, ""),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its worker comes back as another process before its silence is long", strings.ReplaceAll(first, "w=w1", "w=w1 pid=7") + again +
			"\n" + beats("w1", -20, 2, "pid=7") + beats("w1", 4, 100, "pid=8"),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its worker's children speak for it", strings.ReplaceAll(first, "w=w1", "w=w1 pid=7") + again + "\n" + beats("w1", -20, 100, "pid=1"),
			[]string{"repeated_effect critical redelivered_while_running 2"}},
		{"nothing is heard from its worker again", first + again,
			[]string{"repeated_effect critical worker_lost 2"}},
		{"nothing is heard from its worker until the task comes back to it", first + strings.ReplaceAll(again, "w=w2", "w=w1"),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its worker, process 1 of a container, is silent until the task comes back to it",
			strings.ReplaceAll(first+strings.ReplaceAll(again, "w=w2", "w=w1"), "w=w1", "w=w1 pid=1"),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its worker does something else before the task comes back to it", first + "30 started b w=w1 r=0\n31 succeeded b w=w1 r=0\n" + strings.ReplaceAll(again, "w=w2", "w=w1"),
			[]string{"repeated_effect critical redelivered_while_running 2"}},
		{"the same process takes the task again", strings.ReplaceAll(first+strings.ReplaceAll(again, "w=w2", "w=w1"), "w=w1", "w=w1 pid=7"),
			[]string{"repeated_effect critical redelivered_while_running 2"}},
		{"its worker was reported lost", first + "3 worker_lost w=w1\n" + again + "\n" + beats("w1", 70, 200, ""),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"its process was reported lost", first + "3 worker_lost a w=w1 r=0\n" + again + "\n" + beats("w1", 0, 200, ""),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"Celery's pool reports its process lost", first + "3 failed a w=w1 r=0 err=WorkerLostError\n" + again,
			[]string{"repeated_effect critical worker_lost 2"}},
		{"the attempt number grew with no retry in between", first + strings.ReplaceAll(again, "r=0", "r=1"),
			[]string{"repeated_effect critical redelivered_while_running 2"}},
		{"the attempt number grew, but its worker's heartbeats stopped", beats("w1", -40, 3, "") + first + strings.ReplaceAll(again, "r=0", "r=1"),
			[]string{"repeated_effect critical worker_lost 2"}},
		{"the first run had succeeded", first + "3 succeeded a w=w1 r=0\n" + again,
			[]string{"repeated_effect critical redelivered_after_success 2"}},
		{"a later step failed and was retried", first + "3 retried a w=w1 r=0 err=ConnectionError\n" + strings.ReplaceAll(again, "r=0", "r=1"),
			[]string{"repeated_effect critical retried_after_effect 2"}},
		{"the next attempt is received before the word retried", first + "60.5 retried a w=w1 r=0 err=ConnectionError\n" + strings.ReplaceAll(again, "r=0", "r=1"),
			[]string{"repeated_effect critical retried_after_effect 2"}},
		{"a later step failed, and the message went back unchanged", first + "3 rejected a w=w1 r=0 requeue\n" + again,
			[]string{"repeated_effect critical retried_after_effect 2"}},
		{"published under two ids", first + "3 succeeded a w=w1 r=0\n" + strings.ReplaceAll(again, " a ", " b "),
			[]string{"repeated_effect critical published_twice 2"}},
		{"twice within one run", first + "2.5 effect a w=w1 r=0 name=mail\n3 succeeded a w=w1 r=0",
			[]string{"repeated_effect critical unknown 2"}},
		{"several causes: the first that fits is named", first + "3 succeeded a w=w1 r=0\n" + again + `
			70 received b w=w3 r=0
			71 started b w=w3 r=0
			72 effect b w=w3 r=0 name=mail
			73 succeeded b w=w3 r=0`,
			[]string{"repeated_effect critical redelivered_after_success 3"}},
		{"every copy carried the same idempotency key", strings.ReplaceAll(first+"3 succeeded a w=w1 r=0\n"+again, "name=mail", "name=mail idem=k1"),
			[]string{"repeated_effect warning redelivered_after_success 2"}},
		{"without a worker there is no telling", strings.NewReplacer("w=w1", "", "w=w2", "").Replace(`
			0 started a w=w1
			2 effect a w=w1 name=mail exec=x
			60 started a w=w2
			62 effect a w=w2 name=mail exec=y
			63 succeeded a exec=y`),
			[]string{"repeated_effect critical unknown 2"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, findings(t, test.events, 300)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSilent(t *testing.T) {
	for _, test := range []struct{ name, events string }{
		{"the receiver dropped the copy", `
			0 started a w=w1 r=0
			1 effect a w=w1 r=0 name=charge
			2 retried a w=w1 r=0
			9 started a w=w1 r=1
			10 effect a w=w1 r=1 name=charge dropped
			11 succeeded a w=w1 r=1`},
		{"one effect each for two targets", `
			0 started a w=w1 r=0
			1 effect a w=w1 r=0 name=mail target=x
			2 effect a w=w1 r=0 name=mail target=y
			3 succeeded a w=w1 r=0`},
		{"an effect that came twice under one id", `
			0 started a w=w1 r=0
			1 effect a w=w1 r=0 name=mail id=m
			1 effect a w=w1 r=0 name=mail id=m
			3 succeeded a w=w1 r=0`},
		{"the second run did its effect, the first had not got so far", `
			0 started a w=w1 r=0
			1 retried a w=w1 r=0
			9 started a w=w1 r=1
			10 effect a w=w1 r=1 name=mail
			11 succeeded a w=w1 r=1`},
		{"success is told twice of one run", `
			0 received a w=w1 r=0
			1 started a w=w1 r=0
			2 succeeded a w=w1 r=0
			2.5 succeeded a w=w1 r=0`},
		{"two tasks of one key succeed", `
			0 started a w=w1 r=0 task=settle
			1 succeeded a w=w1 r=0 task=settle
			2 started b w=w1 r=0 task=notify
			3 succeeded b w=w1 r=0 task=notify`},
		{"a copy stood aside", `
			0 started a w=w1 r=0
			1 started b w=w2 r=0
			1.5 skipped b w=w2 r=0
			3 succeeded a w=w1 r=0`},
		{"a day lies between", `
			0 started a w=w1 r=0
			1 succeeded a w=w1 r=0
			86500 started b w=w1 r=0
			86501 succeeded b w=w1 r=0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff([]string{}, findings(t, test.events, 100_000)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	for _, test := range []struct {
		name, events string
		asOf         float64
		want         []string
	}{
		{"published, and nobody took it", "0 sent a r=0", 901, []string{"stuck_pending warning a sent"}},
		{"not yet due", "0 sent a r=0", 899, nil},
		{"received, never started", "0 received a w=w1 r=0", 901, []string{"stuck_pending warning a received"}},
		{"waits for its eta", "0 received a w=w1 r=0 eta=7200", 8000, nil},
		{"its eta is long past", "0 received a w=w1 r=0 eta=7200", 8101, []string{"stuck_pending warning a received"}},
		{"expired before it was started", "0 sent a r=0 expires=60", 5000, nil},
		{"started in time, then hung", "0 received a w=w1 r=0 expires=60\n1 started a w=w1 r=0", 5000, []string{"stuck_pending warning a started"}},
		{"started, then hung after an effect", "0 started a w=w1 r=0\n1 effect a w=w1 r=0 name=mail", 901, []string{"stuck_pending warning a started"}},
		{"waits for its next attempt", "0 started a w=w1 r=0\n1 retried a w=w1 r=0 in=3600", 3700, nil},
		{"its next attempt never came", "0 started a w=w1 r=0\n1 retried a w=w1 r=0 in=3600", 4600, []string{"stuck_pending warning a retry"}},
		{"put back, and not seen again", "0 started a w=w1 r=0\n1 rejected a w=w1 r=0 requeue", 1000, []string{"stuck_pending warning a retry"}},
		{"its process was lost, and nobody took it again", "0 started a w=w1 r=0\n1 worker_lost a w=w1 r=0", 1000, []string{"stuck_pending warning a started"}},
		{"thrown away", "0 started a w=w1 r=0\n1 rejected a w=w1 r=0", 1000, nil},
		{"revoked before it was received", "0 sent a r=0\n1 revoked a w=w1 r=0", 5000, nil},
		{"an earlier delivery was lost, the last one ended", "0 started a w=w1 r=0\n60 started a w=w2 r=0\n61 succeeded a w=w2 r=0", 5000, nil},
		{"an earlier delivery outlived the last one, and ended", "0 started a w=w1 r=0\n60 started a w=w2 r=0\n70 succeeded a w=w1 r=0", 5000, nil},
		{"its publisher's clock is ahead of the worker's", "5 sent a r=0\n0 received a w=w1 r=0\n1 started a w=w1 r=0\n2 succeeded a w=w1 r=0", 5000, nil},
		{"its worker said afterwards that it runs nothing", "0 started a w=w1\n60 heartbeat w=w1 active=0", 5000, nil},
		{"its worker said afterwards that it runs one", "0 started a w=w1\n60 heartbeat w=w1 active=1", 5000, []string{"stuck_pending warning a started"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, findings(t, test.events, test.asOf)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryLoop(t *testing.T) {
	loop := func(retries int, every float64) string {
		var b strings.Builder
		for i := range retries {
			at := float64(i) * every
			fmt.Fprintf(&b, "%g started a w=w1 r=%d\n%g retried a w=w1 r=%d err=ConnectionError\n", at, i, at+every/2, i)
		}
		fmt.Fprintf(&b, "%g failed a w=w1 r=%d\n", float64(retries)*every, retries)
		return b.String()
	}
	if diff := cmp.Diff([]string{"retry_storm warning loop 10"}, findings(t, loop(10, 6), 3000)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{}, findings(t, loop(9, 6), 3000)); diff != "" {
		t.Error("nine in a minute", diff)
	}
	if diff := cmp.Diff([]string{}, findings(t, loop(30, 10), 3000)); diff != "" {
		t.Error("one in ten seconds", diff)
	}
	polling := strings.ReplaceAll(loop(30, 1), " r=", " task=celery.chord_unlock r=")
	if diff := cmp.Diff([]string{}, findings(t, polling, 3000)); diff != "" {
		t.Error("polling", diff)
	}
	off := func(c *Config) { c.Tasks = map[string]Task{"shop.settle": {Off: []string{RetryStorm}}} }
	if diff := cmp.Diff([]string{}, findings(t, loop(30, 1), 3000, off)); diff != "" {
		t.Error("switched off", diff)
	}
}

func TestTimeoutIsNamed(t *testing.T) {
	config := DefaultConfig()
	for gap, want := range map[time.Duration]string{
		3601 * time.Second: config.Timeouts[0].Name, 3690 * time.Second: config.Timeouts[0].Name, 3800 * time.Second: "",
		1800 * time.Second: config.Timeouts[1].Name, 1900 * time.Second: "", 70 * time.Second: "",
	} {
		if got := config.timeoutOf("shop.settle", gap); got != want {
			t.Errorf("%s: %q, want %q", gap, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ms", 25 * time.Millisecond: "25 ms", 9300 * time.Millisecond: "9.3 s", time.Minute: "1 m", 70 * time.Second: "1 m 10 s",
		time.Hour: "1 h", time.Hour + time.Second: "1 h 0 m 1 s", 90 * time.Minute: "1 h 30 m", -time.Minute: "-1 m",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
