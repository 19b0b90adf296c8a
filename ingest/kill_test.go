package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/event"
)

// childEnv makes the test binary an ingest process; it holds an order in JSON.
const childEnv = "AUDITOR_INGEST_CHILD"

// order is what a child process is to do.
type order struct {
	Config Config
	Socket string // of the store

	Load *load // instead: read events into a store of the child's own
}

// runChild ingests until standard input ends, or until it is killed.
func runChild(text string) int {
	err := func() error {
		var o order
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		if o.Load != nil {
			return o.Load.run(o.Config)
		}
		store, err := rpc.Dial("unix", o.Socket)
		if err != nil {
			return err
		}
		i, err := New(o.Config, remoteStore{store}, letters{}, slog.New(slog.NewTextHandler(os.Stderr, nil)), newRegistry())
		if err != nil {
			return err
		}
		return i.Run(untilStdinEnds())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// untilStdinEnds gives a context that ends with standard input, which ends one way or another.
func untilStdinEnds() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// remoteStore is the parent's store as a child reaches it.
type remoteStore struct{ *rpc.Client }

// Range is the argument of Present and Newest.
type Range struct {
	Topic       string
	Partition   int32
	First, Last int64
}

// Found is the answer to Newest.
type Found struct {
	event.Covered
	Known bool
}

func (r remoteStore) InsertBatch(_ context.Context, b event.Batch) error {
	return r.Call("Store.InsertBatch", b, &struct{}{})
}

func (r remoteStore) Present(_ context.Context, topic string, partition int32, first, last int64) (stored event.Stored, err error) {
	return stored, r.Call("Store.Present", Range{topic, partition, first, last}, &stored)
}

func (r remoteStore) Newest(_ context.Context, topic string, partition int32) (event.Covered, bool, error) {
	var found Found
	err := r.Call("Store.Newest", Range{Topic: topic, Partition: partition}, &found)
	return found.Covered, found.Known, err
}

// served is the parent's store as it is offered to the children.
type served struct{ Store }

// InsertBatch is offered to the children.
func (s served) InsertBatch(b event.Batch, _ *struct{}) error {
	return s.Store.InsertBatch(context.Background(), b)
}

// Present is offered to the children.
func (s served) Present(r Range, stored *event.Stored) (err error) {
	*stored, err = s.Store.Present(context.Background(), r.Topic, r.Partition, r.First, r.Last)
	return err
}

// Newest is offered to the children.
func (s served) Newest(r Range, found *Found) (err error) {
	found.Covered, found.Known, err = s.Store.Newest(context.Background(), r.Topic, r.Partition)
	return err
}

// serveStore offers a store on a socket.
func serveStore(t *testing.T, s Store) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "store")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server := rpc.NewServer()
	if err := server.RegisterName("Store", served{s}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go server.ServeConn(conn)
		}
	}()
	return socket
}

// child prepares an ingest process. It ends as by SIGTERM when its standard input is closed.
func child(t *testing.T, o order) (cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = t.Output()
	if stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdin
}

// spawn runs an ingest process. The function that it gives ends it as SIGTERM does.
func spawn(t *testing.T, o order) (*exec.Cmd, func()) {
	t.Helper()
	cmd, stdin := child(t, o)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child ended with %v", err)
		}
	}
}

// TestKill9 kills real processes at each kind of moment: before an insert, in the middle of it, after it and before the
// answer, at a commit that is not applied and at one that is.
func TestKill9(t *testing.T) {
	const kills = 15
	c := newCluster(t, 2)
	producer := newProducer(t, c)
	values := []string{"e", "ex", "x", "eee"}
	want := make(map[int32]map[int64]string)
	for partition := range int32(2) {
		var all []string
		for range 100 {
			all = append(all, values...)
		}
		produce(t, producer, partition, all...)
		want[partition] = numbered(0, all...)
	}
	s := newMemoryStore()
	moments := make(chan chan struct{}) // a child is where it is to be killed; closing the channel lets the call go on
	var armed atomic.Bool               // the next moment that comes is one
	var inserts, commits atomic.Int32
	die := func() {
		dead := make(chan struct{})
		moments <- dead
		<-dead
	}
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		n := inserts.Add(1)
		if n%3 != 0 || !armed.CompareAndSwap(true, false) {
			return s.InsertBatch(ctx, b)
		}
		s.mu.Lock()
		writes := s.parts(b)
		for _, write := range writes[:int(n/3)%(len(writes)+1)] {
			write()
		}
		s.mu.Unlock()
		die()
		return errDead
	}}
	c.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n := commits.Add(1)
		if n%7 != 0 || !armed.CompareAndSwap(true, false) {
			return nil, nil, false
		}
		die()
		if n%2 == 0 {
			return nil, errDead, true
		}
		return nil, nil, false
	})
	cfg := testConfig(c)
	cfg.MaxRows = 10
	o := order{Config: cfg, Socket: serveStore(t, h)}
	for range kills {
		armed.Store(true)
		cmd, _ := spawn(t, o)
		dead := <-moments
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Fatalf("a killed process ended with %v", err)
		}
		close(dead)
		leave(t, c, "auditor")
	}
	_, end := spawn(t, o)
	eventually(t, "all is read", func() bool { return s.covers() == int64(total(want)) })
	end()
	checkExact(t, s, want)
	for partition := range int32(2) {
		checkLedger(t, s, partition, 400)
	}
	t.Logf("%d inserts and %d commits with %d kills", inserts.Load(), commits.Load(), kills)
}
