package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"
)

const topic = "task-events"

// childEnv makes the test binary a broker for the data directory that it names.
const childEnv = "AUDITOR_TEST_BROKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(serve(dir))
	}
	goleak.VerifyTestMain(m)
}

// serve runs a broker until standard input ends, or the process is killed.
func serve(dir string) int {
	b, err := Start(Config{Data: dir, Topics: []string{topic}, Partitions: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(b.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := b.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a broker in a process of its own.
type child struct {
	*exec.Cmd
	addr string
}

func startChild(t *testing.T, dir string) child {
	t.Helper()
	c := child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+dir)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = c.Wait() // it may have been killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c.addr = strings.TrimSpace(line)
	return c
}

func startBroker(t *testing.T, cfg Config) *Broker {
	t.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	b, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(t *testing.T, addr string, values ...string) {
	t.Helper()
	c := newClient(t, addr, kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer c.Close()
	for _, v := range values {
		if err := c.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// consume reads n records from the beginning, of any partition.
func consume(t *testing.T, addr string, n int, opts ...kgo.Opt) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := newClient(t, addr, append([]kgo.Opt{kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}, opts...)...)
	defer c.Close()
	seen := make(map[string]int)
	for got := 0; got < n; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", got, n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen[string(r.Value)]++
			got++
		})
	}
	return seen
}

func numbered(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint("event ", i)
	}
	return values
}

func checkAll(t *testing.T, seen map[string]int, want []string) {
	t.Helper()
	for _, v := range want {
		if seen[v] != 1 {
			t.Errorf("%q was read %d times", v, seen[v])
		}
	}
}

func TestKeepsRecordsOverARestart(t *testing.T) {
	cfg := Config{Data: t.TempDir(), Topics: []string{topic}, Partitions: 2}
	first := startBroker(t, cfg)
	values := numbered(20)
	produce(t, first.Addr(), values[:10]...)
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
	cfg.Partitions, cfg.Topics = 3, []string{topic, "another"}
	second := startBroker(t, cfg)
	produce(t, second.Addr(), values[10:]...)
	checkAll(t, consume(t, second.Addr(), 20), values)
	for name, want := range map[string]int{topic: 3, "another": 3} {
		if got := len(second.cluster.PartitionInfos(name)); got != want {
			t.Errorf("topic %s has %d partitions, want %d", name, got, want)
		}
	}
}

func TestSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	values := numbered(100)
	for i := range 4 {
		c := startChild(t, dir)
		produce(t, c.addr, values[i*25:(i+1)*25]...)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
	}
	b := startBroker(t, Config{Data: dir})
	checkAll(t, consume(t, b.Addr(), 100), values)
}

// TestKeepsGroupsOverAKill commits an offset with metadata, as ingest does for each batch.
func TestKeepsGroupsOverAKill(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir)
	produce(t, c.addr, numbered(5)...)
	commit(t, c.addr, 3, "v1;last=4;rows=2")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	b := startBroker(t, Config{Data: dir})
	kept := b.cluster.GroupInfo("auditor").Commits[topic][0]
	if kept.Offset != 3 || kept.Metadata != "v1;last=4;rows=2" {
		t.Errorf("the group's offset is %d with %q", kept.Offset, kept.Metadata)
	}
}

func commit(t *testing.T, addr string, offset int64, metadata string) {
	t.Helper()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = offset, &metadata
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = "auditor", -1, append(req.Topics, rt)
	c := newClient(t, addr, kgo.MaxVersions(kversion.V3_0_0())) // which names topics in commits
	defer c.Close()
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("commit: error %d", code)
	}
}

func TestAttach(t *testing.T) {
	dir := t.TempDir()
	attached := func() string {
		addr, ok := Attach(dir)
		if ok != (addr != "") {
			t.Errorf("the address is %q, and there is one: %v", addr, ok)
		}
		return addr
	}
	if addr := attached(); addr != "" {
		t.Errorf("an empty directory has a broker at %s", addr)
	}
	for range 2 { // the second has another port
		b, err := Start(Config{Data: dir, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if addr := attached(); addr != b.Addr() {
			t.Errorf("the address is %q, not %q", addr, b.Addr())
		}
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		if addr := attached(); addr != "" {
			t.Errorf("a broker that was stopped is at %s", addr)
		}
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	running := startBroker(t, Config{Data: t.TempDir()})
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cfg  Config
		want string
	}{
		"port in use":         {Config{Data: t.TempDir(), Listen: taken.Addr().String()}, taken.Addr().String() + " is in use by another program"},
		"directory in use":    {Config{Data: running.lock.Name()[:len(running.lock.Name())-len("/lock")]}, "is in use by another auditor"},
		"no directory":        {Config{}, "no data directory"},
		"not a directory":     {Config{Data: file}, "data directory"},
		"no port":             {Config{Data: t.TempDir(), Listen: "localhost"}, "want host:port"},
		"wildcard":            {Config{Data: t.TempDir(), Listen: ":0"}, "set the host to advertise"},
		"impossible topic":    {Config{Data: t.TempDir(), Topics: []string{"a.b", "a_b"}}, `create topic "a_b"`},
		"wildcard in numbers": {Config{Data: t.TempDir(), Listen: "0.0.0.0:0"}, "set the host to advertise"},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Logger = slog.New(slog.DiscardHandler)
			b, err := Start(test.cfg)
			if err == nil {
				_ = b.Stop()
				t.Fatal("it started")
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
				t.Errorf("the error is %q, want one line with %q", text, test.want)
			}
		})
	}
}

func TestAdvertises(t *testing.T) {
	b := startBroker(t, Config{Data: t.TempDir(), Listen: ":0", Advertise: "localhost", Topics: []string{topic}, Partitions: 1})
	host, _, err := net.SplitHostPort(b.Addr())
	if err != nil || host != "localhost" {
		t.Fatalf("the address is %q", b.Addr())
	}
	produce(t, b.Addr(), "e")
	checkAll(t, consume(t, b.Addr(), 1), []string{"e"})
}

func TestListensOnLoopbackAlone(t *testing.T) {
	b := startBroker(t, Config{Data: t.TempDir()})
	host, _, err := net.SplitHostPort(b.Addr())
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("the address is %q", b.Addr())
	}
}

func TestRetention(t *testing.T) {
	b := startBroker(t, Config{Data: t.TempDir(), Topics: []string{topic}, Partitions: 1, RetentionBytes: 10_000})
	produce(t, b.Addr(), strings.Repeat("x", 6000), strings.Repeat("y", 6000), strings.Repeat("z", 6000))
	b.cluster.ApplyRetention()
	if info := b.cluster.PartitionInfo(topic, 0); info.LogStartOffset != 2 || info.HighWatermark != 3 {
		t.Errorf("the log goes from %d to %d, want 2 to 3", info.LogStartOffset, info.HighWatermark)
	}
}

// TestMemory produces 200 MB and looks at how much of it stays in memory.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 200 MB")
	}
	c := startChild(t, t.TempDir())
	before := resident(t, c.Process.Pid)
	p := newClient(t, c.addr, kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := []byte(strings.Repeat("x", 1000))
	for range 200_000 {
		p.Produce(t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := resident(t, c.Process.Pid)
	t.Logf("resident: %d MiB before, %d MiB after 200 MB", before>>20, after>>20)
	if after > 160<<20 {
		t.Errorf("the broker takes %d MiB after 200 MB were produced", after>>20)
	}
}

// resident gives the memory of a process, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Skipf("the memory of a process is read from /proc: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
