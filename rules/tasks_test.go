package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/history/historytest"
)

func withTasks(tasks map[string]Task) func(*Config) { return func(c *Config) { c.Tasks = tasks } }

func TestMostPrecisePatternThatSaysAnythingHolds(t *testing.T) {
	c := DefaultConfig()
	c.StuckP99 = 3
	c.Tasks = map[string]Task{
		"*":           {LookBack: time.Hour, Off: []string{RetryStorm}, Severity: map[string]finding.Severity{RetryStorm: finding.Info, StuckPending: finding.Critical}},
		"mail.*":      {RetryLoop: RetryLoop{Retries: 4}, Off: []string{StuckPending}, Severity: map[string]finding.Severity{StuckPending: finding.Info}},
		"mail.send*":  {StuckAfter: time.Minute, Timeouts: []Timeout{{Name: "lock", After: 10 * time.Minute}}},
		"mail.send":   {LookBack: 2 * time.Hour, IgnoreKeys: []string{"test:*"}},
		"mail.sender": {StuckP99: 5},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	got := c.of("mail.send")
	want := Task{StuckAfter: time.Minute, LookBack: 2 * time.Hour, RetryLoop: RetryLoop{Retries: 4, Within: time.Minute}, Redelivery: c.Redelivery,
		Swallowed: c.Swallowed, Permanent: c.Permanent, IgnoreKeys: []string{"test:*"}, Timeouts: c.Tasks["mail.send*"].Timeouts, Off: []string{StuckPending},
		Severity: map[string]finding.Severity{RetryStorm: finding.Info, StuckPending: finding.Info}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(c.Tasks["*"].Severity) != 2 || c.Tasks["*"].Severity[StuckPending] != finding.Critical {
		t.Errorf("what a pattern says was changed: %v", c.Tasks["*"])
	}
	p99 := map[string]time.Duration{"mail.send": time.Hour, "mail.sender": time.Hour, "shop": time.Hour}
	for task, want := range map[string]time.Duration{"mail.send": time.Minute, "mail.sender": 5 * time.Hour, "shop": 3 * time.Hour, "other": 15 * time.Minute} {
		if got := c.stuckAfterOf(task, p99); got != want {
			t.Errorf("%s is stuck after %s, want %s", task, got, want)
		}
	}
	if c.timeoutOf("mail.send", 10*time.Minute) != "lock" || c.timeoutOf("mail.get", 10*time.Minute) != "" || c.timeoutOf("mail.send", time.Hour) == "" {
		t.Error("the task's own time-outs do not count beside those of all")
	}
	if c.leastRetries() != 4 || c.leastSwallowed() != c.Swallowed || c.leastPermanentIDs() != c.Permanent.IDs || c.longestLookBack() != 24*time.Hour {
		t.Error("suspects are looked for by another measure than the smallest")
	}
}

func TestTasksThatCannotBe(t *testing.T) {
	for want, task := range map[string]Task{
		"tasks.a.stuck_after: must be 0 or longer":                       {StuckAfter: -1},
		"tasks.a.stuck_p99: must be 0, or 1 or more":                     {StuckP99: 0.5},
		"tasks.a.retry_loop.retries: must be 2 or more":                  {RetryLoop: RetryLoop{Retries: 1}},
		"tasks.a.redelivery_loop.within: must be 0 or longer":            {Redelivery: DeliveryLoop{Within: -1}},
		"tasks.a.swallowed_after: must be 0 or longer":                   {Swallowed: -1},
		"tasks.a.permanent_errors.ids: must be 2 or more":                {Permanent: PermanentErrors{IDs: 1}},
		"tasks.a.ignore_keys: must be without an empty text":             {IgnoreKeys: []string{""}},
		"tasks.a.effects: must be without mail, which ignore_effects":    {Effects: []string{"mail"}, IgnoreEffects: []string{"m*"}},
		"tasks.a.timeouts[0].after: must be longer than 0":               {Timeouts: []Timeout{{Name: "x"}}},
		"tasks.a.severity.storm: must be of a rule among":                {Severity: map[string]finding.Severity{"storm": "info"}},
		"tasks.a.severity.retry_storm: must be among [critical warning ": {Severity: map[string]finding.Severity{RetryStorm: "loud"}},
		"tasks.a.off: must be among":                                     {Off: []string{"storm"}},
	} {
		c := DefaultConfig()
		c.Tasks = map[string]Task{"a": task}
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What rules find of one key changes with the configuration of its task, as much as is said and no more.
func TestRulesGoByTheTasksOwn(t *testing.T) {
	loop := "0 received a w=w1 r=0\n1 retried a w=w1 r=0\n2 received a w=w1 r=1\n3 retried a w=w1 r=1\n4 received a w=w1 r=2\n5 succeeded a w=w1 r=2"
	twice := "0 started a w=w1 r=0\n1 effect a w=w1 r=0 name=mail\n2 succeeded a w=w1 r=0\n10 started b w=w1 r=0\n11 effect b w=w1 r=0 name=mail\n12 succeeded b w=w1 r=0"
	redelivered := "0 received a w=w1 r=0\n1 started a w=w1 r=0\n2 succeeded a w=w1 r=0\n3 received a w=w1 r=0\n4 started a w=w1 r=0\n5 skipped a w=w1 r=0\n6 received a w=w1 r=0\n7 started a w=w1 r=0\n8 skipped a w=w1 r=0"
	for _, c := range []struct {
		name, events string
		asOf         float64
		task         Task
		want         []string
	}{
		{"retries", loop, 60, Task{}, nil},
		{"fewer retries", loop, 60, Task{RetryLoop: RetryLoop{Retries: 2}}, []string{"retry_storm warning loop 2"}},
		{"within less", loop, 60, Task{RetryLoop: RetryLoop{Retries: 2, Within: time.Second}}, nil},
		{"severity", loop, 60, Task{RetryLoop: RetryLoop{Retries: 2}, Severity: map[string]finding.Severity{RetryStorm: finding.Critical}}, []string{"retry_storm critical loop 2"}},
		{"deliveries", redelivered, 60, Task{Redelivery: DeliveryLoop{Deliveries: 3}}, []string{"redelivery_loop warning 3"}},
		{"twice", twice, 60, Task{}, []string{"repeated_effect critical published_twice 2"}},
		{"off", twice, 60, Task{Off: []string{RepeatedEffect}}, nil},
		{"look-back", twice, 60, Task{LookBack: 5 * time.Second}, nil},
		{"an ignored key", twice, 60, Task{IgnoreKeys: []string{"x", "order:*"}}, nil},
		{"another key is ignored", twice, 60, Task{IgnoreKeys: []string{"order"}}, []string{"repeated_effect critical published_twice 2"}},
		{"an ignored effect", twice, 60, Task{IgnoreEffects: []string{"ma*"}}, nil},
		{"another effect is ignored", twice, 60, Task{IgnoreEffects: []string{"sms"}}, []string{"repeated_effect critical published_twice 2"}},
		{"stuck", "0 started a w=w1 r=0", 120, Task{StuckAfter: time.Minute}, []string{"stuck_pending warning a started"}},
		{"not stuck yet", "0 started a w=w1 r=0", 1000, Task{StuckAfter: time.Hour}, nil},
	} {
		for _, name := range []string{"shop.settle", "shop.*", "*"} {
			t.Run(c.name+" "+name, func(t *testing.T) {
				got := findings(t, c.events, c.asOf, withTasks(map[string]Task{name: c.task, "other": {Off: Names}}))
				if diff := cmp.Diff(append([]string{}, c.want...), got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// What is only information for want of evidence is no alarm, whatever the configuration says.
func TestWantOfEvidenceIsNotMadeAnAlarm(t *testing.T) {
	c := DefaultConfig()
	c.Tasks = map[string]Task{"*": {Severity: map[string]finding.Severity{StuckPending: finding.Critical}}}
	f := finding.Finding{Rule: StuckPending, Severity: finding.Info, Fields: map[string]any{"certainty": "unsure"}}
	if got := c.severityOf(f); got != finding.Info {
		t.Errorf("it is %s", got)
	}
	f.Severity = finding.Warning
	if got := c.severityOf(f); got != finding.Critical {
		t.Errorf("a sure one is %s", got)
	}
}

// The pass in ClickHouse sees what a task's own thresholds make suspect, and when a task is due by a pattern of its name.
func TestSuspectsGoByTheTasksOwn(t *testing.T) {
	config := DefaultConfig()
	config.Tasks = map[string]Task{"shop.set*": {RetryLoop: RetryLoop{Retries: 2}}, "*.wait": {StuckAfter: time.Minute}, "other.wait": {StuckAfter: time.Hour}}
	b := newBench(t, config)
	b.add(historytest.Events(t, "0 received a w=w1 r=0\n1 retried a w=w1 r=0\n2 received a w=w1 r=1\n3 retried a w=w1 r=1\n4 received a w=w1 r=2\n5 succeeded a w=w1 r=2")...)
	if got := b.look(historytest.At(10)); got.Rule != RetryStorm {
		t.Errorf("found %+v", got)
	}
	b = newBench(t, config)
	b.add(historytest.Events(t, "0 started a w=w1 r=0 task=shop.wait\n0 started b w=w1 r=0 task=other.wait key=order:2\n0 started c w=w1 r=0 task=x key=order:3")...)
	if got := b.look(historytest.At(100)); got.Rule != StuckPending || got.BusinessKey != "order:1" {
		t.Errorf("found %+v", got)
	}
	if n := b.due(historytest.At(1000)); n != 2 { // the second time for a, and the first for c
		t.Errorf("%d tasks are due, want 2", n)
	}
}

// What stands open when the configuration begins to leave it out is resolved, and its log says why.
func TestLeftOutByTheConfigurationResolves(t *testing.T) {
	twice := "0 started a w=w1 r=0\n1 effect a w=w1 r=0 name=mail\n2 succeeded a w=w1 r=0\n10 started b w=w1 r=0\n11 effect b w=w1 r=0 name=mail\n12 succeeded b w=w1 r=0"
	for why, task := range map[string]Task{
		"the configuration turns repeated_effect off for shop.settle": {Off: []string{RepeatedEffect}},
		"the configuration ignores this key for shop.settle":          {IgnoreKeys: []string{"order:*"}},
		"the configuration ignores the effect mail of shop.settle":    {IgnoreEffects: []string{"mail"}},
		"": {Off: []string{StuckPending}},
	} {
		b := newBench(t, DefaultConfig())
		b.add(historytest.Events(t, twice)...)
		if got := b.look(historytest.At(60)); got.State != finding.Open {
			t.Fatalf("found %+v", got)
		}
		for range 2 { // the second start finds nothing more to do
			config := DefaultConfig()
			config.Tasks = map[string]Task{"shop.*": task}
			b.engine = newBenchEngine(t, config, b.store)
			got := b.look(historytest.At(100))
			if want := map[bool]finding.State{true: finding.Resolved, false: finding.Open}[why != ""]; got.State != want {
				t.Errorf("%q: it is %s, want %s", why, got.State, want)
			}
		}
		log, err := b.store.Pages().FindingLog(t.Context(), b.look(historytest.At(101)).ID)
		if err != nil {
			t.Fatal(err)
		}
		if last := log[len(log)-1]; why != "" && (len(log) != 2 || last.Note != why || last.By != byAuditor) {
			t.Errorf("%q: the log ends with %+v", why, last)
		}
	}
}
