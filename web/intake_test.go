package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"auditor/event"
	"auditor/web"
)

// kafkaLog stands in for Kafka.
type kafkaLog struct {
	mu      sync.Mutex
	records []event.Record
	refused map[int]error
	err     error
	block   chan struct{} // when set, nothing is acknowledged before it is closed
	asked   chan struct{} // when set, told of each call
}

func (l *kafkaLog) Publish(ctx context.Context, records []event.Record) (map[int]error, error) {
	if l.asked != nil {
		l.asked <- struct{}{}
	}
	if l.block != nil {
		select {
		case <-l.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.records = append(l.records, records...)
	}
	return l.refused, l.err
}

const (
	secret  = "6f1c2b8a4f7d4c0e9b1a"
	one     = `{"type":"started","task_id":"a1","business_key":"k:1","time":"2026-11-02T11:59:00Z"}`
	another = `{"type":"succeeded","task_id":"a2","time":"2026-11-02T11:59:30Z"}`
	bad     = `{"type":"started","task_id":"a3"}`
)

// taking lets a server take events for l, from bearers of the tokens in text; without any from whoever is on this machine.
func taking(t *testing.T, l *kafkaLog, text string, change ...func(*web.Options)) http.Handler {
	t.Helper()
	tokens, err := web.ReadTokens(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{Keys: map[string]string{"tasks.slow": "order:{{ arg 0 }}"}})
	if err != nil {
		t.Fatal(err)
	}
	return newServer(t, &fake{}, func(_ *web.Config, o *web.Options) {
		o.Intake = &web.Intake{Config: web.DefaultIntakeConfig(), Loopback: true, Decoder: decoder, Publisher: l}
		if text != "" {
			o.Intake.Tokens = func() web.Tokens { return tokens }
		}
		for _, f := range change {
			f(o)
		}
	})
}

func packed(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		return err.Error()
	}
	if err := w.Close(); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestIntakeReadsEveryForm(t *testing.T) {
	const jsonType, lines = "application/json", "application/x-ndjson"
	cloud := `{"specversion":"1.0","id":"7","source":"/s","type":"x.started","subject":"k:9","time":"2026-11-02T11:59:00Z","data":{"task_id":"c1"}}`
	raw := `{"type":"task-received","uuid":"r1","hostname":"w@h","timestamp":1793620740.5,"name":"tasks.slow","args":"('42',)","kwargs":"{}"}`
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		want       string   // the answer
		keys       []string // of the records sent
	}{
		{"one", one, []string{"Content-Type", jsonType}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"k:1"}},
		{"with a charset", one, []string{"Content-Type", jsonType + "; charset=UTF-8"}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"k:1"}},
		{"array", "[" + one + "," + another + "]", []string{"Content-Type", jsonType}, 200, `{"accepted":2,"rejected":0,"errors":[]}`, []string{"k:1", "a2"}},
		{"lines", one + "\n\n" + another + "\r\n", []string{"Content-Type", lines}, 200, `{"accepted":2,"rejected":0,"errors":[]}`, []string{"k:1", "a2"}},
		{"packed", packed(one + "\n" + another), []string{"Content-Type", lines, "Content-Encoding", "gzip"}, 200, `{"accepted":2,"rejected":0,"errors":[]}`, []string{"k:1", "a2"}},
		{"cloud event", cloud, []string{"Content-Type", "application/cloudevents+json"}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"k:9"}},
		{"cloud events", "[" + cloud + "]", []string{"Content-Type", "application/cloudevents-batch+json"}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"k:9"}},
		{"binary cloud event", `{"task_id":"c1","time":1793620740}`, []string{"Content-Type", jsonType, "Ce-Specversion", "1.0", "Ce-Id", "7", "Ce-Source", "/s", "Ce-Type",
			"x.started", "Ce-Subject", "sch%C3%B6n:9"}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"schön:9"}},
		{"raw Celery", raw, []string{"Content-Type", jsonType}, 200, `{"accepted":1,"rejected":0,"errors":[]}`, []string{"order:42"}},
		{"partly bad", bad + "\n" + one + "\n{\n[" + another + ",7]", []string{"Content-Type", lines}, 207, `{"accepted":2,"rejected":3,"errors":[` +
			`{"index":0,"line":1,"reason":"no_time","detail":"the event tells no time"},{"index":2,"line":3,"reason":"not_json","detail":"the JSON ends too early"},` +
			`{"index":4,"line":4,"reason":"wrong_type","detail":"a JSON number, must be an object"}]}`, []string{"k:1", "a2"}},
		{"nothing good", "[" + bad + "]", []string{"Content-Type", jsonType}, 400, `"errors":[{"index":0,"reason":"no_time","detail":"the event tells no time"}]`, nil},
		{"broken", "[" + one, []string{"Content-Type", jsonType}, 400, `"reason":"not_json"`, nil},
		{"nothing", "", []string{"Content-Type", jsonType}, 400, `"reason":"empty"`, nil},
		{"no lines", "\n\n", []string{"Content-Type", lines}, 400, `"reason":"empty"`, nil},
		{"binary array", "[{}]", []string{"Content-Type", jsonType, "Ce-Specversion", "1.0"}, 400, "must be one object", nil},
		{"binary escape", "{}", []string{"Content-Type", jsonType, "Ce-Specversion", "1.0", "Ce-Id", "%zz"}, 400, "broken escape", nil},
		{"no type", one, nil, 415, "Content-Type: must be application/json", nil},
		{"a form", one, []string{"Content-Type", "text/plain"}, 415, "Content-Type: must be", nil},
		{"other letters", one, []string{"Content-Type", jsonType + "; charset=latin1"}, 415, "in UTF-8", nil},
		{"other packing", one, []string{"Content-Type", jsonType, "Content-Encoding", "br"}, 415, "must be gzip", nil},
		{"not packed", one, []string{"Content-Type", jsonType, "Content-Encoding", "gzip"}, 400, "gzip: invalid header", nil},
		{"cut short", packed(one)[:40], []string{"Content-Type", jsonType, "Content-Encoding", "gzip"}, 400, "unexpected EOF", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &kafkaLog{}
			a := call(t, taking(t, l, ""), "POST", "/api/v1/events", c.body, c.header...)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
				t.Errorf("%d %s\nwant %d %s", a.StatusCode, a.body, c.status, c.want)
			}
			want := "application/json"
			if c.status >= 400 {
				want = "application/problem+json"
			}
			if got := a.Header.Get("Content-Type"); got != want {
				t.Errorf("Content-Type is %s", got)
			}
			var keys []string
			for _, r := range l.records {
				keys = append(keys, string(r.Key))
			}
			if diff := cmp.Diff(c.keys, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

// The same request again makes the same records, so that it counts once: ids are told, or made of the content.
func TestIntakeMakesTheSameIDsAgain(t *testing.T) {
	l := &kafkaLog{}
	server := taking(t, l, "")
	for range 2 {
		if a := call(t, server, "POST", "/api/v1/events", one, "Content-Type", "application/json"); a.StatusCode != 200 {
			t.Fatal(a.body)
		}
	}
	if diff := cmp.Diff(l.records[0], l.records[1]); diff != "" || !strings.Contains(string(l.records[0].Value), `"event_id":"sha256:`) {
		t.Errorf("%s\n%s", l.records[0].Value, diff)
	}
}

func TestIntakeAsksWho(t *testing.T) {
	const tokens = "# who\nshop emit " + secret + "\nold emit sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8\n"
	for _, c := range []struct {
		name   string
		tokens string
		change func(*web.Options)
		header []string
		status int
	}{
		{"on this machine", "", nil, nil, 200},
		{"on this machine, for another", "", nil, []string{"X-Forwarded-For", "10.0.0.1"}, 403},
		{"reachable from others", "", func(o *web.Options) { o.Intake.Loopback = false }, nil, 403},
		{"by another name", "", nil, []string{"Host", "evil.example"}, 421},
		{"from another site", "", nil, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"no token", tokens, nil, nil, 401},
		{"another kind", tokens, nil, []string{"Authorization", "Basic " + secret}, 401},
		{"wrong", tokens, nil, []string{"Authorization", "Bearer " + secret + "x"}, 401},
		{"right", tokens, nil, []string{"Authorization", "Bearer " + secret}, 200},
		{"a digest", tokens, nil, []string{"Authorization", "bearer password"}, 200},
		{"the digest itself", tokens, nil, []string{"Authorization", "Bearer sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"}, 401},
		{"right, by another name", tokens, nil, []string{"Authorization", "Bearer " + secret, "Host", "auditor.internal"}, 200},
		{"nobody is known any more", tokens, func(o *web.Options) { o.Intake.Tokens = func() web.Tokens { return web.Tokens{} } },
			[]string{"Authorization", "Bearer " + secret}, 401},
		{"no Kafka", "", func(o *web.Options) { o.Intake = nil }, nil, 503},
		{"starting", "", func(o *web.Options) { o.Prepared = make(chan struct{}) }, nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &kafkaLog{}
			var change []func(*web.Options)
			if c.change != nil {
				change = append(change, c.change)
			}
			a := call(t, taking(t, l, c.tokens, change...), "POST", "/api/v1/events", one, append(c.header, "Content-Type", "application/json")...)
			if a.StatusCode != c.status || (c.status == 200) != (len(l.records) == 1) {
				t.Errorf("%d %s, %d records", a.StatusCode, a.body, len(l.records))
			}
			if (a.StatusCode == 401) != (a.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("WWW-Authenticate is %q", a.Header.Get("WWW-Authenticate"))
			}
			if strings.Contains(a.body, secret) {
				t.Errorf("a token is shown: %s", a.body)
			}
		})
	}
}

func TestTokensAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"shop emit":                               "line 1: must hold a name, scopes and a token",
		"\nshop read " + secret:                   `line 2: scopes: must be among emit, not "read"`,
		"shop emit short":                         "must have 20 letters or more",
		"shop emit sha256:12":                     "64 hexadecimal digits",
		"a emit " + secret + "\nb emit " + secret: "line 2: b has the name or the token of a line before",
	} {
		if _, err := web.ReadTokens(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestIntakeIsBounded(t *testing.T) {
	config := func(change func(*web.IntakeConfig)) func(*web.Options) {
		return func(o *web.Options) { change(&o.Intake.Config) }
	}
	small := config(func(c *web.IntakeConfig) { c.MaxBytes = 1 << 10 })
	for _, c := range []struct {
		name, body string
		change     func(*web.Options)
		encoding   string
		status     int
		want       string
	}{
		{"bytes", one + strings.Repeat(" ", 1<<10), small, "", 413, "1024 bytes, which is intake.max_bytes"},
		{"unpacked bytes", packed(one + strings.Repeat(" ", 100<<10)), small, "gzip", 413, "1024 bytes, which is intake.max_bytes"},
		{"two packed parts", packed(one+strings.Repeat(" ", 800)) + packed(strings.Repeat(" ", 800)), small, "gzip", 413, "1024 bytes"},
		{"events", "[" + one + "," + bad + "," + one + "]", config(func(c *web.IntakeConfig) { c.MaxEvents = 2 }), "", 413, "more than 2 events"},
		{"just as many", "[" + one + "," + one + "]", config(func(c *web.IntakeConfig) { c.MaxEvents = 2 }), "", 200, `"accepted":2`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &kafkaLog{}
			a := call(t, taking(t, l, "", c.change), "POST", "/api/v1/events", c.body, "Content-Type", "application/json", "Content-Encoding", c.encoding)
			if a.StatusCode != c.status || !strings.Contains(a.body, c.want) || c.status != 200 && len(l.records) != 0 {
				t.Errorf("%d %s, %d records", a.StatusCode, a.body, len(l.records))
			}
		})
	}
}

// A token has events a second of its own; what one has too many, it waits for.
func TestIntakeKeepsTheRate(t *testing.T) {
	now := noon
	l := &kafkaLog{}
	server := taking(t, l, "a emit "+secret+"\nb emit "+strings.Repeat("b", 20), func(o *web.Options) {
		o.Intake.Config.Rate = 2
		o.Now = func() time.Time { return now }
	})
	send := func(token string, n int) answer {
		return call(t, server, "POST", "/api/v1/events", strings.Repeat(one+"\n", n), "Content-Type", "application/x-ndjson", "Authorization", "Bearer "+token)
	}
	for i, c := range []struct {
		after  time.Duration
		token  string
		events int
		status int
		retry  string
	}{
		{0, secret, 3, 200, ""},
		{0, secret, 7, 200, ""}, // six too many
		{0, secret, 1, 429, "4"},
		{0, strings.Repeat("b", 20), 1, 200, ""},
		{2 * time.Second, secret, 1, 429, "2"},
		{1500 * time.Millisecond, secret, 1, 200, ""},
	} {
		now = now.Add(c.after)
		a := send(c.token, c.events)
		if a.StatusCode != c.status || a.Header.Get("Retry-After") != c.retry {
			t.Errorf("request %d: %d, Retry-After %q, want %d %q: %s", i, a.StatusCode, a.Header.Get("Retry-After"), c.status, c.retry, a.body)
		}
	}
}

func TestIntakeIsBusy(t *testing.T) {
	l := &kafkaLog{block: make(chan struct{}), asked: make(chan struct{}, 2)}
	server := taking(t, l, "", func(o *web.Options) {
		o.Intake.Config.MaxRequests = 1
		o.Intake.Config.Timeout = 100 * time.Millisecond
	})
	first := make(chan answer)
	go func() { first <- call(t, server, "POST", "/api/v1/events", one, "Content-Type", "application/json") }()
	<-l.asked
	second := call(t, server, "POST", "/api/v1/events", one, "Content-Type", "application/json")
	if a := <-first; a.StatusCode != 503 || !strings.Contains(a.body, "Kafka did not acknowledge") || a.Header.Get("Retry-After") == "" {
		t.Errorf("Kafka does not answer: %d %s", a.StatusCode, a.body)
	}
	if second.StatusCode != 503 || second.Header.Get("Retry-After") == "" {
		t.Errorf("all are busy: %d %s", second.StatusCode, second.body)
	}
}

func TestIntakeTellsWhatKafkaRefuses(t *testing.T) {
	l := &kafkaLog{refused: map[int]error{1: errors.New("1048600 bytes")}}
	registry := prometheus.NewRegistry()
	server := taking(t, l, "", func(o *web.Options) { o.Registerer = registry })
	a := call(t, server, "POST", "/api/v1/events", bad+"\n"+one+"\n"+another+"\n"+bad, "Content-Type", "application/x-ndjson")
	var got struct {
		Accepted, Rejected int
		Errors             []struct {
			Index, Line int
			Reason      string
		}
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(got); a.StatusCode != 207 || text != "{1 3 [{0 1 no_time} {2 3 too_large} {3 4 no_time}]}" {
		t.Errorf("%d %s", a.StatusCode, text)
	}
	l.err, l.refused = errors.New("dial tcp 10.1.2.3:9092: refused"), nil
	if a := call(t, server, "POST", "/api/v1/events", one, "Content-Type", "application/json"); a.StatusCode != 503 || strings.Contains(a.body, "10.1.2.3") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := call(t, server, "POST", "/api/v1/events?x=1", one, "Content-Type", "application/json"); a.StatusCode != 400 {
		t.Errorf("an unknown parameter: %d %s", a.StatusCode, a.body)
	}
	const want = `
# HELP auditor_intake_events_total Events sent over HTTP: accepted, rejected, or unconfirmed by Kafka.
# TYPE auditor_intake_events_total counter
auditor_intake_events_total{outcome="accepted"} 1
auditor_intake_events_total{outcome="rejected"} 3
auditor_intake_events_total{outcome="unconfirmed"} 1
# HELP auditor_intake_refused_total Requests with events that were refused as a whole: closed, token, scope, rate, busy, size, form, or kafka.
# TYPE auditor_intake_refused_total counter
auditor_intake_refused_total{why="kafka"} 1
# HELP auditor_intake_rejects_total Events sent over HTTP that could not be read, by reason.
# TYPE auditor_intake_rejects_total counter
auditor_intake_rejects_total{reason="no_time"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "auditor_intake_events_total", "auditor_intake_refused_total", "auditor_intake_rejects_total"); err != nil {
		t.Error(err)
	}
}

func TestIntakeConfigIsChecked(t *testing.T) {
	if err := web.DefaultIntakeConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := web.IntakeConfig{Rate: -1}.Validate()
	for _, field := range []string{"max_bytes", "max_events", "max_requests", "rate", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), field+": must be") {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}
