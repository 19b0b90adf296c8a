package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/review"
	"auditor/rules"
)

// load reads text as auditor.yaml, with an environment.
func load(t *testing.T, text string, env map[string]string) (Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("auditor.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Source{File: "auditor.yaml", Getenv: func(name string) string { return env[name] }})
}

func TestDefaultIsValid(t *testing.T) {
	c, err := Load(Source{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("nothing is set, and the configuration is not the default (-want +got):\n%s", diff)
	}
}

func TestLayers(t *testing.T) {
	text := `
listen: 127.0.0.1:1
data: from-file
kafka:
  brokers: [a:1, b:2]
  topics:
    - one
tasks:
  shop.settle_order:
    business_key: "settle_order:{{ arg 0 }}"
    stuck_after: 90s
    look_back: 2h
    off: [retry_storm]
rules:
  timeouts:
    - {name: lease, after: 5m, sweep: 1s}
clickhouse:
  password: "0123"
`
	env := map[string]string{
		"AUDITOR_DATA":                  "from-env",
		"AUDITOR_LISTEN":                "127.0.0.1:2",
		"AUDITOR_KAFKA_TOPICS":          "two, three",
		"AUDITOR_RULES_STUCK_AFTER":     "7m",
		"AUDITOR_KAFKA_TLS_ENABLED":     "true",
		"AUDITOR_PORT":                  "tcp://10.0.0.1:80", // as a cluster sets it for a service of our name
		"AUDITOR_RULES_LOCK_STEP_TASKS": "33",
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("auditor.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(Source{
		File:   "auditor.yaml",
		Getenv: func(name string) string { return env[name] },
		Flags:  map[string]string{"listen": "127.0.0.1:3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = "127.0.0.1:3"
	want.Data = "from-env"
	want.Kafka.Brokers = []string{"a:1", "b:2"}
	want.Kafka.Topics = []string{"two", "three"}
	want.Kafka.TLS.Enabled = true
	want.Rules.StuckAfter = 7 * time.Minute
	want.Rules.LockStep.Tasks = 33
	want.Rules.Timeouts = want.Rules.Timeouts[:1:1]
	want.Rules.Timeouts[0].Name, want.Rules.Timeouts[0].After, want.Rules.Timeouts[0].Sweep = "lease", 5*time.Minute, time.Second
	want.ClickHouse.Password = "0123"
	want.Tasks = map[string]Task{"shop.settle_order": {
		BusinessKey: "settle_order:{{ arg 0 }}", Rules: rules.Task{StuckAfter: 90 * time.Second, LookBack: 2 * time.Hour, Off: []string{"retry_storm"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.Decoder().Keys["shop.settle_order"] != "settle_order:{{ arg 0 }}" {
		t.Error("the decoder does not know the key's template")
	}
	if got.RuleConfig().Tasks["shop.settle_order"].StuckAfter != 90*time.Second {
		t.Error("the rules do not know the task's own time")
	}
	reviewed := got.Review()
	lease := []review.Timeout{{Name: "lease", After: 5 * time.Minute}}
	if own := reviewed.Of("shop.settle_order"); reviewed.Of("other").LookBack != 24*time.Hour || own.LookBack != 2*time.Hour || !cmp.Equal(own.Timeouts, lease) {
		t.Errorf("of reviews: %+v, and of the task %+v", reviewed, own)
	}
}

func TestErrorsNameFieldAndPlace(t *testing.T) {
	for _, c := range []struct {
		name, text string
		env        map[string]string
		want       []string
	}{
		{"unknown key", "kafka:\n  broker: [a:1]\n", nil,
			[]string{"auditor.yaml:2: kafka.broker: is not a known key; known here are brokers, topics, group, client_id, tls, sasl"}},
		{"unknown section", "kafkaa:\n  x: 1\n", nil, []string{"auditor.yaml:1: kafkaa: is not a known key; known here are listen, profiling, data, log,"}},
		{"several at once", "listen: 80\ndata: ''\nlog:\n  level: loud\n", nil, []string{
			`auditor.yaml:1: listen: must be host:port, such as 127.0.0.1:8080, not "80"`,
			`auditor.yaml:2: data: must be a directory`,
			`auditor.yaml:4: log.level: must be one of debug, info, warn, error, not "loud"`,
		}},
		{"twice", "data: a\nlisten: 127.0.0.1:1\ndata: b\n", nil, []string{"auditor.yaml:3: "}},
		{"no duration", "rules:\n  interval: 5\n", nil, []string{`auditor.yaml:2: rules.interval: must be a duration such as 30s, 15m or 24h, not "5"`}},
		{"no number", "ingest:\n  max_rows: many\n", nil, []string{`auditor.yaml:2: ingest.max_rows: must be a whole number, not "many"`}},
		{"no list", "kafka:\n  brokers: a:1\n", nil, []string{"auditor.yaml:2: kafka.brokers: must be a list, such as [a, b]"}},
		{"no mapping", "kafka: a:1\n", nil, []string{"auditor.yaml:1: kafka: must be a mapping"}},
		{"no value", "data:\n", nil, []string{`auditor.yaml:1: data: must be one plain value; the empty text is written ""`}},
		{"no YAML", "data: [\n", nil, []string{"auditor.yaml:1: "}},
		{"two documents", "data: a\n---\ndata: b\n", nil, []string{"auditor.yaml: must hold one YAML document"}},
		{"a package's own check", "kafka:\n  group: ''\n", nil, []string{"auditor.yaml:2: kafka.group: must name a consumer group"}},
		{"a rule's own check", "rules:\n  lock_step:\n    tasks: 1\n", nil, []string{"auditor.yaml:3: rules.lock_step.tasks: must be 2 or more"}},
		{"key template", "tasks:\n  a.b:\n    business_key: '{{ nope }}'\n", nil, []string{"auditor.yaml:3: tasks.a.b.business_key: "}},
		{"rule name", "tasks:\n  a:\n    off: [nope]\n", nil, []string{"auditor.yaml:3: tasks.a.off: must be among"}},
		{"severity of no rule", "tasks:\n  'mail.*':\n    severity:\n      storm: info\n", nil, []string{"auditor.yaml:4: tasks.mail.*.severity.storm: must be of a rule among"}},
		{"no severity", "tasks:\n  a:\n    severity: {retry_storm: loud}\n", nil, []string{"auditor.yaml:3: tasks.a.severity.retry_storm: must be among"}},
		{"a severity that is a list", "tasks:\n  a:\n    severity: {retry_storm: [info]}\n", nil, []string{"auditor.yaml:3: tasks.a.severity.retry_storm: must be one plain value"}},
		{"severities in one word", "tasks:\n  a:\n    severity: info\n", nil, []string{"auditor.yaml:3: tasks.a.severity: must be a mapping"}},
		{"threshold of a task", "tasks:\n  a:\n    retry_loop:\n      retries: 1\n", nil, []string{"auditor.yaml:4: tasks.a.retry_loop.retries: must be 2 or more"}},
		{"row of a table", "rules:\n  timeouts:\n    - {name: x, after: soon}\n", nil, []string{"auditor.yaml:3: rules.timeouts[0].after: must be a duration"}},
		{"environment", "", map[string]string{"AUDITOR_RULES_INTERVAL": "soon", "AUDITOR_LOG_FORMAT": "xml"}, []string{
			`AUDITOR_RULES_INTERVAL: rules.interval: must be a duration`}},
		{"environment, well formed", "", map[string]string{"AUDITOR_LOG_FORMAT": "xml"}, []string{
			`AUDITOR_LOG_FORMAT: log.format: must be one of text, json, not "xml"`}},
		{"open port", "embedded:\n  clickhouse_listen: 127.0.0.1:8123\n", nil, []string{"embedded.clickhouse_password_file: must name a file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.text, c.env)
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Errorf("%d errors, want %d:\n%s", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if i < len(lines) && !strings.HasPrefix(lines[i], want) {
					t.Errorf("error %d is\n%s\nwant\n%s", i, lines[i], want)
				}
			}
			if !errors.As(err, new(*Error)) {
				t.Errorf("%T is no *Error", err)
			}
		})
	}
}

func TestPrintHidesSecretsAndReadsBack(t *testing.T) {
	c := Default()
	c.ClickHouse.Password, c.Kafka.SASL.Password = "s3cret-one", "s3cret-two"
	c.Kafka.SASL.Mechanism, c.Kafka.SASL.Username = "PLAIN", "me"
	c.Web.Title = `a "title": with, [signs] # and 'quotes'`
	c.Events.Namespace = "true"
	c.Tasks = map[string]Task{"a: b": {BusinessKey: `k:{{ arg 0 }}`, Rules: rules.Task{LookBack: 36 * time.Hour, Off: []string{"retry_storm"},
		RetryLoop: rules.RetryLoop{Retries: 3}, Timeouts: []rules.Timeout{{Name: "x", After: time.Minute}}, IgnoreKeys: []string{"a*", "b, c"},
		Severity: map[string]finding.Severity{"retry_storm": "info"}}}}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "s3cret") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	got, err := load(t, out.String(), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	c.ClickHouse.Password, c.Kafka.SASL.Password = hidden, hidden
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("read back otherwise (-printed +read):\n%s\n%s", diff, out.String())
	}
}

// The reference file at the top of the project names every key, with its default.
func TestExampleIsComplete(t *testing.T) {
	path, err := filepath.Abs("../../../auditor.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	origins := make(map[string]string)
	if err := readYAML(reflect.ValueOf(&c).Elem(), path, text, origins); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), c); diff != "" {
		t.Errorf("the file does not show the defaults (-default +file):\n%s", diff)
	}
	for _, f := range fields(reflect.ValueOf(&c).Elem(), "") {
		if origins[f.path] == "" {
			t.Errorf("the file lacks %s", f.path)
		}
	}
	for _, f := range children(reflect.ValueOf(Task{}), "") {
		if !strings.Contains(string(text), "#     "+f.path+":") {
			t.Errorf("the file shows no task's %s", f.path)
		}
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.TrimSpace(line) != "" && !strings.Contains(line, "#") && !strings.HasPrefix(strings.TrimSpace(line), "- ") {
			t.Errorf("line %d says nothing about its key: %s", i+1, line)
		}
	}
}

// The task that the reference file shows can be had, and is printed as it stands, without what it does not say.
func TestExampleTask(t *testing.T) {
	text, err := os.ReadFile("../../../auditor.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ntasks:")
	shown := "tasks:\n"
	for _, line := range strings.Split(rest, "\n")[1:] {
		commented, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		shown += strings.TrimPrefix(commented, " ") + "\n"
	}
	c, err := load(t, shown, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	own := c.RuleConfig().Tasks["shop.settle_order"]
	if own.RetryLoop != (rules.RetryLoop{Retries: 30, Within: time.Minute}) || own.Severity["retry_storm"] != finding.Critical || len(own.Timeouts) != 1 {
		t.Errorf("read %+v", own)
	}
	c.Tasks["mail.*"] = Task{Rules: rules.Task{Permanent: rules.PermanentErrors{IDs: 7}}}
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	if want := "tasks:\n  mail.*:\n    permanent_errors:\n      ids: 7\n  shop.settle_order:\n"; !strings.Contains(out.String(), want) {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

func FuzzReadYAML(f *testing.F) {
	for _, seed := range []string{"", "listen: a:1", "kafka: {brokers: [a]}", "tasks: {a: {off: [x]}}", "tasks: {a: {severity: {b: c}, timeouts: [{name: d}]}}", "a: &x b\nc: *x", "? [a]\n: b", "rules: {timeouts: [{name: a}]}", "listen: |\n  x\n", "- a", "\x00", "tasks: {? {a: b} : c}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		origins := make(map[string]string)
		if err := readYAML(reflect.ValueOf(&c).Elem(), "f", []byte(text), origins); err != nil {
			return
		}
		var out bytes.Buffer
		if err := c.Print(&out); err != nil {
			t.Fatal(err)
		}
		again := Default()
		if err := readYAML(reflect.ValueOf(&again).Elem(), "f", out.Bytes(), origins); err != nil {
			t.Fatalf("printed, and could not be read: %v\n%s", err, out.String())
		}
	})
}
