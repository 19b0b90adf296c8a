package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"auditor/event/finding"
	"auditor/event/view"
)

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
	b.until(t, count+` === "12"`)
	change := finding.Act{FindingID: f.ID, Time: time.Now(), Action: finding.Reopen, By: "another tab"}
	if err := s.store.Act(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	b.until(t, count+` === "13" && document.querySelector(".changes").textContent.includes("another tab")`)
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
