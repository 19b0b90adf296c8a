package emitasynq_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"auditor/emit"
	"auditor/emit/emitasynq"
	"auditor/emit/emittest"
	"auditor/event"
	"auditor/internal/require"
)

// redis starts a Redis of its own, and gives its address.
func redis(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		require.Missing(t, "redis-server", "Debian's package redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // that it has ended already shows in what the test sees
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Real tasks through a real server: what each does is what is told.
func TestTasksAreToldOf(t *testing.T) {
	at := asynq.RedisClientOpt{Addr: redis(t)}
	collector := emittest.New(t)
	options := emitasynq.Options{Namespace: "test", Worker: "w1", Key: func(t *asynq.Task) string {
		if t.Type() == "keyless" {
			panic("no key in it")
		}
		return "order:" + string(t.Payload())
	}}
	mux := asynq.NewServeMux()
	mux.Use(emitasynq.Middleware(collector.Client, options))
	mux.HandleFunc("charge", func(ctx context.Context, task *asynq.Task) error {
		emit.Effect(ctx, event.Effect{Name: "payment.charge", IdempotencyKey: emit.RunOf(ctx).TaskID()})
		return nil
	})
	mux.HandleFunc("keyless", func(context.Context, *asynq.Task) error { return nil })
	mux.HandleFunc("flaky", func(context.Context, *asynq.Task) error { return errors.New("upstream 503") })
	mux.HandleFunc("broken", func(context.Context, *asynq.Task) error {
		return fmt.Errorf("%w: %w", &emit.PermanentError{Err: errors.New("no such card")}, asynq.SkipRetry)
	})
	mux.HandleFunc("panics", func(context.Context, *asynq.Task) error { panic("boom") })
	mux.HandleFunc("skips", func(context.Context, *asynq.Task) error { return emit.Skipped("locked", "t0") })
	mux.HandleFunc("revoked", func(context.Context, *asynq.Task) error { return asynq.RevokeTask })
	server := asynq.NewServer(at, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 50 * time.Millisecond,
		DelayedTaskCheckInterval: 50 * time.Millisecond, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }})
	client := asynq.NewClient(at)
	defer client.Close()
	for _, name := range []string{"charge", "keyless", "flaky", "broken", "panics", "skips", "revoked"} {
		task := asynq.NewTask(name, []byte("7"))
		info, err := client.Enqueue(task, asynq.TaskID(name), asynq.MaxRetry(1))
		if err != nil {
			t.Fatal(err)
		}
		emitasynq.Sent(collector.Client, task, info, options)
	}
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"charge":  {"sent order:7", "started order:7 r=0/1", "effect order:7 r=0/1 payment.charge charge", "succeeded order:7 r=0/1"},
		"keyless": {"sent ", "started  r=0/1", "succeeded  r=0/1"},
		"flaky": {"sent order:7", "started order:7 r=0/1", "retried order:7 r=0/1 error: upstream 503", "started order:7 r=1/1",
			"failed order:7 r=1/1 error: upstream 503"},
		"broken":  {"sent order:7", "started order:7 r=0/1", "failed order:7 r=0/1 error: no such card: skip retry for the task permanent"},
		"panics":  {"sent order:7", "started order:7 r=0/1", "retried order:7 r=0/1 panic: boom", "started order:7 r=1/1", "failed order:7 r=1/1 panic: boom"},
		"skips":   {"sent order:7", "started order:7 r=0/1", "skipped order:7 r=0/1 locked t0"},
		"revoked": {"sent order:7", "started order:7 r=0/1", "revoked order:7 r=0/1"},
	}
	total := 0
	for _, lines := range want {
		total += len(lines)
	}
	var events []event.Event
	for deadline := time.Now().Add(time.Minute); len(events) < total && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		events = collector.Events()
	}
	server.Shutdown()
	got := map[string][]string{}
	for _, e := range collector.Events() {
		got[e.TaskID] = append(got[e.TaskID], line(e))
		if e.Namespace != "test" || e.System != "asynq" || e.Queue != "default" || e.Task != e.TaskID || e.ArgsDigest == "" {
			t.Errorf("lacks what is known: %s", e.AppendJSON(nil))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
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
		if e.Error.Permanent {
			text += " permanent"
		}
	case e.Skip != nil:
		text += " " + e.Skip.Reason + " " + e.Skip.Holder
	}
	return text
}
