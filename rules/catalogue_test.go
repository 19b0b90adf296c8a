package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
)

// only keeps the findings of one rule, for a trouble often shows by several.
func only(rule string, lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, rule+" ") })
}

func TestConcurrentRuns(t *testing.T) {
	const first = "0 started a w=w1@h r=0\n10 succeeded a w=w1@h r=0\n"
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"two ids on one host, by a moment", first + "9.9 started b w=w2@h r=0\n12 succeeded b w=w2@h r=0", []string{"concurrent_runs warning published_twice 2"}},
		{"one id, delivered again", first + "5 started a w=w2@h r=0 redelivered\n12 failed a w=w2@h r=0", []string{"concurrent_runs warning redelivered_while_running 2"}},
		{"two hosts, by less than clocks differ", first + "9 started b w=w2@i r=0\n12 succeeded b w=w2@i r=0", []string{"concurrent_runs info published_twice 2"}},
		{"two hosts, by more", first + "7 started b w=w2@i r=0\n12 succeeded b w=w2@i r=0", []string{"concurrent_runs warning published_twice 2"}},
		{"one inside the other, shorter than clocks differ", first + "5 started b w=w2@i r=0\n5.5 succeeded b w=w2@i r=0", []string{"concurrent_runs warning published_twice 2"}},
		{"one after the other", first + "10 started b w=w2@h r=0\n12 succeeded b w=w2@h r=0", nil},
		{"the second stood aside", first + "5 started b w=w2@h r=0\n5.1 skipped b w=w2@h r=0", nil},
		{"the second was revoked", first + "5 received b w=w2@h r=0\n5.1 revoked b w=w2@h r=0", nil},
		{"the second was only received", first + "5 received b w=w2@h r=0\n11 started b w=w2@h r=0\n12 succeeded b w=w2@h r=0", nil},
		{"another task of the key", first + "5 started b w=w2@h r=0 task=other\n12 succeeded b w=w2@h r=0 task=other", nil},
		{"the next attempt, by a clock that is behind", "0 started a w=w1@h r=0\n10 retried a w=w1@h r=0\n9 started a w=w2@i r=1\n12 succeeded a w=w2@i r=1", nil},
		{"polling", strings.ReplaceAll(first+"5 started b w=w2@h r=0\n12 succeeded b w=w2@h r=0", " r=", " task=celery.chord_unlock r="), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, only(ConcurrentRuns, findings(t, test.events, 600)), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var sameIfEmpty = cmp.Transformer("empty", func(s []string) []string {
	if len(s) == 0 {
		return []string{}
	}
	return s
})

func TestRedeliveryLoop(t *testing.T) {
	loop := func(n int, every float64, attempt func(i int) int, end string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%g received a w=w%d r=%d redelivered\n%g started a w=w%d r=%d\n", float64(i)*every, i%3, attempt(i), float64(i)*every+1, i%3, attempt(i))
			if end != "" {
				fmt.Fprintf(&b, "%g %s a w=w%d r=%d\n", float64(i)*every+2, end, i%3, attempt(i))
			}
		}
		return b.String()
	}
	same := func(int) int { return 0 }
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"put back again and again", loop(20, 4, same, "rejected"), []string{"redelivery_loop warning 20"}},
		{"its worker dies of it", loop(5, 60, same, ""), []string{"redelivery_loop warning 5"}},
		{"runs to success again and again", loop(300, 2, same, "succeeded"), []string{"redelivery_loop warning 300"}},
		{"four times", loop(4, 60, same, "rejected"), nil},
		{"five times, but not within an hour", loop(5, 1000, same, "rejected"), nil},
		{"the attempt number grows", loop(20, 4, func(i int) int { return i }, "retried"), nil},
		{"no attempt number is told, and each time it retried", loop(20, 4, func(int) int { return -1 }, "retried"), nil},
		{"no attempt number is told, and each time it failed", loop(20, 4, func(int) int { return -1 }, "failed"), nil},
		{"many revocations", "0 revoked a w=w1\n1 revoked a w=w2\n2 revoked a w=w3\n3 revoked a w=w4\n4 revoked a w=w5\n5 revoked a w=w6", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, only(RedeliveryLoop, findings(t, test.events, 5000)), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSwallowedWork(t *testing.T) {
	const holder = "0 started a w=w1@h r=0\n"
	for _, test := range []struct {
		name, events string
		asOf         float64
		want         []string
	}{
		{"the holder failed and its lock stays", holder + "10 failed a w=w1@h r=0 err=X\n60 skipped b w=w2@h r=0 reason=locked holder=a", 70, []string{"swallowed_work warning 1 failed"}},
		{"the holder was revoked", holder + "5 revoked a w=w1@h r=0\n60 skipped b w=w2@h reason=locked holder=a", 2000, []string{"swallowed_work warning 1 revoked"}},
		{"the dedup row was written before the work", holder + "1 retried a w=w1@h r=0 err=X\n30 started a w=w1@h r=1\n30.1 skipped a w=w1@h r=1 reason=already_processed", 1000, []string{"swallowed_work warning 1 retried"}},
		{"not due yet", holder + "1 retried a w=w1@h r=0 err=X\n30 started a w=w1@h r=1\n30.1 skipped a w=w1@h r=1 reason=already_processed", 900, nil},
		{"nothing is known of a holder", "0 skipped b w=w2@h r=0 reason=locked\n60 skipped c w=w2@h r=0 reason=locked", 1000, []string{"swallowed_work info 2 "}},
		{"it was done, then a copy failed, and another finds that it was done", holder + "1 succeeded a w=w1@h r=0\n100 started b w=w1@h r=0\n101 failed b w=w1@h r=0\n200 skipped c w=w1@h r=0 reason=already_processed", 9000, nil},
		{"the holder succeeded before", holder + "10 succeeded a w=w1@h r=0\n3600 skipped b w=w2@h r=0 reason=already_processed holder=a", 9000, nil},
		{"the holder succeeds soon", holder + "5 skipped b w=w2@h r=0 reason=in_flight holder=a\n10 succeeded a w=w1@h r=0", 9000, nil},
		{"the holder runs for hours, and then succeeds", holder + "5 skipped b w=w2@h r=0 reason=in_flight holder=a\n7200 succeeded a w=w1@h r=0", 9000, nil},
		{"the work was done by its effect", holder + "1 effect a w=w1@h r=0 name=mail\n60 received a w=w2@h r=0 redelivered\n60.1 skipped a w=w2@h r=0 reason=already_processed", 9000, nil},
		{"another copy does it soon", holder + "10 failed a w=w1@h r=0\n60 skipped b w=w2@h r=0 reason=locked\n300 started c w=w2@h r=0\n301 succeeded c w=w2@h r=0", 9000, nil},
		{"silenced for an hour by a lock of a dead run, which then lets go",
			holder + "10 failed a w=w1@h r=0 err=X\n600 skipped b w=w2@h r=0 reason=locked holder=a\n1800 skipped c w=w2@h r=0 reason=locked holder=a\n3700 started d w=w2@h r=0\n3701 succeeded d w=w2@h r=0",
			9000, []string{"swallowed_work warning 2 failed"}},
		{"it succeeded the day before, and now its lock is dead", "0 started z w=w1@h r=0\n1 succeeded z w=w1@h r=0\n40000 started a w=w1@h r=0\n40010 failed a w=w1@h r=0\n40100 skipped b w=w2@h r=0 reason=locked holder=a",
			50000, []string{"swallowed_work warning 1 failed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, only(SwallowedWork, findings(t, test.events, test.asOf)), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run that stood aside keeps its task open until the work must be done, so that the look at what is due judges it.
func TestSwallowedWorkBecomesDue(t *testing.T) {
	config := DefaultConfig()
	events := historytest.Events(t, "0 started a w=w1 r=0\n1 retried a w=w1 r=0\n30 started a w=w1 r=1\n30.5 skipped a w=w1 r=1")
	j := &judge{config: &config, history: history.Build(history.Subject{BusinessKey: "order:1"}, events), asOf: historytest.At(60), pulse: newPulse(nil, historytest.At(60))}
	tasks := j.verdict().tasks
	if len(tasks) != 1 || !tasks[0].Open || tasks[0].Phase != history.PhaseSkipped || !tasks[0].Due.Equal(historytest.At(930.5)) {
		t.Errorf("%+v", tasks)
	}
}

func TestKeyDrift(t *testing.T) {
	const attempts = "0 started a w=w1 r=0\n1 effect a w=w1 r=0 name=charge idem=k1\n2 retried a w=w1 r=0\n9 started a w=w1 r=1\n10 effect a w=w1 r=1 name=charge idem=%s\n11 succeeded a w=w1 r=1"
	if diff := cmp.Diff([]string{"key_drift warning idempotency_key [k1 k2]"}, only(KeyDrift, findings(t, fmt.Sprintf(attempts, "k2"), 600))); diff != "" {
		t.Error(diff)
	}
	if found := only(KeyDrift, findings(t, fmt.Sprintf(attempts, "k1"), 600)); len(found) != 0 {
		t.Error("the same key", found)
	}
	copies := strings.NewReplacer("started a w=w1 r=1", "started b w=w1 r=0", "a w=w1 r=1 name", "b w=w1 r=0 name", "succeeded a", "succeeded b").Replace(fmt.Sprintf(attempts, "k2"))
	if found := only(KeyDrift, findings(t, copies, 600)); len(found) != 0 {
		t.Error("two ids, each with its own key, are two publications and no drift", found)
	}
}

func TestDeadlineMissed(t *testing.T) {
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"started after it had expired", "0 sent a expires=4\n0.5 received a w=w1 r=0 expires=4\n7.5 started a w=w1 r=0\n8 succeeded a w=w1 r=0", []string{"deadline_missed warning 3.5"}},
		{"a moment after it, as clocks may differ", "0 sent a expires=4\n0.5 received a w=w1 r=0\n5 started a w=w1 r=0\n8 succeeded a w=w1 r=0", []string{"deadline_missed info 1"}},
		{"went on after its deadline", "0 started a w=w1 r=0 deadline=60\n90 effect a w=w1 r=0 name=mail\n91 succeeded a w=w1 r=0", []string{"deadline_missed warning 31"}},
		{"started in time and ran on after its expiry", "0 sent a expires=4\n1 started a w=w1 r=0\n60 succeeded a w=w1 r=0", nil},
		{"came too late and stood aside", "0 sent a expires=4\n60 received a w=w1 r=0\n60.1 revoked a w=w1 r=0", nil},
		{"started, saw that it was late, and stood aside", "0 sent a expires=4\n60 started a w=w1 r=0\n60.1 skipped a w=w1 r=0\n61 started b w=w1 r=0\n62 succeeded b w=w1 r=0", nil},
		{"its expiry was moved", "0 sent a expires=4\n3 sent a expires=600\n60 started a w=w1 r=0\n61 succeeded a w=w1 r=0", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, only(DeadlineMissed, findings(t, test.events, 600)), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPartialEffects(t *testing.T) {
	const reserved = "0 started a w=w1@h r=0\n1 effect a w=w1@h r=0 name=reserve\n"
	does := func(c *Config) {
		c.Tasks = map[string]Task{"shop.settle": {Effects: []string{"reserve", "charge", "mail"}}}
	}
	for _, test := range []struct {
		name, events string
		asOf         float64
		want         []string
	}{
		{"it failed half-way", reserved + "2 failed a w=w1@h r=0 err=X", 600, []string{"partial_effects warning [reserve] [charge mail]"}},
		{"its worker was lost half-way, and nobody took it again", reserved + "2 worker_lost a w=w1@h r=0", 5000, []string{"partial_effects warning [reserve] [charge mail]"}},
		{"lost, but it may still be taken again", reserved + "2 worker_lost a w=w1@h r=0", 600, nil},
		{"it was revoked half-way", reserved + "2 revoked a w=w1@h r=0", 600, []string{"partial_effects warning [reserve] [charge mail]"}},
		{"a copy was revoked before it began", reserved + "2 effect a w=w1@h r=0 name=charge\n3 received b w=w1@h r=0\n4 revoked b w=w1@h r=0", 600, nil},
		{"it failed with all of them done", reserved + "2 effect a w=w1@h r=0 name=charge\n3 effect a w=w1@h r=0 name=mail\n4 failed a w=w1@h r=0 err=X", 600, nil},
		{"it will be tried again", reserved + "2 retried a w=w1@h r=0 err=X in=60", 60, nil},
		{"a later run completed it", reserved + "2 failed a w=w1@h r=0 err=X\n60 started b w=w1@h r=0\n61 succeeded b w=w1@h r=0", 600, nil},
		{"it failed before the first of them", "0 started a w=w1@h r=0\n2 failed a w=w1@h r=0 err=X", 600, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := func() []string {
				config := DefaultConfig()
				does(&config)
				return findingsBy(t, test.events, test.asOf, config, func(j *judge) { j.usual = map[string][]string{"shop.settle": config.Tasks["shop.settle"].Effects} })
			}()
			if diff := cmp.Diff(test.want, only(PartialEffects, found), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
	targets := "0 started a w=w1@h r=0\n1 effect a w=w1@h r=0 name=mail target=x\n2 effect a w=w1@h r=0 name=mail target=y\n3 failed a w=w1@h r=0 err=X"
	if diff := cmp.Diff([]string{"partial_effects warning [mail] []"}, only(PartialEffects, findings(t, targets, 600))); diff != "" {
		t.Error("by targets", diff)
	}
	if found := only(PartialEffects, findings(t, reserved+"2 failed a w=w1@h r=0 err=X", 600)); len(found) != 0 {
		t.Error("nothing is known of further effects", found)
	}
}

func TestTerminalConflict(t *testing.T) {
	const run = "0 received a w=w1@h r=0\n1 started a w=w1@h r=0\n"
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"success, then failure", run + "5 succeeded a w=w1@h r=0\n300 failed a w=w1@h r=0 err=Abandoned", []string{"terminal_conflict warning succeeded failed"}},
		{"failure, then success", run + "5 failed a w=w1@h r=0 err=Abandoned\n9 succeeded a w=w1@h r=0", []string{"terminal_conflict warning failed succeeded"}},
		{"a sweep on another machine marks it as failed", run + "5 succeeded a w=w1@h r=0\n300 failed a w=sweep@i r=0 err=Abandoned", []string{"terminal_conflict warning succeeded failed"}},
		{"its effect comes after its failure", run + "5 failed a w=w1@h r=0 err=Abandoned\n9 effect a w=w1@h r=0 name=mail", []string{"terminal_conflict warning failed effect"}},
		{"failure told twice", run + "5 failed a w=w1@h r=0 err=TimeLimitExceeded\n5.1 failed a w=w1@h r=0 err=TimeLimitExceeded", nil},
		{"a failed attempt, then a good one", run + "5 failed a w=w1@h r=0 err=X\n60 started a w=w1@h r=1\n61 succeeded a w=w1@h r=1", nil},
		{"a delivery that failed after one that succeeded", run + "5 succeeded a w=w1@h r=0\n60 received a w=w2@i r=0 redelivered\n61 failed a w=w2@i r=0 err=X", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, only(TerminalConflict, findings(t, test.events, 600)), sameIfEmpty); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Where the end of a run may have been lost on its way, a task without an end is no alarm, and a cause is not sure.
func TestLostEvidence(t *testing.T) {
	gap := func(j *judge) { j.gaps = []history.Gap{{Emitter: "e1", First: 3, Last: 5}} }
	events := "0 started a w=w1 r=0 emitter=e1 seq=2"
	if diff := cmp.Diff([]string{"stuck_pending info a started"}, findingsBy(t, events, 5000, DefaultConfig(), gap)); diff != "" {
		t.Error(diff)
	}
	later := "0 started a w=w1 r=0 emitter=e1 seq=7"
	if diff := cmp.Diff([]string{"stuck_pending warning a started"}, findingsBy(t, later, 5000, DefaultConfig(), gap)); diff != "" {
		t.Error("the gap lies before its last word", diff)
	}
	elsewhere := func(j *judge) {
		j.gapsOfAll = []history.Gap{{Emitter: "e9", First: 3, Last: 5, After: historytest.At(0), Before: historytest.At(60)}}
	}
	if diff := cmp.Diff([]string{"stuck_pending info a sent"}, findingsBy(t, "5 sent a r=0", 5000, DefaultConfig(), elsewhere)); diff != "" {
		t.Error("whoever received it lost events", diff)
	}
	if diff := cmp.Diff([]string{"stuck_pending warning a sent"}, findingsBy(t, "90 sent a r=0", 5000, DefaultConfig(), elsewhere)); diff != "" {
		t.Error("they were lost before it was sent", diff)
	}
}

func TestStuckByItsOwnRunTimes(t *testing.T) {
	config := DefaultConfig()
	config.StuckP99 = 3
	measured := func(j *judge) { j.p99 = map[string]time.Duration{"shop.settle": 100 * time.Second} }
	for asOf, want := range map[float64][]string{299: {}, 301: {"stuck_pending warning a started"}} {
		if diff := cmp.Diff(want, findingsBy(t, "0 started a w=w1 r=0", asOf, config, measured), sameIfEmpty); diff != "" {
			t.Errorf("after %g s: %s", asOf, diff)
		}
	}
	if diff := cmp.Diff([]string{}, findingsBy(t, "0 started a w=w1 r=0", 800, config, func(*judge) {}), sameIfEmpty); diff != "" {
		t.Error("not measured: as for all", diff)
	}
}

func TestPermanentErrors(t *testing.T) {
	config := DefaultConfig()
	of := history.Failing{Task: "mail.send", ErrorType: "Refused", IDs: 5, Exhausted: 5, Retries: 25, First: historytest.At(0), Last: historytest.At(60)}
	change := func(f func(*history.Failing)) history.Failing { c := of; f(&c); return c }
	for _, test := range []struct {
		name    string
		failing history.Failing
		kind    any
	}{
		{"five exhausted their retries", of, kindExhausted},
		{"four did", change(func(f *history.Failing) { f.Exhausted = 4 }), nil},
		{"a retry healed one", change(func(f *history.Failing) { f.IDs, f.Healed = 6, 1 }), nil},
		{"an outage that outlasted all retries", change(func(f *history.Failing) { f.ErrorType = "requests.ConnectionError" }), nil},
		{"one was declared permanent", change(func(f *history.Failing) { f.IDs, f.Exhausted, f.Declared = 1, 0, 1 }), kindDeclared},
		{"a poll", change(func(f *history.Failing) { f.Task = "celery.chord_unlock" }), nil},
	} {
		found := permanentErrors(&config, []history.Failing{test.failing})
		if len(found) == 1 && found[0].Fields["kind"] == test.kind && found[0].Explanation != "" || len(found) == 0 && test.kind == nil {
			continue
		}
		t.Errorf("%s: %+v", test.name, found)
	}
}

func TestIncidents(t *testing.T) {
	config := DefaultConfig()
	at := func(kind rootKind, about string, rule string, seconds ...float64) []finding.Finding {
		var all []finding.Finding
		for i, s := range seconds {
			key := fmt.Sprintf("%s:%d", about, i)
			f := finding.Finding{ID: finding.ID(rule, "", about, key), Rule: rule, Severity: finding.Critical, BusinessKey: key, Effects: 2, Cause: "worker_lost",
				FirstSeen: historytest.At(s), LastSeen: historytest.At(s), Fields: map[string]any{}, Remedy: "mend it"}
			root{kind, about, historytest.At(s), "w1"}.into(&f)
			all = append(all, f)
		}
		return all
	}
	every := func(n int, from, step float64) []float64 {
		var s []float64
		for i := range n {
			s = append(s, from+float64(i)*step)
		}
		return s
	}
	for _, test := range []struct {
		name string
		all  []finding.Finding
		want []int // members of each incident
	}{
		{"a worker's tasks", at(rootWorkerLost, "", RepeatedEffect, every(12, 100, 1)...), []int{12}},
		{"four are no incident", at(rootWorkerLost, "", RepeatedEffect, every(4, 100, 1)...), nil},
		{"two rules on the same keys", append(at(rootRedelivery, "", RepeatedEffect, every(5, 100, 0.1)...), at(rootRedelivery, "", ConcurrentRuns, every(5, 100, 0.1)...)...), []int{10}},
		{"three keys by two rules", append(at(rootRedelivery, "", RepeatedEffect, every(3, 100, 0.1)...), at(rootRedelivery, "", ConcurrentRuns, every(3, 100, 0.1)...)...), nil},
		{"lost acknowledgements now and then, all day", at(rootRedelivery, "", RepeatedEffect, every(2000, 0, 16)...), nil},
		{"workers that go now and then, all day", at(rootWorkerLost, "", RepeatedEffect, every(2000, 0, 11)...), nil},
		{"a wave on top of them", append(at(rootRedelivery, "", RepeatedEffect, every(2000, 0, 16)...), at(rootRedelivery, "", ConcurrentRuns, every(30, 5001, 0.1)...)...), []int{30}},
		{"two waves of one day", at(rootRedelivery, "", RepeatedEffect, append(every(9, 100, 0.1), every(8, 9000, 0.1)...)...), []int{9, 8}},
		{"a failing step, all day", at(rootRetry, "shop.settle, X", RepeatedEffect, every(20, 0, 3000)...), []int{20}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []int
			ids := map[string]bool{}
			for _, g := range groups(&config, test.all) {
				f := incident(g)
				got, ids[f.ID] = append(got, len(g.members)), true
				if f.Title == "" || f.Explanation == "" || f.Remedy == "" || f.Severity != finding.Critical {
					t.Errorf("does not explain itself: %+v", f)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(ids) != len(got) {
				t.Error(diff)
			}
		})
	}
}
