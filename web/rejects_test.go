package web_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
	"auditor/ingest"
	"auditor/ingest/replay"
	"auditor/queries"
	"auditor/web"
)

// sender is a Replayer that sends nothing and says what it is told to.
type sender struct {
	orders []reject.Order
	dry    bool
	result reject.Result
	err    error
}

func (s *sender) Replay(_ context.Context, at event.Position, o reject.Order, dry bool) (reject.Result, error) {
	s.orders, s.dry = append(s.orders, o), dry
	r := s.result
	r.Position = at
	return r, s.err
}

var place = event.Position{Topic: "t", Partition: 1, Offset: 41, Index: 2}

const at = "t:1:41:2"

// oneReject is a store of one reject.
func oneReject(raw string, state reject.State, log ...reject.Entry) *fake {
	return &fake{rejects: []reject.Reject{{State: state, Size: len(raw), Log: log, Reject: event.Reject{Position: place, KafkaTime: noon.Add(-time.Hour), Reason: event.ReasonNotJSON,
		Detail: "the JSON ends too early", Key: []byte("k"), Raw: []byte(raw), Headers: []event.Header{{Key: "h", Value: []byte("\xff")}}}}}}
}

func withSender(s *sender) func(*web.Config, *web.Options) {
	return func(_ *web.Config, o *web.Options) {
		if s != nil {
			o.Replayer = s
		}
	}
}

// What came is on the page as text, or as bytes, and what can be mended in a form is offered to be.
func TestRejectPage(t *testing.T) {
	for _, c := range []struct {
		name     string
		raw      string
		state    reject.State
		want     []string
		unwanted []string
	}{
		{"text", `{"a":"<b>"`, reject.Open, []string{`<pre class="raw">` + "\n" + `{&#34;a&#34;:&#34;&lt;b&gt;&#34;</pre>`, `<textarea`, "Send this text", "Send it as it came", "the JSON ends too early", "waits for somebody", `<span class="quiet">h:</span>`, ">0xff<"}, []string{"<b>", `name="again"`, "draft\" open"}},
		{"bytes", "\x00\xff<script>", reject.Open, []string{"00000000  00 ff 3c 73", "cannot be mended in a page", "Send it as it came"}, []string{"<textarea", "<script>al"}},
		{"hidden", "a\u202eb", reject.Open, []string{"00000000  61 e2 80 ae 62"}, []string{"<textarea"}},
		{"long text", strings.Repeat("x", 300<<10), reject.Open, []string{"and 241,664 more bytes"}, []string{"<textarea"}},
		{"text cut in a letter", strings.Repeat("\u20ac", 30<<10), reject.Open, []string{"\u20ac</pre>", "more bytes", "<textarea"}, []string{"\ufffd"}},
		{"nothing", "", reject.Open, []string{"The record has no value."}, nil},
		{"replayed", "x", reject.Replayed, []string{`name="again" value="yes" required`}, nil},
		{"unknown", "x", reject.Unknown, []string{`name="again"`, `class="glyph warn"`}, nil},
		{"purged", "", reject.Purged, []string{">purged<"}, []string{"<textarea", "Send it", "Purge:", "bytes</dt>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, newServer(t, oneReject(c.raw, c.state), withSender(&sender{})), "GET", "/rejects/"+at, "")
			for _, text := range c.want {
				if a.StatusCode != 200 || !strings.Contains(a.body, text) {
					t.Errorf("%d: lacks %q", a.StatusCode, text)
				}
			}
			for _, text := range c.unwanted {
				if strings.Contains(a.body, text) {
					t.Errorf("has %q", text)
				}
			}
		})
	}
	a := call(t, newServer(t, oneReject("x", reject.Open)), "GET", "/rejects/"+at, "")
	if !strings.Contains(a.body, "auditor rejects replay "+at) || strings.Contains(a.body, "<textarea") {
		t.Error("a process without Kafka offers to send, or does not say how else")
	}
}

