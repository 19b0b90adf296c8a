// Package shop_test plays the troubles of this directory on real Celery workers, and holds the auditor to finding each of them
// and nothing in its mended version.
package shop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"auditor/embedded/clickhouse/chtest"
	"auditor/internal/require"
)

const module = "../../emitters/celery"

// said is what the auditor must say of a trouble.
type said struct{ rule, cause, key string }

// troubles are the plays, by name. A trouble without a key is one of the task as a whole; the key of chance is known to nobody.
var troubles = map[string][]said{
	"child_killed":         {{"repeated_effect", "worker_lost", "settle_order:42"}},
	"worker_killed":        {{"repeated_effect", "worker_lost", "settle_order:42"}},
	"visibility_timeout":   {{"repeated_effect", "redelivered_while_running", "settle_order:42"}, {"concurrent_runs", "redelivered_while_running", "settle_order:42"}},
	"acknowledgement_lost": {{"repeated_effect", "redelivered_after_success", "settle_order:42"}},
	"published_twice":      {{"repeated_effect", "published_twice", "settle_order:42"}},
	"permanent_error":      {{"permanent_error_retried", "", ""}},
	"retry_in_step":        {{"retry_storm", "", ""}},
	"key_of_chance":        {{"key_drift", "", "?"}},
	"row_before_work":      {{"swallowed_work", "", "settle_order:42"}},
	"lock_too_short":       {{"concurrent_runs", "published_twice", "settle_order:42"}, {"repeated_effect", "published_twice", "settle_order:42"}},
	"deploy":               {{"repeated_effect", "worker_lost", "?"}},
}

// TestTroubles plays every trouble and its mended version.
func TestTroubles(t *testing.T) {
	if _, err := os.Stat(filepath.Join(module, "venv", "complete")); err != nil {
		require.Missing(t, "Python with Celery", "make celery")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		require.Missing(t, "redis-server", "apt-get install redis-server")
	}
	a := startAuditor(t, chtest.Library(t))
	for name, want := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a.play(t, name, false)
			for _, w := range want {
				a.awaitFinding(t, name, w)
			}
		})
		t.Run(name+"-mended", func(t *testing.T) {
			t.Parallel()
			a.play(t, name, true)
			a.judged(t)
			if found := a.findings(t, name+"-mended"); len(found) > 0 {
				t.Errorf("the auditor finds something in the mended version: %v", found)
			}
		})
	}
}

// auditor is a running auditor with a broker of its own.
type auditor struct{ web, kafka string }

func startAuditor(t *testing.T, library string) auditor {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "auditor")
	if out, err := exec.Command("go", "build", "-o", binary, "auditor/cmd/auditor").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a := auditor{web: freeAddress(t), kafka: freeAddress(t)}
	log, err := os.Create(filepath.Join(t.TempDir(), "auditor.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "run", "--embedded", "--config", "auditor.yaml", "--listen", a.web, "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "AUDITOR_LIBCHDB="+library, "AUDITOR_EMBEDDED_KAFKA_LISTEN="+a.kafka)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // what it has to say is in its log
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("the auditor's log:\n%s", text)
		}
	})
	eventually(t, "the auditor is ready", func() bool {
		response, err := http.Get("http://" + a.web + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return a
}

// play runs a trouble to its end.
func (a auditor) play(t *testing.T, name string, mended bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	python, err := filepath.Abs(filepath.Join(module, "venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, "run.py", name, "--kafka", a.kafka)
	if mended {
		cmd.Args = append(cmd.Args, "--mended")
	}
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "SHOP_VERBOSE=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends what it started
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

type found struct {
	Rule        string `json:"rule"`
	Cause       string `json:"cause"`
	BusinessKey string `json:"business_key"`
	Title       string `json:"title"`
	Explanation string `json:"explanation"`
}

func (a auditor) findings(t *testing.T, namespace string) []found {
	t.Helper()
	var page struct {
		Items []found `json:"items"`
	}
	a.get(t, "/api/v1/findings?limit=500&namespace="+url.QueryEscape(namespace), &page)
	return page.Items
}

func (a auditor) awaitFinding(t *testing.T, namespace string, w said) {
	t.Helper()
	var last []found
	eventually(t, fmt.Sprintf("%v", w), func() bool {
		last = a.findings(t, namespace)
		for _, f := range last {
			if f.Rule == w.rule && (w.cause == "" || f.Cause == w.cause) && (f.BusinessKey == w.key || w.key == "?" && f.BusinessKey != "") {
				t.Logf("%s: %s", f.Title, f.Explanation)
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprintf("found: %+v", last) })
}

// judged waits until everything that the broker holds by now has been judged.
func (a auditor) judged(t *testing.T) {
	t.Helper()
	type status struct {
		Partitions []struct {
			Last   int64 `json:"last_offset"`
			Judged int64 `json:"judged_offset"`
			Lag    int64 `json:"lag"`
		} `json:"partitions"`
	}
	var until int64
	eventually(t, "all is ingested", func() bool {
		var s status
		a.get(t, "/api/v1/status", &s)
		if len(s.Partitions) != 1 {
			return false
		}
		until = s.Partitions[0].Last + s.Partitions[0].Lag
		return true
	})
	eventually(t, "all is judged", func() bool {
		var s status
		a.get(t, "/api/v1/status", &s)
		return s.Partitions[0].Judged > until
	})
}

func (a auditor) get(t *testing.T, path string, into any) {
	t.Helper()
	response, err := http.Get("http://" + a.web + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", path, response.Status, err, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits for a condition, and fails after two minutes with what the notes say.
func eventually(t *testing.T, what string, condition func() bool, notes ...func() string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			var said []string
			for _, note := range notes {
				said = append(said, note())
			}
			t.Fatalf("it never came about that %s\n%s", what, strings.Join(said, "\n"))
		}
	}
}
