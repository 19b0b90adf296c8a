package emitriver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"auditor/emit"
	"auditor/emit/emitriver"
	"auditor/emit/emittest"
	"auditor/event"
	"auditor/internal/require"
)

// postgres starts a server of its own, on a socket, and gives connections to it.
func postgres(t *testing.T) *pgxpool.Pool {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if initdb, err := exec.LookPath("initdb"); err == nil {
		found = append(found, initdb)
	}
	if len(found) == 0 {
		require.Missing(t, "PostgreSQL", "Debian's package postgresql")
	}
	bin := filepath.Dir(found[0])
	dir, err := os.MkdirTemp("/tmp", "pg") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	as := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // as which PostgreSQL will not run
		const nobody = 65534
		as.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	var output bytes.Buffer
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.SysProcAttr, cmd.Dir, cmd.Stdout, cmd.Stderr = as, dir, &output, &output
		return cmd
	}
	data := filepath.Join(dir, "data")
	if err := command("initdb", "-D", data, "-U", "river", "-A", "trust", "--no-sync", "--locale=C").Run(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, output.String())
	}
	server := command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT) // that it has ended already shows in what the test sees
		_ = server.Wait()
	})
	pool, err := pgxpool.New(t.Context(), "postgres:///postgres?user=river&host="+url.QueryEscape(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for deadline := time.Now().Add(time.Minute); pool.Ping(t.Context()) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("PostgreSQL does not start:\n%s", output.String())
		}
	}
	return pool
}

// Job is a job that does what it says.
type Job struct {
	Does  string `json:"does"`
	Order int    `json:"order"`
}

// Kind is the job's name.
func (Job) Kind() string { return "settle" }

type worker struct {
	river.WorkerDefaults[Job]
}

// NextRetry does not wait.
func (*worker) NextRetry(*river.Job[Job]) time.Time { return time.Now() }

// Work does what the job says.
func (*worker) Work(ctx context.Context, job *river.Job[Job]) error {
	switch job.Args.Does {
	case "charge":
		emit.Effect(ctx, event.Effect{Name: "payment.charge", IdempotencyKey: "order:1"})
	case "fail":
		return errors.New("upstream 503")
	case "panic":
		panic("boom")
	case "skip":
		return emit.Skipped("locked", "t0")
	case "cancel":
		return river.JobCancel(errors.New("not wanted"))
	case "snooze":
		if string(job.Metadata) == "{}" {
			return river.JobSnooze(time.Millisecond)
		}
	}
	return nil
}

// Real jobs through a real client: what each does is what is told.
func TestJobsAreToldOf(t *testing.T) {
	pool := postgres(t)
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	collector := emittest.New(t)
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{})
	client, err := river.NewClient(driver, &river.Config{
		ID: "w1", Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}}, FetchPollInterval: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
		Middleware: []rivertype.Middleware{emitriver.New(collector.Client, emitriver.Options{Namespace: "test", Inserts: true, Key: func(job *rivertype.JobRow) string {
			if strings.Contains(string(job.EncodedArgs), "plain") {
				panic("no key in it")
			}
			return "order:1"
		}})},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"charge": {"sent order:1", "started order:1 r=0/1", "effect order:1 r=0/1 payment.charge order:1", "succeeded order:1 r=0/1"},
		"plain":  {"sent ", "started  r=0/1", "succeeded  r=0/1"},
		"fail": {"sent order:1", "started order:1 r=0/1", "retried order:1 r=0/1 error: upstream 503", "started order:1 r=1/1",
			"failed order:1 r=1/1 error: upstream 503"},
		"panic":  {"sent order:1", "started order:1 r=0/1", "retried order:1 r=0/1 panic: boom", "started order:1 r=1/1", "failed order:1 r=1/1 panic: boom"},
		"skip":   {"sent order:1", "started order:1 r=0/1", "skipped order:1 r=0/1 locked t0"},
		"cancel": {"sent order:1", "started order:1 r=0/1", "revoked order:1 r=0/1"},
		"snooze": {"sent order:1", "started order:1 r=0/1", "retried order:1 r=0/1 in 1 s", "started order:1 r=1/1", "succeeded order:1 r=1/1"},
	}
	does, total := insert(t, client, want), 0
	for _, lines := range want {
		total += len(lines)
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for deadline := time.Now().Add(time.Minute); len(events) < total && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		events = collector.Events()
	}
	if err := client.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, e := range collector.Events() {
		got[does[e.TaskID]] = append(got[does[e.TaskID]], line(e))
		if e.Namespace != "test" || e.System != "river" || e.Queue != "default" || e.Task != "settle" || e.ArgsDigest == "" || e.Type != event.Sent && e.Worker != "w1" {
			t.Errorf("lacks what is known: %s", e.AppendJSON(nil))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// insert inserts a job of each kind, and gives what the jobs do by their ids. A copy that River leaves out is not told of.
func insert(t *testing.T, client *river.Client[pgx.Tx], all map[string][]string) map[string]string {
	t.Helper()
	does := map[string]string{}
	for name := range all {
		for range 2 {
			r, err := client.Insert(t.Context(), Job{Does: name, Order: 1}, &river.InsertOpts{MaxAttempts: 2, UniqueOpts: river.UniqueOpts{ByArgs: true}})
			if err != nil {
				t.Fatal(err)
			}
			does[fmt.Sprintf("river:%d", r.Job.ID)] = name
		}
	}
	return does
}

func line(e event.Event) string {
	text := string(e.Type) + " " + e.BusinessKey
	if e.Type != event.Sent {
		text += fmt.Sprintf(" r=%d/%d", e.Retries, e.MaxRetries)
	}
	switch {
	case e.Effect != nil:
		text += " " + e.Effect.Name + " " + e.Effect.IdempotencyKey
	case e.Error != nil:
		text += " " + e.Error.Type + ": " + e.Error.Message
	case e.Skip != nil:
		text += " " + e.Skip.Reason + " " + e.Skip.Holder
	case e.RetryIn > 0:
		text += fmt.Sprintf(" in %d s", e.RetryIn)
	}
	return text
}
