package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A choice that the store would read as no choice must not purge everything.
func TestRejectsAreNotChosenByNonsense(t *testing.T) {
	for name, choice := range map[string]rejectsChoice{
		"negative partition": {Partition: new(int32(-1))},
		"since no time":      {Since: "0001-01-01T00:00:00Z"},
		"until no time":      {Until: "0001-01-01T00:00:00Z"},
		"unknown reason":     {Reason: []string{"no_such"}},
	} {
		if _, err := choice.filter([]string{"any"}); !errors.As(err, new(usageError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bytesFile writes a file that no archive of text can hold: name, the bytes as a Go string, how often (once).
func bytesFile(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	times := 1
	if len(args) > 2 {
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(text, times)), 0o600))
}

// post posts JSON to a URL, and compares: URL, body, status, texts that the answer must hold.
func post(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, args[0], strings.NewReader(args[1]))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	if strconv.Itoa(answer.StatusCode) != args[2] || !holdsAll(string(text), args[3:]) {
		ts.Fatalf("%s: %s", answer.Status, text)
	}
}

// send sends each file as one record, with a key and a header, to a topic: broker, topic, key, file...
func send(ts *testscript.TestScript, _ bool, args []string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(args[0]), kgo.DefaultProduceTopic(args[1]), kgo.ProducerBatchMaxBytes(8<<20))
	ts.Check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, file := range args[3:] {
		value, err := os.ReadFile(ts.MkAbs(file))
		ts.Check(err)
		r := &kgo.Record{Key: []byte(args[2]), Value: value, Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("from " + file)}}}
		ts.Check(client.ProduceSync(ctx, r).FirstErr())
	}
}

// deafBrokers are the brokers of the scripts that run, by address.
var deafBrokers sync.Map

// deafBroker takes records and answers nobody, until it is told to.
type deafBroker struct {
	heard  chan struct{} // gets something when a record came
	answer chan struct{} // closed when it may answer
	once   sync.Once
}

// deaf starts a broker that is deaf, and puts its address into the variable that it is given: variable, topic.
func deaf(ts *testscript.TestScript, _ bool, args []string) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, args[1]))
	ts.Check(err)
	d := &deafBroker{heard: make(chan struct{}, 1), answer: make(chan struct{})}
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		select {
		case d.heard <- struct{}{}:
		default:
		}
		<-d.answer
		return nil, nil, false
	})
	address := cluster.ListenAddrs()[0]
	deafBrokers.Store(address, d)
	ts.Setenv(args[0], address)
	ts.Defer(func() {
		d.once.Do(func() { close(d.answer) })
		cluster.Close()
	})
}

func deafAt(ts *testscript.TestScript, address string) *deafBroker {
	d, ok := deafBrokers.Load(address)
	if !ok {
		ts.Fatalf("no deaf broker at %s", address)
	}
	return d.(*deafBroker)
}

// heard waits until a deaf broker got a record.
func heard(ts *testscript.TestScript, _ bool, args []string) {
	select {
	case <-deafAt(ts, args[0]).heard:
	case <-time.After(time.Minute):
		ts.Fatalf("nothing was sent to %s", args[0])
	}
}

// answer has a deaf broker do what it was told, and answer from now on.
func answer(ts *testscript.TestScript, _ bool, args []string) {
	d := deafAt(ts, args[0])
	d.once.Do(func() { close(d.answer) })
}
