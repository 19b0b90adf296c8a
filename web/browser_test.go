package web_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/proof"
	"auditor/event/review"
	"auditor/event/view"
	"auditor/internal/require"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/web"
)

// browser is Chromium without a window, and what it complained of.
type browser struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		require.Missing(t, "chromium", "apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
	})
	b := &browser{ctx: ctx}
	b.run(t) // starts the browser, which lives as long as this context
	err = chromedp.Listen(ctx, func(happened any) {
		switch e := happened.(type) {
		case *runtime.EventExceptionThrown:
			b.complain(fmt.Sprint(e.ExceptionDetails.Text, " ", e.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				b.complain(fmt.Sprint("console: ", e.Args))
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == "error" || e.Entry.Level == "warning" {
				b.complain(e.Entry.Text + " " + e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, command(log.Enable, cdp.Empty{}))
	return b
}

// command is an action that sends one protocol command.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func (b *browser) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

// quiet fails the test if the browser complained since it was last asked.
func (b *browser) quiet(t *testing.T, where string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		t.Errorf("%s: %s", where, c)
	}
	b.complaints = nil
}

// patience bounds each step in the browser.
const patience = 30 * time.Second

func (b *browser) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	get(t, b, chromedp.Steps(actions...))
}

func get[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx := b.ctx
	if chromedp.FromContext(ctx).Browser != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func eval[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	return get(t, b, chromedp.Evaluate[T](script))
}

// until asks the page again and again until the script is true. A page that is just being left has no answer.
func (b *browser) until(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if ok && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("never true: %s (%v), at %s: %s", script, err, eval[string](t, b, "location.href"), eval[string](t, b, `document.querySelector("main").innerText.slice(0, 500)`))
		case <-tick.C:
		}
	}
}

// look is a way to see a page.
type look struct {
	name   string
	width  int64
	scheme string
	phone  bool
}

var looks = []look{{"light", 1280, "light", false}, {"dark", 1280, "dark", false}, {"phone", 390, "light", true}}

func (l look) actions() []chromedp.Action[chromedp.Void] {
	viewport := []chromedp.EmulateViewportOption{}
	if l.phone {
		viewport = append(viewport, chromedp.EmulateMobile)
	}
	return []chromedp.Action[chromedp.Void]{
		chromedp.EmulateViewport(l.width, 860, viewport...),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
		}),
	}
}

