package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/embedded/clickhouse/chtest" // makes this binary able to be the engine's child process
	"auditor/embedded/clickhouse/testserver"
	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

var update = flag.Bool("update", false, "write what the scripts print into their golden files")

func TestMain(m *testing.M) {
	testscript.Main(runner{m}, map[string]func(){"auditor": main})
}

// runner stops the engine that tests share before the program ends.
type runner struct{ m *testing.M }

func (r runner) Run() int { return chtest.Run(r.m) }

// TestScripts runs the real program, as a person would, where it needs no engine.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script", "") }

// TestEngineScripts does so where it needs one.
func TestEngineScripts(t *testing.T) { runScripts(t, "testdata/engine", chtest.Library(t)) }

// TestApacheScripts does so with Apache Kafka too.
func TestApacheScripts(t *testing.T) {
	if err := testbroker.Available(); err != nil {
		require.Missing(t, err.Error(), "make testbroker, and a JDK")
	}
	runScripts(t, "testdata/apache", chtest.Library(t))
}

func runScripts(t *testing.T, dir, library string) {
	testscript.Run(t, testscript.Params{
		Dir:           dir,
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			captures, err := filepath.Abs("../../event/testdata/celery")
			if err != nil {
				return err
			}
			env.Setenv("CAPTURES", captures)
			env.Setenv("AUDITOR_LIBCHDB", library)
			env.Setenv("TMPDIR", filepath.Join(env.WorkDir, "tmp"))
			return os.Mkdir(filepath.Join(env.WorkDir, "tmp"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"freeport":  freePort,
			"server":    clickhouseServer,
			"occupy":    occupy,
			"await":     await,
			"terminate": terminate,
			"produce":   produce,
			"settled":   settled,
			"apache":    apache,
			"expand":    expand,
			"post":      post,
			"bytes":     bytesFile,
			"send":      send,
			"deaf":      deaf,
			"heard":     heard,
			"answer":    answer,
			"sql":       sql,
		},
	})
}

// freePort puts an address that nobody listens on into the variable that it is given.
func freePort(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// clickhouseServer starts a ClickHouse server with an empty database, and puts its address into the variable: variable,
// database.
func clickhouseServer(ts *testscript.TestScript, _ bool, args []string) {
	at, err := testserver.Addresses(2)
	ts.Check(err)
	s, err := testserver.Start(context.Background(), testserver.Config{Library: ts.Getenv("AUDITOR_LIBCHDB"),
		Data: ts.MkAbs("clickhouse-" + args[0]), Native: at[0], HTTP: at[1]})
	ts.Check(err)
	ts.Defer(s.Stop)
	response, err := http.Post("http://"+at[1]+"/", "text/plain", strings.NewReader("CREATE DATABASE "+args[1]))
	ts.Check(err)
	ts.Check(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("CREATE DATABASE: %s", response.Status)
	}
	ts.Setenv(args[0], at[0])
}

// occupy puts an address that somebody listens on into the variable that it is given.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// produce sends each line of the files to a topic of the broker, as any Kafka client would: broker, topic, file...
func produce(ts *testscript.TestScript, _ bool, args []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(args[0]), kgo.DefaultProduceTopic(args[1]))
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, file := range args[2:] {
		text, err := os.ReadFile(ts.MkAbs(file))
		ts.Check(err)
		for line := range strings.Lines(string(text)) {
			ts.Check(client.ProduceSync(ctx, kgo.StringRecord(strings.TrimSpace(line))).FirstErr())
		}
	}
}

// apache starts Apache Kafka with a topic task-events of two partitions. It puts the address of its listener with TLS and
// passwords into KAFKA, that of the one with neither into OPEN, the certificate to trust into CA, and a user and the password into
// USER and PASSWORD.
func apache(ts *testscript.TestScript, _ bool, _ []string) {
	const user, password = "auditor", "s3cret-of-auditor"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, err := testbroker.Start(ctx, testbroker.Config{Listeners: []testbroker.Security{testbroker.SASLTLS}, Users: map[string]string{user: password}})
	ts.Check(err)
	ts.Defer(func() { ts.Check(broker.Stop()) })
	ts.Check(broker.CreateTopic(ctx, "task-events", 2, nil))
	for name, value := range map[string]string{"KAFKA": broker.Addr(), "OPEN": broker.AddrOf(testbroker.Plaintext), "CA": broker.CA(), "USER": user, "PASSWORD": password} {
		ts.Setenv(name, value)
	}
}

// expand puts variables into files where they are named as ${NAME}.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		path := ts.MkAbs(file)
		text, err := os.ReadFile(path)
		ts.Check(err)
		ts.Check(os.WriteFile(path, []byte(os.Expand(string(text), ts.Getenv)), 0o600))
	}
}

// sql has the engine of an auditor that runs carry out a statement: address, statement. Its password is "secret".
func sql(ts *testscript.TestScript, _ bool, args []string) {
	request, err := http.NewRequest("POST", "http://"+args[0]+"/?database=auditor", strings.NewReader(args[1]))
	ts.Check(err)
	request.SetBasicAuth("default", "secret")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[1], text)
	}
}

// settled waits until everything that Kafka holds is stored and judged, for two minutes at most, and then asks how many
// findings there are: address, number.
func settled(ts *testscript.TestScript, _ bool, args []string) {
	var status struct {
		Partitions []struct {
			Last   int64 `json:"last_offset"`
			Judged int64 `json:"judged_offset"`
			Lag    int64 `json:"lag"`
		} `json:"partitions"`
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; <-tick.C {
		text, err := get(ctx, args[0]+"/api/v1/status")
		ts.Check(err)
		ts.Check(json.Unmarshal([]byte(text), &status))
		done = len(status.Partitions) > 0
		for _, p := range status.Partitions {
			done = done && p.Lag == 0 && p.Judged > p.Last
		}
	}
	text, err := get(ctx, args[0]+"/api/v1/findings")
	ts.Check(err)
	var found struct {
		Items []json.RawMessage `json:"items"`
	}
	ts.Check(json.Unmarshal([]byte(text), &found))
	if strconv.Itoa(len(found.Items)) != args[1] {
		ts.Fatalf("%d findings: %s", len(found.Items), text)
	}
}

// terminate sends SIGTERM to every program in the background.
func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// await asks for a URL until the answer holds every one of the texts, for two minutes at most.
func await(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := "no answer"
	for {
		if text, err := get(ctx, args[0]); err == nil {
			last = text
			if holdsAll(text, args[1:]) {
				return
			}
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("%s does not answer with %q within two minutes, but with %s", args[0], args[1:], last)
		case <-tick.C:
		}
	}
}

func holdsAll(text string, wanted []string) bool {
	for _, w := range wanted {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}