func TestRejectHistory(t *testing.T) {
	log := []reject.Entry{
		{Time: noon, Action: reject.Intended, Attempt: "1", By: "ada<b>", Note: "why", To: event.Position{Topic: "t", Partition: 1, Offset: 5}, Mended: true},
		{Time: noon, Action: reject.Sent, Attempt: "1", By: "ada<b>", To: event.Position{Topic: "t", Partition: 1, Offset: 7}},
	}
	for _, c := range []struct {
		name  string
		log   []reject.Entry
		fate  reject.Fate
		state reject.State
		want  []string
	}{
		{"sent", log, reject.Fate{Event: &event.Position{}}, reject.Replayed, []string{"It was sent again on 2 Nov 2026 12:00:00.000 UTC by ada&lt;b&gt;, and is at t:1:7.", "to be sent, mended,", "to t:1:7<", "why", "its event is in the store"}},
		{"not read yet", log, reject.Fate{}, reject.Replayed, []string{"it is not in the store yet"}},
		{"rejected again", log, reject.Fate{Reject: &event.Position{Topic: "t", Partition: 1, Offset: 7}}, reject.Replayed, []string{`<a href="/rejects/t:1:7:0" class="warn">it was rejected again</a>`}},
		{"unknown", log[:1], reject.Fate{}, reject.Unknown, []string{"It may have been sent again on", "whether it was is unknown, and its event is not in the store yet"}},
		{"unknown, and arrived", log[:1], reject.Fate{Event: &event.Position{Topic: "t", Partition: 1, Offset: 6}}, reject.Unknown, []string{"it was, for its event is in the store: t:1:6"}},
	} {
		store := oneReject("x", c.state, c.log...)
		c.fate.Attempt = "1"
		store.fates = []reject.Fate{c.fate}
		a := call(t, newServer(t, store, withSender(&sender{})), "GET", "/rejects/"+at, "")
		for _, text := range c.want {
			if strings.Count(a.body, text) != 1 {
				t.Errorf("%s: has %q %d times", c.name, text, strings.Count(a.body, text))
			}
		}
	}
}

func TestRawReject(t *testing.T) {
	raw := "\x00\xff<script>alert(1)</script>"
	a := call(t, newServer(t, oneReject(raw, reject.Open)), "GET", "/rejects/"+at+"/raw", "")
	if a.StatusCode != 200 || a.body != raw || a.Header.Get("Content-Type") != "application/octet-stream" || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
		a.Header.Get("Content-Disposition") != `attachment; filename="reject-t-1-41-2"` {
		t.Errorf("%d %q %v", a.StatusCode, a.body, a.Header)
	}
	if a := call(t, newServer(t, oneReject("", reject.Purged)), "GET", "/rejects/"+at+"/raw", ""); a.StatusCode != 404 {
		t.Errorf("of a purged one: %d", a.StatusCode)
	}
}

func TestRejectAddresses(t *testing.T) {
	server := newServer(t, oneReject("x", reject.Open), withSender(&sender{}))
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/rejects", 200}, {"/rejects?state=any&reason=not_json&topic=t&partition=1&since=24h&until=1h", 200}, {"/rejects/t:1:41:2", 200}, {"/rejects/t:1:41", 404},
		{"/rejects/t:1:41:3", 404}, {"/rejects/unknown", 404}, {"/rejects/t:1:99999999999999999999:0", 404}, {"/rejects?state=gone", 400}, {"/rejects?since=x", 400},
		{"/rejects?until=x", 400}, {"/rejects?partition=-1", 400}, {"/rejects?cursor=1.2.3", 400}, {"/rejects?cursor=1.99999999999.3.4.t", 400}, {"/rejects?cursor=1.2.3.-1.t", 200},
		{"/api/v1/rejects?state=gone", 400}, {"/api/v1/rejects/t:1:41:2", 200}, {"/api/v1/rejects/t:1:41", 404}, {"/api/v1/rejects/counts?limit=1", 400},
	} {
		if a := call(t, server, "GET", c.path, ""); a.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %.200s", c.path, a.StatusCode, c.status, a.body)
		}
	}
}

