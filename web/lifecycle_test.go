package web_test

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"auditor/event/finding"
	"auditor/event/silence"
	"auditor/event/view"
)

// What people do to findings, with scripts off, and how it looks then.
func TestLifecycleInABrowser(t *testing.T) {
	b := newBrowser(t)
	now := time.Now()
	s := newSite(t, now)
	s.prove(t)
	newScene(now).store(t, s.store)
	scripts := func(off bool) chromedp.Action[chromedp.Void] {
		return command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off})
	}
	f := s.finding(t, "receipt:9", "repeated_effect")
	page := s.url + "/findings/" + f.ID
	b.run(t, scripts(true), chromedp.Navigate(page),
		chromedp.SendKeys(chromedp.CSS("[action$=state] [name=note]"), "the mail server was down"), chromedp.SendKeys(chromedp.CSS("[action$=state] [name=by]"), "ada"),
		chromedp.Click(chromedp.CSS("[formaction$=comment]")), chromedp.WaitVisible(chromedp.CSS(".log .note")),
		chromedp.SendKeys(chromedp.CSS("[name=assignee]"), "bob"), chromedp.Click(chromedp.CSS("[action$=assign] button")),
		chromedp.WaitVisible(chromedp.CSS(`[name=assignee][value=bob]`)),
		chromedp.Click(chromedp.CSS(`[action$=state] [value=acknowledged]`)), chromedp.WaitVisible(chromedp.CSS(`[value=open]`)))
	if got := s.finding(t, "receipt:9", "repeated_effect"); got.State != finding.Acknowledged || got.Assignee != "bob" {
		t.Errorf("it is %s and %q's", got.State, got.Assignee)
	}
	photograph(t, b, s, []picture{{"finding-handled", "/findings/" + f.ID}})
	b.run(t, chromedp.Navigate(page), chromedp.Click(chromedp.CSS(`[href^="/silences/new"]`)), chromedp.WaitVisible(chromedp.CSS("form.silence")))
	photograph(t, b, s, []picture{{"silence-new", "/silences/new?rule=repeated_effect&task=mail.send_receipt&namespace=&business_key=receipt:9"}})
	b.run(t, chromedp.Navigate(page), chromedp.Click(chromedp.CSS(`[href^="/silences/new"]`)), chromedp.WaitVisible(chromedp.CSS("form.silence")),
		chromedp.SendKeys(chromedp.CSS("form.silence [name=note]"), "known, mended by the next release"), chromedp.Click(chromedp.CSS("form.silence button")),
		chromedp.WaitVisible(chromedp.CSS(".silences .fits")))
	if got := s.finding(t, "receipt:9", "repeated_effect"); got.Silenced == nil {
		t.Error("the finding is not silenced")
	}
	over := silence.Silence{Matchers: silence.Matchers{Task: "crm.*", Worker: "*@shop-1", Namespace: "*"}.Filled(), From: now.Add(-time.Hour),
		Until: now.Add(time.Hour), By: "eve", Note: "deploy"}
	over, err := s.store.Pages().AddSilence(t.Context(), over)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Pages().EndSilence(t.Context(), over.ID, now, "eve", "done", ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []view.ConfigChange{{Time: now.Add(-26 * time.Hour), Digest: "9b1d0c3f5f6a7e21", Program: "1.1.0"}, {Time: now.Add(-time.Hour), Digest: "3f0c1b6f3a1e9d0c",
		Program: "1.2.0", Changed: "- rules.stuck_after: 15m\n+ rules.stuck_after: 1h\n+ tasks.mail.*.ignore_keys: [test:*]\n+ tasks.mail.*.retry_loop.retries: 30"}} {
		if err := s.store.LogConfig(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	photograph(t, b, s, []picture{{"evidence-configuration", "/evidence"}, {"silences", "/silences"}, {"finding-silenced", "/findings/" + f.ID}, {"findings-silenced", "/findings?silenced=any"},
		{"findings-without-silenced", "/findings"}, {"now-silenced", "/"}})
	b.run(t, chromedp.Navigate(s.url+"/silences"), chromedp.Click(chromedp.CSS(".silences summary")), chromedp.Click(chromedp.CSS(".silences .move button")),
		chromedp.WaitNotPresent(chromedp.CSS(".silences .move")), scripts(false))
	if n := len(all(t, s.store.Pages(), view.FindingFilter{Silenced: new(true)})); n != 0 {
		t.Errorf("%d findings are still silenced", n)
	}
}
