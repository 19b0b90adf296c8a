package ingest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/embedded/clickhouse/chtest"
	"auditor/embedded/clickhouse/testserver"
	"auditor/event"
	"auditor/queries"
)

// heavyLoad fills 64 partitions with what is hard on the memory: events as workers send them, events that unpack fifty-fold,
// events of a mebibyte, long arrays, and large records that are none. It gives the number of records of each partition.
func heavyLoad(t testing.TB, c *kfake.Cluster) (records []int64) {
	t.Helper()
	const partitions = 64
	records = make([]int64, partitions)
	random := rand.New(rand.NewPCG(1, 2))
	fill := func(partition int32, codec kgo.CompressionCodec, n int, value func(i int) []byte) {
		producer := newProducer(t, c, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(60<<20), kgo.ProducerLinger(50*time.Millisecond),
			kgo.MaxBufferedRecords(n+1), kgo.BrokerMaxWriteBytes(100<<20))
		for i := range n {
			producer.Produce(t.Context(), &kgo.Record{Partition: partition, Value: value(i), Timestamp: sampleTime}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		if err := producer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		producer.Close()
		records[partition] += int64(n)
	}
	with := func(n int, attribute []byte) []byte {
		return bytes.Replace(sampleEvent(n), []byte(`{`), fmt.Appendf(nil, `{"note":"%s",`, attribute), 1)
	}
	letters := func(n int) []byte {
		text := make([]byte, n)
		for i := range text {
			text[i] = 'a' + byte(random.IntN(26))
		}
		return text
	}
	for p := range int32(partitions) {
		switch p % 8 {
		case 4:
			note := bytes.Repeat([]byte("the same again "), 800)
			fill(p, kgo.ZstdCompression(), 800, func(i int) []byte { return with(i, append(letters(200), note...)) })
		case 5:
			fill(p, kgo.NoCompression(), 9, func(i int) []byte { return with(i, letters(1<<20-1000)) })
		case 6:
			fill(p, kgo.Lz4Compression(), 3, func(i int) []byte {
				all := make([][]byte, 2000)
				for j := range all {
					all[j] = sampleEvent(2000*i + j)
				}
				return append(append([]byte("["), bytes.Join(all, []byte(","))...), ']')
			})
		case 7:
			fill(p, kgo.NoCompression(), 45, func(int) []byte { return letters(200_000) })
			fill(p, kgo.ZstdCompression(), 1, func(int) []byte { return bytes.Repeat([]byte("large "), 4<<20) })
		case 0:
			fill(p, kgo.Lz4Compression(), 500+int(p%32/8/3)*80_000, sampleEvent)
		default:
			fill(p, kgo.Lz4Compression(), 500, sampleEvent)
		}
	}
	return records
}

// TestMemoryIsBounded reads 64 partitions of heavy load at full speed, in a process of its own, into stores of every temper,
// and asks the system what most of memory that took.
func TestMemoryIsBounded(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("the system does not tell how much memory a process took")
	}
	c := newCluster(t, 64, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "104857600"}))
	records := heavyLoad(t, c)
	total := int64(0)
	for _, n := range records {
		total += n
	}
	for name, l := range map[string]load{
		"a store that keeps nothing": {Records: total},
		"a slow store":               {Records: total, Delay: 50 * time.Millisecond},
		"ClickHouse":                 {Records: total, Server: overHTTP},
		"ClickHouse, native":         {Records: total, Server: overNative},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Kafka.Brokers = c.ListenAddrs()
			cfg.Kafka.Group = strings.ReplaceAll(name, " ", "-")
			switch l.Server {
			case overHTTP:
				l.Address = chtest.Start(t).Socket()
			case overNative:
				l.Address = nativeClickHouse(t)
			}
			begin := time.Now()
			most := l.measure(t, cfg)
			t.Logf("%d records in %s, most memory %d MiB", total, time.Since(begin).Round(time.Millisecond), most>>20)
			if most > 512<<20 {
				t.Errorf("the process took %d MiB", most>>20)
			}
		})
	}
}

// load is what a child process is to read, and where to.
type load struct {
	Records int64         // when so many records are stored it is done
	Delay   time.Duration // of a store that keeps nothing
	Server  string        // empty: nothing is kept
	Address string        // of the server; the embedded engine's is a socket
}

// The servers, by their protocols: HTTP and ClickHouse's own.
const (
	overHTTP   = "embedded"
	overNative = "native"
)

// nativeClickHouse starts a server that speaks ClickHouse's own protocol, and gives its address.
func nativeClickHouse(t *testing.T) string {
	t.Helper()
	library := chtest.Library(t)
	at, err := testserver.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := testserver.Start(ctx, testserver.Config{Data: t.TempDir(), Library: library, Native: at[0], HTTP: at[1]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return at[0]
}

// loaded is printed when a load is done.
const loaded = "all is stored"

// run reads until standard input ends.
func (l *load) run(cfg Config) error {
	debug.SetMemoryLimit(cfg.MemoryLimit())
	var store Store = &nullStore{}
	if l.Server != "" {
		c, o := queries.DefaultConfig(), queries.Options{}
		c.Addresses, c.Database, c.RetentionDays = []string{l.Address}, "memory_is_bounded", 0
		if l.Server == overHTTP {
			c.Addresses = []string{"embedded:0"}
			o.DialContext = func(ctx context.Context, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", l.Address)
			}
		}
		opened, err := queries.Open(c, o)
		if err != nil {
			return err
		}
		defer opened.Close()
		if _, err := opened.Migrate(context.Background()); err != nil {
			return err
		}
		store = opened
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		return err
	}
	var stored atomic.Int64
	h := &hooked{Store: store, insert: func(ctx context.Context, b event.Batch) error {
		time.Sleep(l.Delay)
		err := store.InsertBatch(ctx, b)
		if err == nil && stored.Add(int64(b.Records)) == l.Records {
			fmt.Println(loaded)
		}
		return err
	}}
	i, err := New(cfg, h, decoder, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), newRegistry())
	if err != nil {
		return err
	}
	return i.Run(untilStdinEnds())
}

// measure runs the load in a process of its own, and gives the most memory that the process took, in bytes.
func (l *load) measure(t *testing.T, cfg Config) int64 {
	t.Helper()
	cmd, stdin := child(t, order{Config: cfg, Load: l})
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != loaded {
		t.Log(lines.Text())
	}
	most := highWater(t, cmd.Process.Pid)
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the child ended with %v", err)
	}
	return most
}

// highWater is the most memory that a process ever took, in bytes.
func highWater(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}