func TestRejectFilter(t *testing.T) {
	store := oneReject("x", reject.Open)
	server := newServer(t, store)
	for query, want := range map[string]view.RejectList{
		"/rejects": {RejectFilter: view.RejectFilter{States: []reject.State{"open", "unknown"}}, Limit: 50, RawLimit: 200},
		"/rejects?state=replayed,purged&reason=not_json,empty&topic=t&partition=3&since=1h&until=2026-11-02T11:30:00Z": {Limit: 50, RawLimit: 200, RejectFilter: view.RejectFilter{
			Topic: "t", Partition: new(int32(3)), Reasons: []event.Reason{"not_json", "empty"}, States: []reject.State{"replayed", "purged"}, Since: noon.Add(-time.Hour), Until: noon.Add(-30 * time.Minute)}},
		"/api/v1/rejects?limit=7":                        {Limit: 7, RawLimit: 64 << 10},
		"/api/v1/rejects?cursor=1793620800000.1.41.-1.t": {Limit: 50, RawLimit: 64 << 10, Before: view.Position{KafkaTime: noon, Position: event.Position{Topic: "t", Partition: 1, Offset: 41, Index: -1}}},
	} {
		if a := call(t, server, "GET", query, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d", query, a.StatusCode)
		}
		if diff := cmp.Diff(want, store.list); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	body := call(t, server, "GET", "/rejects?partition=3&until=1h&reason=bad_utf8", "").body
	for _, text := range []string{`name="partition" value="3"`, `name="until" value="1h"`, `value="bad_utf8" selected`} {
		if !strings.Contains(body, text) {
			t.Errorf("the form forgets %s", text)
		}
	}
}

// refusedOnce is what a replay that is not allowed gives.
var refusedOnce = reject.Result{Outcome: reject.WasRefused, Err: &reject.Refusal{Cause: reject.CauseNoEvent, Why: "it would be rejected again: <no>"}}

func TestReplayForm(t *testing.T) {
	sent := reject.Result{Outcome: reject.WasSent, To: event.Position{Topic: "t", Offset: 9}}
	const raw = "{\n\"a\""
	for _, c := range []struct {
		name, body string
		header     []string
		result     reject.Result
		status     int
		want       *reject.Order
	}{
		{"as it came", "send=raw&text=other&by=ada&note=why", nil, sent, 303, &reject.Order{By: "ada", Note: "why"}},
		{"mended", "send=mended&text=" + url.QueryEscape("{\r\n\"a\":1}"), nil, sent, 303, &reject.Order{By: "web", Value: []byte("{\n\"a\":1}")}},
		{"not changed, as browsers send it", "send=mended&text=" + url.QueryEscape("{\r\n\"a\""), nil, sent, 303, &reject.Order{By: "web"}},
		{"again", "send=raw&again=yes", nil, sent, 303, &reject.Order{By: "web", Again: true}},
		{"refused", "send=mended&text=half+mended&by=ada&note=why", nil, refusedOnce, 409, &reject.Order{By: "ada", Note: "why", Value: []byte("half mended")}},
		{"failed", "send=raw", nil, reject.Result{Outcome: reject.HasFailed, Err: errAway}, 503, &reject.Order{By: "web"}},
		{"unknown", "send=raw", nil, reject.Result{Outcome: reject.WasLeftOpen, Err: errAway}, 503, &reject.Order{By: "web"}},
		{"from another site", "send=raw", []string{"Sec-Fetch-Site", "cross-site"}, sent, 403, nil},
		{"from another origin", "send=raw", []string{"Origin", "http://evil.example"}, sent, 403, nil},
		{"a long name", "send=raw&by=" + strings.Repeat("a", 101), nil, sent, 400, nil},
		{"a megabyte", "send=mended&text=" + strings.Repeat("a", 1<<20), nil, sent, 303, &reject.Order{By: "web", Value: []byte(strings.Repeat("a", 1<<20))}},
		{"too large", "send=mended&text=" + strings.Repeat("a", 3<<20), nil, sent, 413, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &sender{result: c.result}
			a := call(t, newServer(t, oneReject(raw, reject.Open), withSender(s)), "POST", "/rejects/"+at+"/replay", c.body, append(c.header, "Content-Type", form)...)
			if a.StatusCode != c.status {
				t.Fatalf("%d, want %d: %.500s", a.StatusCode, c.status, a.body)
			}
			if c.want == nil {
				if len(s.orders) > 0 {
					t.Errorf("ordered %v", s.orders)
				}
				return
			}
			if diff := cmp.Diff([]reject.Order{*c.want}, s.orders); diff != "" || s.dry {
				t.Error(diff)
			}
			switch {
			case c.status == 303 && a.Header.Get("Location") != "/rejects/"+at:
				t.Errorf("leads to %q", a.Header.Get("Location"))
			case c.name == "refused":
				for _, text := range []string{`data-refresh="0"`, `id="draft" open`, "half mended</textarea>", `value="ada"`, `value="why"`, "Nothing was sent: it would be rejected again: &lt;no&gt;."} {
					if !strings.Contains(a.body, text) {
						t.Errorf("what was typed is lost, or the reason: no %q", text)
					}
				}
			case c.name == "failed" && !strings.Contains(a.body, "surely not in Kafka"), c.name == "unknown" && !strings.Contains(a.body, "Nobody can say"):
				t.Errorf("%s", a.body)
			}
		})
	}
	a := call(t, newServer(t, oneReject(raw, reject.Open)), "POST", "/rejects/"+at+"/replay", "send=raw", "Content-Type", form)
	if a.StatusCode != 501 || !strings.Contains(a.body, "kafka.brokers") {
		t.Errorf("without Kafka: %d %s", a.StatusCode, a.body)
	}
	broken := &sender{err: errors.New("no table")}
	if a := call(t, newServer(t, oneReject(raw, reject.Open), withSender(broken)), "POST", "/rejects/"+at+"/replay", "send=raw", "Content-Type", form); a.StatusCode != 503 {
		t.Errorf("that could not be tried: %d", a.StatusCode)
	}
}

