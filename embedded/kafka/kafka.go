// Package kafka is the broker for one machine and for tests: Kafka's protocol on a real port, in this process, with its
// log on disk, so that any Kafka client can produce to it and auditor needs no server.
//
// It is franz-go's kfake, and it is no replacement for Apache Kafka: one broker, no replicas, no access control, and every
// produce waits for the disk. It listens on loopback unless told otherwise.
//
// What was acknowledged is on disk, and is there again after a restart or a kill -9. Records themselves stay on disk; what
// is held in memory is an index of about a hundred bytes for each batch that a producer sent, which is why each partition's
// log is bounded in bytes and in age.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// What a Config that does not say otherwise gets. One partition: ingest makes a block a second of each, and what ClickHouse
// spends on small blocks grows with their number.
const (
	DefaultListen         = "127.0.0.1:0"
	DefaultPartitions     = 1
	DefaultRetention      = 7 * 24 * time.Hour
	DefaultRetentionBytes = 256 << 20
)

const (
	starting       = "\n"   // in lockFile, in place of the address
	lockFile       = "lock" // in Data: locked by the broker that uses it, and holds its address until that stops
	lockTries      = 5
	lockEvery      = 10 * time.Millisecond
	segmentBytes   = 16 << 20 // a log's file; only whole files are deleted
	retentionEvery = time.Minute
)

// Config says where the broker listens and what it keeps. The zero value of every field but Data has a default.
type Config struct {
	Data           string        // directory of the log, created when missing; one broker at a time may use it
	Listen         string        // host:port, DefaultListen when empty; port 0 takes a free one
	Advertise      string        // host told to clients; needed only when Listen's host is a wildcard
	Topics         []string      // created when missing
	Partitions     int           // of each of Topics; a topic with fewer gets more, none gets fewer
	Retention      time.Duration // older records are deleted; negative keeps them
	RetentionBytes int64         // of each partition, beyond which the oldest records are deleted; negative keeps them
	Logger         *slog.Logger  // slog.Default when nil
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	groups  sessions
	lock    *os.File
	addr    string
	stop    context.CancelFunc
	begun   bool          // clients were let in
	done    chan struct{} // closed when the loop that keeps house has ended
	once    sync.Once
	err     error
}

// Start runs a broker until Stop. It returns once clients can connect and the topics are there.
func Start(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("embedded kafka: listen address %q: want host:port", cfg.Listen)
	}
	if ip := net.ParseIP(host); cfg.Advertise == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return nil, fmt.Errorf("embedded kafka: listen address %q: clients can't be told a wildcard, set the host to advertise", cfg.Listen)
	}
	lock, killed, err := lockDir(cfg.Data)
	if err != nil {
		return nil, err
	}
	var door *gate
	cluster, err := kfake.NewCluster(cfg.options(func(l net.Listener) net.Listener {
		door = newGate(l)
		return door
	})...)
	if err != nil {
		lock.Close()
		return nil, startError(cfg, err)
	}
	b := &Broker{cluster: cluster, lock: lock, addr: cluster.ListenAddrs()[0], done: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.groups.watch(cluster)
	go b.keepHouse(ctx, cfg.Logger)
	if killed {
		if err := endTransactions(ctx, cluster, door); err != nil {
			return nil, errors.Join(err, b.Stop())
		}
	}
	door.open()
	b.begun = true
	if err := ensureTopics(ctx, cluster, b.addr, cfg); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	if err := note(lock, b.addr); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	cfg.Logger.Info("embedded kafka started", "addr", b.addr, "data", cfg.Data)
	return b, nil
}

// Addr is the host:port that clients connect to.
func (b *Broker) Addr() string { return b.addr }

// Stop closes the port and the connections, and writes what a quick restart needs. A second call does nothing.
func (b *Broker) Stop() error {
	b.once.Do(func() {
		b.stop()
		<-b.done // before Close: the cluster answers nobody afterwards
		b.cluster.Close()
		if b.begun {
			b.err = b.lock.Truncate(0)
		}
		b.err = errors.Join(b.err, b.lock.Close())
	})
	return b.err
}

