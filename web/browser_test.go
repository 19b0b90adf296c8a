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
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"auditor/event/finding"
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
	server, err := web.New(config, s.store.Pages(), web.Options{Version: "test", IngestStatus: func() []view.Partition {
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
	page, err := s.store.Pages().Findings(t.Context(), view.FindingFilter{BusinessKey: key, Rule: rule, Limit: 5})
	if err != nil || len(page.Items) == 0 {
		t.Fatalf("no finding %s of %q: %v", rule, key, err)
	}
	return page.Items[0]
}

func (s *site) storm(t *testing.T) finding.Finding {
	t.Helper()
	page, err := s.store.Pages().Findings(t.Context(), view.FindingFilter{Rule: "retry_storm", Task: "crm.notify", Limit: 5})
	if err != nil || len(page.Items) == 0 {
		t.Fatalf("no storm: %v", err)
	}
	return page.Items[0]
}

func keyPath(key string) string { return "/keys?key=" + url.QueryEscape(key) }

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
	// What happens is shown without a reload, for the page asks by itself.
	scene := newScene(now)
	scene.store(t, s.store)
	b.until(t, `/3 effects beyond the first.*11 open findings/.test(document.querySelector("h1").textContent)`)
	portraits(t, b, s)
	scene.hostile()
	scene.reject(t, s.store)
	scene.store(t, s.store)
	b.run(t, chromedp.Navigate(s.url+"/"))
	b.until(t, `/5 effects beyond the first.*13 open findings/.test(document.querySelector("h1").textContent)`)
	pages := []struct{ name, path string }{
		{"now", "/"},
		{"findings", "/findings"},
		{"finding-worker-lost", "/findings/" + s.finding(t, "receipt:9", "repeated_effect").ID},
		{"finding-visibility", "/findings/" + s.finding(t, "mail-batch:77", "repeated_effect").ID},
		{"finding-published-twice", "/findings/" + s.finding(t, "settle_order:42", "repeated_effect").ID},
		{"finding-guarded", "/findings/" + s.finding(t, "settle_order:77", "repeated_effect").ID},
		{"finding-loop", "/findings/" + s.finding(t, "product:5", "retry_storm").ID},
		{"finding-storm", "/findings/" + s.storm(t).ID},
		{"finding-stuck", "/findings/" + s.finding(t, "report:2026-01", "stuck_pending").ID},
		{"finding-hostile", "/findings/" + s.finding(t, hostileKey, "repeated_effect").ID},
		{"key-long", keyPath(longKey)},
		{"key-lockstep", keyPath("customer:7")},
		{"key-healthy", keyPath("settle:1000")},
		{"task-id", "/tasks/id?id=batch-77"},
		{"search", "/search?q=settle_order"},
		{"search-none", "/search?q=nothing-of-that-name"},
		{"tasks", "/tasks"},
		{"workers", "/workers"},
		{"evidence", "/evidence"},
		{"not-found", "/keys?key=unknown"},
	}
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

// press presses keys one by one, as a keyboard does: a page that takes a key for itself keeps it from being typed.
func (b *browser) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		text := key
		switch key {
		case "Enter":
			text = "\r"
		case "Escape":
			text = ""
		}
		down := input.DispatchKeyEventParams{Type: "keyDown", Key: key, Text: text, WindowsVirtualKeyCode: virtualKeys[key]}
		b.run(t, command(input.DispatchKeyEvent, down),
			command(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyUp", Key: key, WindowsVirtualKeyCode: virtualKeys[key]}))
	}
}

var virtualKeys = map[string]int64{"Enter": 13, "Escape": 27}

// seeded gives a browser and a site with a shop's troubles.
func seededSite(t *testing.T) (*browser, *site) {
	t.Helper()
	b := newBrowser(t)
	now := time.Now()
	s := newSite(t, now)
	newScene(now).store(t, s.store)
	return b, s
}

// A page is used by keys, keeps what its reader did to it while it is being mended, and says when it is out of date.
func TestUseInABrowser(t *testing.T) {
	b, s := seededSite(t)
	b.run(t, append(looks[0].actions(), chromedp.Navigate(s.url+"/findings"), chromedp.WaitVisible(chromedp.CSS("main h1")))...)
	for _, step := range []struct {
		name string
		test func(*testing.T, *browser, *site)
	}{
		{"keys", useKeys}, {"an event that is linked to is open, and stays so", useEvidence}, {"a state is changed and shown elsewhere", useState},
		{"the theme is remembered", useTheme}, {"without scripts", useNoScripts}, {"a server that is gone", useGone},
	} {
		t.Run(step.name, func(t *testing.T) { step.test(t, b, s) })
	}
}

// arrive waits for a page that is there and listens to keys.
func (b *browser) arrive(t *testing.T, path string) {
	t.Helper()
	b.until(t, fmt.Sprintf(`location.pathname === %q && document.documentElement.dataset.scripts === "true"`, path))
}

func useKeys(t *testing.T, b *browser, s *site) {
	b.arrive(t, "/findings")
	b.press(t, "/")
	b.until(t, `document.activeElement.id === "search"`)
	b.run(t, command(input.InsertText, input.InsertTextParams{Text: "receipt:9"}))
	b.press(t, "Enter")
	b.arrive(t, "/keys")
	b.until(t, `document.querySelector("h1 .mono").textContent === "receipt:9"`)
	b.press(t, "g", "f")
	b.arrive(t, "/findings")
	b.press(t, "j", "j", "k")
	b.until(t, `document.activeElement === document.querySelectorAll("[data-row] a.title")[0]`)
	first := eval[string](t, b, `document.activeElement.getAttribute("href")`)
	b.press(t, "Enter")
	b.arrive(t, first)
	b.press(t, "?")
	b.until(t, `document.getElementById("keys").open`)
	b.press(t, "Escape")
	b.until(t, `!document.getElementById("keys").open`)
	b.quiet(t, "keys")
}

// updated waits until the page has been mended once more.
func (b *browser) updated(t *testing.T) {
	t.Helper()
	eval[bool](t, b, `window.updates = 0, document.addEventListener("auditor:updated", () => window.updates++), true`)
	b.until(t, `window.updates >= 2`)
}

func useEvidence(t *testing.T, b *browser, s *site) {
	id := s.finding(t, "receipt:9", "repeated_effect").ID
	b.run(t, chromedp.Navigate(s.url+"/findings/"+id), chromedp.Click(chromedp.CSS(".chips a")))
	const open = `document.querySelector("li:target > details").open && document.querySelector("li:target pre").textContent.includes("business_key")`
	b.until(t, open)
	eval[bool](t, b, `document.querySelector("[name=note]").value = "half a sentence", true`)
	b.updated(t)
	if !eval[bool](t, b, open) || eval[string](t, b, `document.querySelector("[name=note]").value`) != "half a sentence" {
		t.Error("mending the page took away what its reader did")
	}
	b.quiet(t, "evidence")
}

func useState(t *testing.T, b *browser, s *site) {
	f := s.finding(t, "receipt:9", "repeated_effect")
	b.run(t, chromedp.Navigate(s.url+"/findings/"+f.ID), chromedp.SendKeys(chromedp.CSS("[name=note]"), "looking at it"),
		chromedp.Click(chromedp.CSS(`[value=acknowledged]`)))
	b.until(t, `document.querySelector(".log").textContent.includes("looking at it") && document.querySelector("[name=state][value=open]") !== null`)
	b.run(t, chromedp.Navigate(s.url+"/"))
	count := `document.querySelector(".rail .count")?.textContent`
	b.until(t, count+` === "10"`)
	change := finding.Change{FindingID: f.ID, Time: time.Now(), To: finding.Open, By: "another tab"}
	if err := s.store.Pages().SetFindingState(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	b.until(t, count+` === "11" && document.querySelector(".changes").textContent.includes("another tab")`)
	b.quiet(t, "state")
}

func useTheme(t *testing.T, b *browser, s *site) {
	b.run(t, chromedp.Navigate(s.url+"/"))
	const background = `getComputedStyle(document.body).backgroundColor`
	light := eval[string](t, b, background)
	b.run(t, chromedp.Click(chromedp.CSS(`.theme [value=dark]`)))
	b.until(t, background+" !== "+fmt.Sprintf("%q", light))
	b.run(t, chromedp.Navigate(s.url+"/tasks"))
	if theme := eval[string](t, b, `document.documentElement.dataset.theme`); theme != "dark" || eval[string](t, b, background) == light {
		t.Errorf("the next page is %s", theme)
	}
	b.run(t, chromedp.Click(chromedp.CSS(`.theme [value=auto]`)))
	b.until(t, background+" === "+fmt.Sprintf("%q", light))
	b.quiet(t, "theme")
}

func useNoScripts(t *testing.T, b *browser, s *site) {
	scripts := func(off bool) chromedp.Action[chromedp.Void] {
		return command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
	}
	id := s.finding(t, "settle_order:42", "repeated_effect").ID
	b.run(t, scripts(true), chromedp.Navigate(s.url+"/findings/"+id), chromedp.WaitVisible(chromedp.CSS(".timeline .wide svg")),
		chromedp.Click(chromedp.CSS(`[value=resolved]`)), chromedp.WaitVisible(chromedp.CSS(`[name=state][value=open]`)),
		chromedp.Navigate(s.url+"/findings"), chromedp.WaitVisible(chromedp.CSS(".filters button")),
		chromedp.Click(chromedp.CSS(`.theme [value=dark]`)), chromedp.WaitVisible(chromedp.CSS(`[data-theme=dark]`)), scripts(false))
	if page := all(t, s.store.Pages(), view.FindingFilter{States: []finding.State{finding.Resolved}}); len(page) != 1 || page[0].ID != id {
		t.Errorf("%d findings are resolved", len(page))
	}
}

func useGone(t *testing.T, b *browser, s *site) {
	b.run(t, chromedp.Navigate(s.url+"/"), chromedp.WaitVisible(chromedp.CSS("main h1")))
	before := eval[string](t, b, `document.querySelector("h1").textContent`)
	s.stop()
	b.until(t, `/does not answer: this page is from/.test(document.getElementById("evidence").textContent)`)
	if after := eval[string](t, b, `document.querySelector("h1").textContent`); after != before {
		t.Errorf("the page forgot %q", before)
	}
	picture := get(t, b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(artifacts(t), "page-stale-light.png"), picture, 0o600); err != nil {
		t.Fatal(err)
	}
}