func TestPurgeForm(t *testing.T) {
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		by         string
	}{
		{"confirmed", "confirm=yes&by=ada&note=why", nil, 303, "ada"},
		{"nobody", "confirm=yes", nil, 303, "web"},
		{"not confirmed", "by=ada", nil, 400, ""},
		{"from another site", "confirm=yes", []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"too large", "confirm=yes&note=" + strings.Repeat("a", 70<<10), nil, 413, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := oneReject("x", reject.Open)
			server := newServer(t, store)
			a := call(t, server, "POST", "/rejects/"+at+"/purge", c.body, append(c.header, "Content-Type", form)...)
			if a.StatusCode != c.status || (len(store.rejects[0].Log) > 0) != (c.by != "") {
				t.Fatalf("%d, log %v", a.StatusCode, store.rejects[0].Log)
			}
			if c.by != "" && (store.rejects[0].Log[0].By != c.by || !strings.Contains(call(t, server, "GET", "/rejects/"+at, "").body, ">purged<")) {
				t.Errorf("%+v, or the page still shows the state before", store.rejects[0].Log)
			}
		})
	}
}

func TestAPIRejects(t *testing.T) {
	const kind = "application/json"
	store := oneReject("\x00x", reject.Open)
	s := &sender{result: reject.Result{Outcome: reject.WasSent, To: event.Position{Topic: "t", Partition: 1, Offset: 9}, EventIDs: []string{"e1"}}}
	server := newServer(t, store, withSender(s))
	const item = `{"position":"t:1:41:2","topic":"t","partition":1,"offset":41,"index":2,"time":"2026-11-02T11:00:00Z","reason":"not_json","detail":"the JSON ends too early","state":"open","key":"aw==","headers":[{"name":"h","value":"/w=="}],"raw":"AHg=","size":2}`
	for path, want := range map[string]string{
		"/api/v1/rejects":        `{"items":[` + item + `],"next_cursor":""}`,
		"/api/v1/rejects/" + at:  item,
		"/api/v1/rejects/counts": `{"items":[{"topic":"t","reason":"not_json","state":"open","count":1,"bytes":2,"first":"2026-11-02T11:00:00Z","last":"2026-11-02T11:00:00Z"}],"next_cursor":""}`,
	} {
		if a := call(t, server, "GET", path, ""); strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	a := call(t, server, "POST", "/api/v1/rejects/"+at+"/replay", `{"raw":"`+base64.StdEncoding.EncodeToString([]byte("{}"))+`","topic":"u","again":true,"force":true,"dry_run":true,"by":"ada","note":"why"}`, "Content-Type", kind)
	if want := `{"position":"t:1:41:2","outcome":"sent","to":{"topic":"t","partition":1,"offset":9},"event_ids":["e1"]}`; a.StatusCode != 200 || strings.TrimSpace(a.body) != want {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if diff := cmp.Diff([]reject.Order{{Value: []byte("{}"), Topic: "u", Again: true, Force: true, By: "ada", Note: "why"}}, s.orders); diff != "" || !s.dry {
		t.Error(diff)
	}
	s.result = refusedOnce
	a = call(t, server, "POST", "/api/v1/rejects/"+at+"/replay", `{}`, "Content-Type", kind)
	if a.StatusCode != 409 || !strings.Contains(a.body, `"outcome":"refused","cause":"no_event","error":"it would be rejected again: `) || s.orders[1].By != "api" || s.orders[1].Value != nil {
		t.Errorf("%d %s %+v", a.StatusCode, a.body, s.orders)
	}
	for body, status := range map[string]int{`{"file":"x"}`: 400, `{"raw":"%"}`: 400, `{}{}`: 400, `{"raw":""}`: 409} {
		if a := call(t, server, "POST", "/api/v1/rejects/"+at+"/replay", body, "Content-Type", kind); a.StatusCode != status {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.body)
		}
	}
	if a := call(t, server, "POST", "/api/v1/rejects/"+at+"/purge", `{}`, "Content-Type", form); a.StatusCode != 415 {
		t.Errorf("a form: %d", a.StatusCode)
	}
	a = call(t, server, "POST", "/api/v1/rejects/"+at+"/purge", `{"by":"ada"}`, "Content-Type", kind)
	var left struct {
		State string
		Log   []struct{ By string }
	}
	if err := json.Unmarshal([]byte(a.body), &left); err != nil || a.StatusCode != 200 || left.State != "purged" || len(left.Log) != 1 || left.Log[0].By != "ada" {
		t.Errorf("%d %s %v", a.StatusCode, a.body, err)
	}
}

// realSender sends to a broker of its own, as the program does.
type realSender struct{ replayer *replay.Replayer }

func (r realSender) Replay(ctx context.Context, at event.Position, o reject.Order, dry bool) (result reject.Result, err error) {
	err = r.replayer.Replay(ctx, []event.Position{at}, o, func(told reject.Result) { result = told })
	return result, err
}

func newSender(t *testing.T, store *queries.Store) web.Replayer {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "task-events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	k := ingest.DefaultKafka()
	k.Brokers = cluster.ListenAddrs()
	producer, err := ingest.NewProducer(k, "task-events")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return realSender{&replay.Replayer{Store: store, Kafka: producer, Decoder: decoder}}
}

// Positions of the rejects that the pages are looked at with.
var (
	textReject   = event.Position{Topic: "task-events", Partition: 3, Offset: 0}
	hexReject    = event.Position{Topic: "task-events", Partition: 3, Offset: 1}
	longReject   = event.Position{Topic: "task-events", Partition: 3, Offset: 2}
	purgedReject = event.Position{Topic: "task-events", Partition: 3, Offset: 3}
	sentReject   = event.Position{Topic: "task-events", Partition: 3, Offset: 4}
	lostReject   = event.Position{Topic: "task-events", Partition: 3, Offset: 5, Index: 12}
)

// rejects adds rejects of a day, in each state.
func (s *scene) rejects(t testing.TB, store *queries.Store) {
	t.Helper()
	b := event.Batch{Topic: "task-events", Partition: 3, Time: s.now}
	add := func(before time.Duration, at event.Position, reason event.Reason, detail, key, raw string, headers ...event.Header) {
		b.Last, b.Records = at.Offset, int(at.Offset)+1
		b.Rejects = append(b.Rejects, event.Reject{Position: at, KafkaTime: s.now.Add(-before), Reason: reason, Detail: detail, Key: []byte(key), Raw: []byte(raw), Headers: headers})
	}
	add(3*time.Minute, textReject, event.ReasonNotJSON, "the JSON ends too early", "settle_order:1042",
		"{\n  \"event_id\": \"0192f0c1-5c8e-7a6f-9a7a-0d7f4b1c9e21\",\n  \"type\": \"effect\",\n  \"time\": \""+s.now.Add(-3*time.Minute).Format(time.RFC3339)+"\",\n  \"task\": \"shop.settle_order\",\n  \"task_id\": \"3b9b1d2c\",\n  \"business_key\": \"settle_order:1042\",\n  \"effect\": {\"name\": \"payment.charge\", \"amount\": \"49.00\", \"currency\": \"EUR\"}\n",
		event.Header{Key: "traceparent", Value: []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")})
	add(14*time.Minute, hexReject, event.ReasonNotJSON, "invalid character '\\x00' at start of value", "\xff\x00", "\x00\xff\x1b[2J<script>alert(1)</script>\u202egnp.exe\r\n"+strings.Repeat("\x01\x02\x03binary", 30))
	add(2*time.Hour, longReject, event.ReasonTooLarge, "1258291 bytes, an event may have 1048576", longKey, strings.Repeat(`{"task_id":"x"},`, 1258291/16))
	add(5*time.Hour, purgedReject, event.ReasonNoTaskID, "the event tells no task id", "", `{"email":"ada@example.org"}`)
	add(6*time.Hour, sentReject, event.ReasonNoTime, "the event tells no time", "receipt:7", `{"task_id":"r7","outcome":"succeeded"}`)
	add(7*time.Hour, lostReject, event.ReasonUnknownType, "neither type nor outcome is told", hostileKey, `{"task_id":"l1","business_key":"cart:8"}`,
		event.Header{Key: reject.OriginHeader, Value: []byte(event.FormatPosition(textReject))}, event.Header{Key: "<b>", Value: []byte(hostileKey)})
	for i := range 60 {
		add(time.Duration(i%19)*time.Hour+time.Duration(i)*time.Minute, event.Position{Topic: "task-events", Partition: 3, Offset: int64(6 + i)},
			[]event.Reason{event.ReasonUnknownType, event.ReasonNotJSON, event.ReasonUnknownType, event.ReasonDuplicateName}[i%4], "neither type nor outcome is told", fmt.Sprint("k", i), fmt.Sprintf(`{"task_id":"t%d"}`, i))
	}
	if err := store.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := store.PurgeRejectsAt(t.Context(), []event.Position{purgedReject}, "grace", "asked for by the customer"); err != nil {
		t.Fatal(err)
	}
	entry := func(at event.Position, before time.Duration, action reject.Action, offset int64) reject.Entry {
		return reject.Entry{Position: at, KafkaTime: s.now, Time: s.now.Add(-before), Action: action, Attempt: event.FormatPosition(at), By: "ada", Note: "the time was missing",
			To: event.Position{Topic: "task-events", Partition: 3, Offset: offset}, Mended: true, Digest: "sha256:00", EventIDs: []string{"e1"}}
	}
	err := store.LogRejects(t.Context(), []reject.Entry{entry(sentReject, 50*time.Minute, reject.Intended, 70), entry(sentReject, 49*time.Minute, reject.Sent, 71),
		entry(lostReject, 40*time.Minute, reject.Intended, 72)})
	if err != nil {
		t.Fatal(err)
	}
}

// A person mends a reject in the page, is told what is wrong with it and loses nothing of it, sends it, and purges it.
func TestUseOfRejectsInABrowser(t *testing.T) {
	b := newBrowser(t)
	now := time.Now()
	s := newSite(t, now)
	newScene(now).rejects(t, s.store)
	photograph(t, b, s, []picture{
		{"rejects", "/rejects"},
		{"rejects-any", "/rejects?state=any&reason=unknown_type"},
		{"rejects-none", "/rejects?topic=other"},
		{"rejects-evidence", "/evidence"},
		{"reject-text", "/rejects/" + event.FormatPosition(textReject)},
		{"reject-bytes", "/rejects/" + event.FormatPosition(hexReject)},
		{"reject-long", "/rejects/" + event.FormatPosition(longReject)},
		{"reject-purged", "/rejects/" + event.FormatPosition(purgedReject)},
		{"reject-replayed", "/rejects/" + event.FormatPosition(sentReject)},
		{"reject-unknown", "/rejects/" + event.FormatPosition(lostReject)},
	})
	b.run(t, append(looks[0].actions(), chromedp.Navigate(s.url+"/rejects"), chromedp.WaitVisible(chromedp.CSS("main h1")))...)
	b.until(t, `/^64 records could not be read as an event and wait for somebody. Of 1 nobody knows/.test(document.querySelector("h1").textContent)`)
	b.press(t, "j", "Enter")
	b.until(t, `location.pathname.startsWith("/rejects/task-events:3:") && document.querySelector("textarea") !== null`)
	b.run(t, chromedp.Navigate(s.url+"/rejects/"+event.FormatPosition(textReject)), chromedp.Click(chromedp.CSS("#draft summary")), chromedp.WaitVisible(chromedp.CSS("textarea")))
	eval[bool](t, b, `document.querySelector("textarea").value += "  , half mended", document.querySelector("[name=note]").value = "a brace", true`)
	b.updated(t) // and what was typed stays
	b.run(t, chromedp.Click(chromedp.CSS(`[value=mended]`)))
	b.until(t, `document.querySelector(".refused")?.textContent.startsWith("Nothing was sent: it would be rejected again: not_json")`)
	b.mu.Lock()
	b.complaints = nil // of the status 409
	b.mu.Unlock()
	for _, l := range looks {
		b.run(t, l.actions()...)
		picture := get(t, b, chromedp.FullScreenshot(100))
		if err := os.WriteFile(filepath.Join(artifacts(t), "page-reject-refused-"+l.name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text := eval[string](t, b, `document.querySelector("textarea").value`); !strings.HasSuffix(text, "\n  , half mended") || eval[string](t, b, `document.querySelector(".mend [name=note]").value`) != "a brace" {
		t.Errorf("what was typed is gone: %q", text)
	}
	eval[bool](t, b, `document.querySelector("textarea").value = document.querySelector("textarea").value.replace("  , half mended", "}"), true`)
	b.run(t, chromedp.Click(chromedp.CSS(`[value=mended]`)))
	b.until(t, `document.querySelector(".glyph").textContent === "replayed" && document.querySelector(".log").textContent.includes("a brace")`)
	if r, err := s.store.Pages().Reject(t.Context(), textReject); err != nil || r.State != reject.Replayed || len(r.Log) != 2 || r.Log[1].EventIDs[0] != "0192f0c1-5c8e-7a6f-9a7a-0d7f4b1c9e21" {
		t.Errorf("%+v, %v", r.Log, err)
	}
	b.run(t, chromedp.Click(chromedp.CSS(`#purge summary`)), chromedp.Click(chromedp.CSS(`#purge button`)))
	if eval[string](t, b, `document.querySelector(".glyph").textContent`) != "replayed" {
		t.Error("it was purged without a confirmation")
	}
	b.run(t, chromedp.Click(chromedp.CSS(`[name=confirm]`)), chromedp.Click(chromedp.CSS(`#purge button`)))
	b.until(t, `document.querySelector(".glyph").textContent === "purged" && document.querySelector("textarea") === null`)
	b.quiet(t, "rejects")
}
