package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/embedded/kafka"
	"auditor/event"
	"auditor/internal/require"
)

// celeryPython finds the Python that `make celery` has given Celery.
func celeryPython(t *testing.T) string {
	t.Helper()
	venv, err := filepath.Abs("../../emitters/celery/venv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(venv, "complete")); err != nil {
		require.Missing(t, "Python with Celery", "make celery")
	}
	return filepath.Join(venv, "bin", "python")
}

// application runs the application that knows nothing of the auditor.
func application(t *testing.T, broker, transport string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(celeryPython(t), arguments...)
	cmd.Dir = "testdata/bridge"
	cmd.Env = append(os.Environ(), "BROKER="+broker, "TRANSPORT="+cmp.Or(transport, "{}"), "PYTHONDONTWRITEBYTECODE=1", "C_FORCE_ROOT=1")
	return cmd
}

func order(t *testing.T, broker, transport string, from, to int) {
	t.Helper()
	arguments := []string{"shop.py"}
	for n := from; n < to; n++ {
		arguments = append(arguments, fmt.Sprint(n))
	}
	if out, err := application(t, broker, transport, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// bridged is a bridge that runs, and what Kafka has of it.
type bridged struct {
	metrics string
	log     *noise
	stop    func() error

	mu     sync.Mutex
	events []event.Event
}

// startBridge starts a bridge, by its command line, to a broker of the test's own.
func startBridge(t *testing.T, arguments ...string) *bridged {
	t.Helper()
	broker, err := kafka.Start(kafka.Config{Data: t.TempDir(), Topics: []string{"task-events"}, Partitions: 3, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &bridged{metrics: freeAddress(t), log: new(noise)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		arguments := append([]string{"bridge", "celery", "--brokers", broker.Addr(), "--metrics", b.metrics}, arguments...)
		done <- run(ctx, arguments, func(string) string { return "" }, nil, b.log, b.log)
	}()
	b.stop = sync.OnceValue(func() error { stop(); return <-done })
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(b.log.String(), secret) {
			t.Error("the password is in the log")
		}
		t.Logf("the bridge:\n%s", b.log)
	})
	go b.consume(t, broker.Addr())
	eventually(t, "the bridge is ready", func() bool { return b.ask("/readyz") == "ok\n" })
	return b
}

func (b *bridged) consume(t *testing.T, address string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("task-events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	decoder, err := event.NewDecoder(event.DecoderConfig{Keys: map[string]string{"shop.settle": "settle:{{ arg 0 }}"}})
	if err != nil {
		t.Error(err)
		return
	}
	for {
		fetches := client.PollFetches(t.Context())
		if t.Context().Err() != nil {
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			events, rejects := decoder.Decode(event.Record{Value: r.Value, Time: r.Timestamp, Position: event.Position{Partition: r.Partition, Offset: r.Offset}})
			if len(rejects) > 0 {
				t.Errorf("%s: %s", r.Value, rejects[0].Detail)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, events...)
		})
	}
}

// of gives the events of a type that have arrived.
func (b *bridged) of(kind event.Type) (events []event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.events {
		if e.Type == kind {
			events = append(events, e)
		}
	}
	return events
}

// missing gives the numbers left out up to the highest that arrived.
func (b *bridged) missing() (missing []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := make(map[int64]bool)
	most := int64(-1)
	for _, e := range b.events {
		have[e.Seq] = true
		most = max(most, e.Seq)
	}
	for n := range most {
		if !have[n] {
			missing = append(missing, n)
		}
	}
	return missing
}

func (b *bridged) ask(path string) string {
	response, err := http.Get("http://" + b.metrics + path)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body) // what is missing fails the test
	return string(text)
}

func (b *bridged) counts(line string) bool {
	return strings.Contains(b.ask("/metrics"), "\n"+line+"\n")
}

// TestBridge carries the events of a real worker over either broker, encrypted, through a connection that is cut.
func TestBridge(t *testing.T) {
	celeryPython(t)
	for name, broker := range map[string]struct {
		start          func(*testing.T) (address string)
		workers, reads string // what comes before the address, for either
	}{
		"redis":    {startRedis, "redis://:" + secret + "@", "rediss://:" + secret + "@"},
		"rabbitmq": {startRabbit, "amqp://shop:" + secret + "@", "amqps://bridge:" + secret + "@"},
	} {
		t.Run(name, func(t *testing.T) {
			address := broker.start(t)
			way := newWay(t, address)
			b := startBridge(t, "--broker", broker.reads+way.address()+"/?ssl_ca_certs="+way.ca)
			broker := broker.workers + address + "/"
			background(t, application(t, broker, "", "-m", "celery", "-A", "shop", "worker", "-E", "-c", "1", "-n", "w1@h", "--loglevel", "warning"))
			order(t, broker, "", 0, 50)
			eventually(t, "fifty tasks have succeeded", func() bool { return len(b.of(event.Succeeded)) == 50 })
			checkTasks(t, b, 50)
			eventually(t, "four heartbeats have come", func() bool { return len(b.of(event.Heartbeat)) > 4 })
			if missing := b.missing(); missing != nil || !b.counts("auditor_bridge_lost_starts_total 0") {
				t.Errorf("numbers %v are missing\n%s", missing, b.ask("/metrics"))
			}

			way.cut()
			eventually(t, "the bridge is back", func() bool {
				return b.counts("auditor_bridge_outages_total 1") && b.counts("auditor_bridge_connected 1")
			})
			order(t, broker, "", 50, 60)
			eventually(t, "sixty tasks have succeeded", func() bool { return len(b.of(event.Succeeded)) == 60 })
			if missing := b.missing(); len(missing) != 1 {
				t.Errorf("numbers %v are missing", missing)
			}
			if err := b.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkTasks checks that every task's events are there once, in order, and that the business key is what the template makes.
func checkTasks(t *testing.T, b *bridged, tasks int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	kinds, keys := map[string][]event.Type{}, map[string]bool{}
	places := map[string]int32{}
	for _, e := range b.events {
		if e.TaskID == "" {
			continue
		}
		kinds[e.TaskID] = append(kinds[e.TaskID], e.Type)
		if at, known := places[e.TaskID]; known && at != e.Position.Partition {
			t.Errorf("task %s is in two partitions", e.TaskID)
		}
		places[e.TaskID] = e.Position.Partition
		if e.BusinessKey != "" {
			keys[e.BusinessKey] = true
		}
	}
	if len(kinds) != tasks || len(keys) != tasks || !keys["settle:7"] {
		t.Errorf("%d tasks, %d keys", len(kinds), len(keys))
	}
	for id, of := range kinds {
		worker := slices.DeleteFunc(slices.Clone(of), func(k event.Type) bool { return k == event.Sent }) // which another process tells
		if len(of) != 4 || !slices.Equal(worker, []event.Type{event.Received, event.Started, event.Succeeded}) {
			t.Errorf("task %s: %v", id, of)
		}
	}
}

// TestBridgeFindsTheChannel reads what kombu publishes with other options than its own.
func TestBridgeFindsTheChannel(t *testing.T) {
	celeryPython(t)
	broker := "redis://:" + secret + "@" + startRedis(t) + "/3"
	for transport, arguments := range map[string][]string{
		`{"fanout_prefix": false}`:                               {"--fanout-prefix="},
		`{"fanout_prefix": "ev.{db}."}`:                          {"--fanout-prefix=ev.{db}."},
		`{"fanout_patterns": false}`:                             nil,
		`{"global_keyprefix": "shop:", "fanout_patterns": true}`: {"--key-prefix=shop:"},
	} {
		t.Run(transport, func(t *testing.T) {
			b := startBridge(t, append(arguments, "--broker", broker)...)
			order(t, broker, transport, 0, 3)
			eventually(t, "three tasks were sent", func() bool { return len(b.of(event.Sent)) == 3 })
		})
	}
}

// TestBridgeWithFewRights gives the bridge the rights that docs/bridge.md names, and no other.
func TestBridgeWithFewRights(t *testing.T) {
	address := startRedis(t)
	admin := redis.NewClient(&redis.Options{Addr: address, Password: secret})
	defer admin.Close()
	err := admin.Do(t.Context(), "ACL", "SETUSER", "bridge", "on", ">"+secret, "resetchannels", "&/0.celeryev", "&/0.celeryev/*", "-@all",
		"+ping", "+subscribe", "+psubscribe").Err()
	if err != nil {
		t.Fatal(err)
	}
	b := startBridge(t, "--broker", "redis://bridge:"+secret+"@"+address+"/0")
	heartbeat := `{"type":"worker-heartbeat","hostname":"w1","pid":7,"timestamp":1796065075.5,"clock":1,"processed":0}`
	message := `{"body":` + strconv.Quote(heartbeat) + `,"content-type":"application/json","headers":{},"properties":{}}`
	for _, text := range []string{"hostile", message} {
		if err := admin.Publish(t.Context(), "/0.celeryev/worker.heartbeat", text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the heartbeat has come", func() bool {
		return len(b.of(event.Heartbeat)) == 1 && b.counts(`auditor_bridge_skipped_total{reason="bad_envelope"} 1`)
	})
}

func TestBridgeIsRefused(t *testing.T) {
	address := startRedis(t)
	file := filepath.Join(t.TempDir(), "broker")
	if err := os.WriteFile(file, []byte("redis://:wrong-"+secret+"@"+address+"/0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(noise)
	environment := map[string]string{"AUDITOR_CELERY_BROKER_FILE": file}
	err := run(t.Context(), []string{"bridge", "celery", "--brokers", "127.0.0.1:1"}, func(name string) string { return environment[name] }, nil, log, log)
	if err == nil || !strings.Contains(err.Error(), "redis://"+address+"/0: refused: WRONGPASS") || strings.Contains(err.Error()+log.String(), secret) {
		t.Errorf("got %v", err)
	}
	for want, arguments := range map[string][]string{
		"broker: is no URL":     {"--broker", "redis://:" + secret + "#@x/0"},
		"--broker: must be":     nil,
		"--buffer and":          {"--broker", "redis://x", "--buffer", "0"},
		"--broker-file: must":   {"--broker", "redis://x", "--broker-file", file},
		"no parameter that the": {"--broker", "amqp://x/?heartbeat=3"},
	} {
		err := run(t.Context(), append([]string{"bridge", "celery"}, arguments...), func(string) string { return "" }, nil, log, log)
		if !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error()+log.String(), secret) {
			t.Errorf("%v: got %v", arguments, err)
		}
	}
}
