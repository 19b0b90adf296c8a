package web_test

import (
	"strings"
	"testing"
	"time"

	"auditor/event/view"
)

func TestConfigurationOfTheRulesIsTold(t *testing.T) {
	store := full()
	server := newServer(t, store)
	if a := call(t, server, "GET", "/evidence", ""); !strings.Contains(a.body, "The rules have not begun yet.") {
		t.Error("it is not said that there is none yet")
	}
	if a := call(t, server, "GET", "/api/v1/config/log", ""); a.StatusCode != 200 || a.body != `{"items":[],"next_cursor":""}`+"\n" {
		t.Errorf("%d: %s", a.StatusCode, a.body)
	}
	store = full()
	store.configs = []view.ConfigChange{
		{Time: noon.Add(-time.Hour), Digest: "b2", Section: "rules:\n", Changed: "- rules.stuck_after: 15m\n+ tasks.<b>.off: [a]", Program: "1.2"},
		{Time: noon.Add(-2 * time.Hour), Digest: "a1", Section: "rules:\n", Program: "1.1"},
	}
	server = newServer(t, store)
	page := call(t, server, "GET", "/evidence", "").body
	for _, want := range []string{"- rules.stuck_after: 15m\n&#43; tasks.&lt;b&gt;.off: [a]\n", "the first that was noted", "by auditor 1.2"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if a := call(t, server, "GET", "/api/v1/config/log?limit=1", ""); !strings.Contains(a.body, `"digest":"b2","section":"rules:\n","changed":"- rules.stuck_after`) {
		t.Errorf("%s", a.body)
	}
	if a := call(t, server, "GET", "/api/v1/config/log?limit=0", ""); a.StatusCode != 400 {
		t.Errorf("limit 0: %d", a.StatusCode)
	}
}