// keepHouse deletes what is older or more than the configuration keeps, which the broker itself does only for topics that
// were configured one by one, and ends the sessions of group members that are gone.
func (b *Broker) keepHouse(ctx context.Context, log *slog.Logger) {
	defer close(b.done)
	retention, session := time.NewTicker(retentionEvery), time.NewTicker(sessionsEvery)
	defer retention.Stop()
	defer session.Stop()
	b.cluster.ApplyRetention()
	for {
		select {
		case <-ctx.Done():
			return
		case <-retention.C:
			b.cluster.ApplyRetention()
		case <-session.C:
			if err := b.groups.end(ctx, b.cluster, b.addr); err != nil && ctx.Err() == nil {
				log.Warn("embedded kafka", "error", err)
			}
		}
	}
}

func (cfg Config) withDefaults() Config {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.Partitions == 0 {
		cfg.Partitions = DefaultPartitions
	}
	if cfg.Retention == 0 {
		cfg.Retention = DefaultRetention
	}
	if cfg.RetentionBytes == 0 {
		cfg.RetentionBytes = DefaultRetentionBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg
}

func (cfg Config) options(within func(net.Listener) net.Listener) []kfake.Opt {
	return []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ClusterID("auditor-embedded"),
		kfake.DataDir(cfg.Data),
		kfake.SyncWrites(),
		kfake.WithLogger(brokerLog{cfg.Logger}),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			l, err := listen(network, cfg.Listen, cfg.Advertise)
			if err != nil {
				return nil, err
			}
			return within(l), nil
		}),
		kfake.BrokerConfigs(map[string]string{
			"log.retention.ms":    strconv.FormatInt(retentionMillis(cfg.Retention), 10),
			"log.retention.bytes": strconv.FormatInt(max(cfg.RetentionBytes, -1), 10),
			"log.segment.bytes":   strconv.Itoa(segmentBytes),
			// The offsets of a group that was away for long are worth more than the few bytes that they take.
			"offsets.retention.minutes": strconv.Itoa(365 * 24 * 60),
		}),
	}
}

func retentionMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return max(d.Milliseconds(), 1)
}

// listener tells clients another host than the one it is bound to.
type listener struct {
	net.Listener
	host string
}

func listen(network, address, advertise string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil || advertise == "" {
		return l, err
	}
	return listener{l, advertise}, nil
}

func (l listener) Addr() net.Addr {
	_, port, _ := net.SplitHostPort(l.Listener.Addr().String())
	return hostPort(net.JoinHostPort(l.host, port))
}

type hostPort string

func (hostPort) Network() string  { return "tcp" }
func (a hostPort) String() string { return string(a) }

func startError(cfg Config, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("embedded kafka: %s is in use by another program: stop it, or choose another port", cfg.Listen)
	}
	return fmt.Errorf("embedded kafka: start: %w", err)
}

// note writes what Attach reads, and is there until the broker stops.
func note(lock *os.File, text string) error {
	n, err := lock.WriteAt([]byte(text), 0)
	if err == nil {
		err = lock.Truncate(int64(n))
	}
	if err != nil {
		return fmt.Errorf("embedded kafka: data directory: %w", err)
	}
	return nil
}

// lockDir makes dir and takes it for this process, and reports whether the broker before was killed. The lock goes with the
// process, however it ends.
func lockDir(dir string) (f *os.File, killed bool, err error) {
	if dir == "" {
		return nil, false, errors.New("embedded kafka: no data directory")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, fmt.Errorf("embedded kafka: data directory: %w", err)
	}
	f, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("embedded kafka: data directory: %w", err)
	}
	for try := 0; ; try++ {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil || try == lockTries {
			break
		}
		time.Sleep(lockEvery) // Attach has it for a moment
	}
	if err != nil {
		f.Close()
		return nil, false, fmt.Errorf("embedded kafka: %s is in use by another auditor", dir)
	}
	before, err := f.Stat()
	if err == nil {
		err = note(f, starting)
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	return f, before.Size() > 0, nil
}

// brokerLog passes on what the broker warns of. Its requests are of no interest.
type brokerLog struct{ *slog.Logger }

func (l brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.Error("embedded kafka", "detail", fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.Warn("embedded kafka", "detail", fmt.Sprintf(format, args...))
	}
}