func artifacts(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("AUDITOR_ARTIFACTS")
	if dir == "" {
		dir = filepath.Join("..", "artifacts")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// reviewed is what the reviews go by.
var reviewed = review.Settings{Timeouts: []review.Timeout{
	{Name: "RabbitMQ's consumer time-out or a lease of 30 min", After: 30 * time.Minute}, {Name: "Redis's default visibility time-out of 1 h", After: time.Hour}}}

// site is a server of the pages over a real store.
type site struct {
	store *queries.Store
	url   string
	now   time.Time
	stop  func()
}

func newSite(t *testing.T, now time.Time) *site {
	t.Helper()
	s := &site{store: querytest.Store(t), now: now}
	config := web.DefaultConfig()
	config.Refresh = time.Second
	server, err := web.New(config, s.store.Pages(), web.Options{Version: "test", Replayer: newSender(t, s.store), Review: reviewed, IngestStatus: func() []view.Partition {
		checked := time.Now()
		return []view.Partition{
			{Topic: "task-events", Partition: 0, Next: 9000, End: 9000, Newest: checked, Checked: checked},
			{Topic: "task-events", Partition: 1, Next: 2, End: 2, Newest: now, Checked: checked},
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(server.Handler())
	s.stop = listening.Close // more than once does no harm
	t.Cleanup(func() {
		listening.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	s.url = listening.URL
	return s
}

func (s *site) finding(t *testing.T, key, rule string) finding.Finding {
	t.Helper()
	return s.findingOf(t, view.FindingFilter{BusinessKey: key, Rule: rule})
}

func (s *site) findingOf(t *testing.T, filter view.FindingFilter) finding.Finding {
	t.Helper()
	found := all(t, s.store.Pages(), filter)
	if len(found) == 0 {
		t.Fatalf("no finding fits %+v", filter)
	}
	return found[0]
}

func keyPath(key string) string { return "/keys?key=" + url.QueryEscape(key) }

// prove stores what comparing the partitions came to.
func (s *site) prove(t *testing.T, troubles ...proof.Trouble) {
	t.Helper()
	checked := time.Now().Add(-20 * time.Second)
	var all []proof.Proof
	for p, next := range []int64{9000, 2} {
		all = append(all, proof.Proof{PartitionID: event.PartitionID{Topic: "task-events", Partition: int32(p)}, Next: next, Newest: s.now, Checked: checked,
			Passed: checked.Add(-5 * time.Hour)})
	}
	all[0].Troubles = troubles
	if err := s.store.SaveProofs(t.Context(), all); err != nil {
		t.Fatal(err)
	}
}

// Every page in both themes and on a phone: a picture for people, and for the test no complaint and nothing wider than
// the screen.
func TestPagesInABrowser(t *testing.T) {
	b := newBrowser(t)
	now := time.Now()
	s := newSite(t, now)
	b.run(t, chromedp.Navigate(s.url+"/"), chromedp.WaitVisible(chromedp.CSS("main h1")))
	empty := eval[string](t, b, `document.querySelector("h1").textContent`)
	if !strings.Contains(empty, "Nothing was done twice") {
		t.Errorf("the first page of an empty store says %q", empty)
	}
	s.prove(t)
	// What happens is shown without a reload, for the page asks by itself.
	scene := newScene(now)
	scene.store(t, s.store)
	b.until(t, `/3 effects beyond the first.*13 open findings/.test(document.querySelector("h1").textContent)`)
	portraits(t, b, s)
	scene.hostile()
	scene.cohort()
	scene.reject(t, s.store)
	scene.store(t, s.store)
	b.run(t, chromedp.Navigate(s.url+"/"))
	b.until(t, `/36 effects beyond the first.*17 open findings, 1 of them an incident/.test(document.querySelector("h1").textContent)`)
	pages := []picture{
		{"now", "/"},
		{"findings", "/findings"},
		{"findings-members", "/findings?members=yes"},
		{"incident", "/findings/" + s.findingOf(t, view.FindingFilter{Rule: "incident"}).ID},
		{"incident-member", "/findings/" + s.finding(t, "invoice:7", "repeated_effect").ID},
		{"finding-worker-lost", "/findings/" + s.finding(t, "receipt:9", "repeated_effect").ID},
		{"finding-visibility", "/findings/" + s.finding(t, "mail-batch:77", "repeated_effect").ID},
		{"finding-published-twice", "/findings/" + s.finding(t, "settle_order:42", "repeated_effect").ID},
		{"finding-guarded", "/findings/" + s.finding(t, "settle_order:77", "repeated_effect").ID},
		{"finding-loop", "/findings/" + s.finding(t, "product:5", "retry_storm").ID},
		{"finding-storm", "/findings/" + s.findingOf(t, view.FindingFilter{Rule: "retry_storm", Task: "crm.notify"}).ID},
		{"finding-stuck", "/findings/" + s.finding(t, "report:2026-01", "stuck_pending").ID},
		{"finding-hostile", "/findings/" + s.finding(t, hostileKey, "repeated_effect").ID},
		{"finding-keyless", "/findings/" + s.findingOf(t, view.FindingFilter{Task: "legacy.import"}).ID},
		{"key-long", keyPath(longKey)},
		{"key-lockstep", keyPath("customer:7")},
		{"key-healthy", keyPath("settle:1000")},
		{"task-id", "/tasks/id?id=batch-77"},
		{"search", "/search?q=settle_order"},
		{"search-none", "/search?q=nothing-of-that-name"},
		{"tasks", "/tasks"},
		{"task", "/tasks/crm.notify"},
		{"task-outlasts", "/tasks/mail.send_batch"},
		{"task-loop", "/tasks/search.index"},
		{"task-hostile", "/tasks/?name=" + url.QueryEscape(hostileTask)},
		{"workers", "/workers"},
		{"evidence", "/evidence"},
		{"not-found", "/keys?key=unknown"},
	}
	photograph(t, b, s, pages)
	s.prove(t, proof.Trouble{Kind: proof.Missing, Span: proof.Span{First: 1204, Last: 1206}, Count: 3, Exact: true},
		proof.Trouble{Kind: proof.Missing, Span: proof.Span{First: 2000, Last: 2010}, Count: 1, Among: []proof.Span{{First: 2000, Last: 2000}, {First: 2010, Last: 2010}}},
		proof.Trouble{Kind: proof.Doubled, Span: proof.Span{First: 77, Last: 77}, Count: 1, Exact: true},
		proof.Trouble{Kind: proof.Lost, Span: proof.Span{First: 5, Last: 9}, Count: 5, Exact: true, Time: now})
	b.run(t, chromedp.Navigate(s.url+"/evidence"))
	b.until(t, `/evidence is missing: 4 records/.test(document.querySelector("#evidence").textContent)`)
	photograph(t, b, s, []picture{{"now-incomplete", "/"}, {"evidence-incomplete", "/evidence"}})
}

// picture is a page to be looked at.
type picture struct{ name, path string }

// photograph shows each page in each look.
func photograph(t *testing.T, b *browser, s *site, pages []picture) {
	t.Helper()
	dir := artifacts(t)
	for _, l := range looks {
		for _, p := range pages {
			b.run(t, append(l.actions(), chromedp.Navigate(s.url+p.path), chromedp.WaitVisible(chromedp.CSS("main h1")))...)
			picture := get(t, b, chromedp.FullScreenshot(100))
			name := filepath.Join(dir, "page-"+p.name+"-"+l.name+".png")
			if err := os.WriteFile(name, picture, 0o600); err != nil {
				t.Fatal(err)
			}
			wide := eval[int](t, b, `document.documentElement.scrollWidth - document.documentElement.clientWidth`)
			if wide > 0 {
				t.Errorf("%s %s: %d px wider than the screen", p.name, l.name, wide)
			}
			if p.name != "not-found" {
				b.quiet(t, p.name+" "+l.name)
			}
			b.mu.Lock()
			b.complaints = nil
			b.mu.Unlock()
		}
	}
}

// portraits takes the pictures that README and docs show.
func portraits(t *testing.T, b *browser, s *site) {
	t.Helper()
	for name, path := range map[string]string{"now": "/", "finding": "/findings/" + s.finding(t, "receipt:9", "repeated_effect").ID} {
		for _, l := range looks[:2] {
			b.run(t, append(l.actions(), chromedp.Navigate(s.url+path), chromedp.WaitVisible(chromedp.CSS("main h1")))...)
			picture := get(t, b, chromedp.CaptureScreenshot())
			if err := os.WriteFile(filepath.Join(artifacts(t), "portrait-"+name+"-"+l.name+".png"), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
