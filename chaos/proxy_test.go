package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"auditor/embedded/kafka"
)

const patience = 30 * time.Second

// laid gives a trap that is laid.
func laid(at *traps, m mishap, matches func(string) bool) *trap {
	t := &trap{mishap: m, matches: matches, caught: make(chan catch, 1), release: make(chan struct{}), later: patience}
	at.lay(t)
	return t
}

func TestStoreProxyLetsRequestsMeetWithMishaps(t *testing.T) {
	var whole, torn atomic.Int32
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "rows" {
			torn.Add(1)
			return
		}
		whole.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	defer engine.Close()
	p, err := newStoreProxy(0, engine.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.shut()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	insert := func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/?query=INSERT+INTO+events+FORMAT+Native", strings.NewReader("rows"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return string(text), err
	}
	fails := func(what string) {
		t.Helper()
		if text, err := insert(t.Context()); err == nil {
			t.Errorf("%s: the client was told %q", what, text)
		}
	}
	passes := func(what string, applied int32) {
		t.Helper()
		if text, err := insert(t.Context()); err != nil || text != "done" {
			t.Errorf("%s: %q, %v", what, text, err)
		}
		if n := whole.Load(); n != applied {
			t.Errorf("%s: %d requests were applied, want %d", what, n, applied)
		}
	}
	passes("no trap", 1)
	laid(&p.traps, lostAnswer, insertOf("rejects"))
	passes("a trap for others", 2)
	laid(&p.traps, lostAnswer, insertOf("events"))
	fails("lost answer")
	passes("after a lost answer, which was applied", 4)

	late := laid(&p.traps, appliedLate, isInsert)
	fails("applied late")
	if n := whole.Load(); n != 4 {
		t.Errorf("applied late: %d requests were applied at once, want 4", n)
	}
	passes("sent again meanwhile", 5)
	close(late.release)
	p.late.Wait()
	passes("after it was applied late", 7)

	laid(&p.traps, cutShort, isInsert)
	fails("cut in the middle")
	eventually(t, "the engine sees half a request", func() bool { return torn.Load() == 1 })

	held := laid(&p.traps, heldUp, isInsert)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { <-held.caught; giveUp() }()
	if _, err := insert(ctx); err == nil {
		t.Error("held up: the client was answered")
	}
	close(held.release)
	p.late.Wait()
	if n := whole.Load(); n != 8 {
		t.Errorf("held up: %d requests were applied, want 8", n)
	}

	p.starve(patience)
	for range 2 {
		if text, err := insert(t.Context()); err != nil || !strings.HasPrefix(text, "Code: 241.") {
			t.Errorf("no memory: %q, %v", text, err)
		}
	}
	p.starve(0)
	passes("memory again, and one of two was applied", 10)

	p.shut()
	fails("connections refused")
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	passes("open again", 11)
}

func TestKafkaProxyLetsRequestsMeetWithMishaps(t *testing.T) {
	broker, err := kafka.Start(kafka.Config{Data: t.TempDir(), Topics: []string{topic}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Stop()
	p, err := newKafkaProxy(0, broker.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.shut()
	through, direct := newClient(t, p.addr), newClient(t, broker.Addr())
	commit := func(offset int64, metadata string) error {
		request := kmsg.NewPtrOffsetCommitRequest()
		request.Group, request.Generation = "g", -1
		rt, rp := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset, rp.Metadata = offset, &metadata
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
		request.Topics = append(request.Topics, rt)
		_, err := request.RequestWith(t.Context(), through)
		return err
	}
	committed := func() int64 {
		request := kmsg.NewPtrOffsetFetchRequest()
		request.Group = "g"
		rt := kmsg.NewOffsetFetchRequestTopic()
		rt.Topic, rt.Partitions = topic, []int32{0}
		request.Topics = append(request.Topics, rt)
		response, err := request.RequestWith(t.Context(), direct)
		if err != nil {
			t.Fatal(err)
		}
		return response.Topics[0].Partitions[0].Offset
	}
	expect := func(what string, want int64) {
		t.Helper()
		eventually(t, what, func() bool { return committed() == want })
	}
	if err := through.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatal(err) // the proxy redirects what the broker says of itself
	}
	if at := placeOf(t, through); at != p.addr {
		t.Errorf("the client reaches the broker at %s, not through %s", at, p.addr)
	}
	if err := commit(1, "v1"); err != nil {
		t.Fatal(err)
	}
	expect("committed", 1)

	lost := laid(&p.traps, lostAnswer, isCommit)
	_ = commit(2, "v1") // the client may try again by itself
	expect("applied though its answer was lost", 2)
	if c := <-lost.caught; c.request != "OffsetCommit (intent)" {
		t.Errorf("caught %q", c.request)
	}

	late := laid(&p.traps, appliedLate, func(request string) bool { return request == "OffsetCommit (confirmation)" })
	_ = commit(3, "")
	<-late.caught
	if err := commit(4, "v1"); err != nil {
		t.Fatal(err)
	}
	close(late.release)
	p.late.Wait()
	expect("the late commit came over the later one", 3)

	laid(&p.traps, cutShort, isCommit)
	_ = commit(5, "v1")
	if err := commit(6, "v1"); err != nil {
		t.Fatal(err)
	}
	expect("goes on after a request was cut", 6)

	p.shut()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := newClient(t, p.addr).Ping(ctx); err == nil {
		t.Error("a connection was accepted")
	}
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	if err := commit(7, "v1"); err != nil {
		t.Fatal(err)
	}
	expect("open again", 7)
}

func newClient(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// placeOf is where a client is told that the broker is.
func placeOf(t *testing.T, client *kgo.Client) string {
	t.Helper()
	response, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(response.Brokers[0].Host, strconv.Itoa(int(response.Brokers[0].Port)))
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
