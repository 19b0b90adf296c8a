package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/embedded/kafka"
	"auditor/event"
	"auditor/ingest"
	"auditor/queries"
)

// The children: this program, started again with one of these as the first argument.
const (
	ingestSubcommand = "ingest"
	brokerSubcommand = "broker"
)

// child is a process that runs until it is stopped. It ends with this process too, for it watches its standard input.
type child struct {
	command *exec.Cmd
	output  *bufio.Reader
}

func startChild(stderr io.Writer, args ...string) (*child, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	command := exec.Command(executable, args...)
	command.Stderr = stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if _, err := command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	return &child{command, bufio.NewReader(output)}, nil
}

func (c *child) pid() int { return c.command.Process.Pid }

// line waits for the child's next line.
func (c *child) line() (string, error) {
	text, err := c.output.ReadString('\n')
	if err != nil {
		return "", errors.Join(fmt.Errorf("a child ended: %w", err), c.stop())
	}
	return strings.TrimSpace(text), nil
}

func (c *child) stop() error {
	_ = c.command.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(30*time.Second, func() { _ = c.command.Process.Kill() })
	defer late.Stop()
	return c.command.Wait()
}

// untilStopped gives a context that ends with SIGTERM, or with the process that holds the standard input open.
func untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx, cancel
}

// brokerChild runs the embedded broker. It prints its address once it answers.
func brokerChild(ctx context.Context, args []string, stdout io.Writer) error {
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	flags := flag.NewFlagSet(brokerSubcommand, flag.ContinueOnError)
	data := flags.String("data", "", "directory of the log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	broker, err := kafka.Start(kafka.Config{Data: *data, Retention: -1, RetentionBytes: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, broker.Addr())
	<-ctx.Done()
	return broker.Stop()
}

// ingestChild ingests a topic until it is stopped: into ClickHouse, or into a store that keeps nothing and prints a line
// when it has had as many events as it was told.
func ingestChild(ctx context.Context, args []string) (err error) {
	ctx, cancel := untilStopped(ctx)
	defer cancel()
	flags := flag.NewFlagSet(ingestSubcommand, flag.ContinueOnError)
	config := ingest.DefaultConfig()
	broker := flags.String("broker", "", "address of the broker")
	topic := flags.String("topic", "", "topic to read")
	socket := flags.String("socket", "", "the engine's socket; without one nothing is kept")
	database := flags.String("database", "", "database to fill")
	decode := flags.Bool("decode", true, "read the events in the records")
	events := flags.Int64("events", 0, "events after which a store that keeps nothing has had them all")
	profile := flags.String("profile", "", "write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config.Kafka.Brokers, config.Kafka.Topics = []string{*broker}, []string{*topic}
	config.Kafka.Group = *topic + "-" + *database
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	debug.SetMemoryLimit(config.MemoryLimit())
	var store ingest.Store = &nowhere{wanted: *events}
	if *socket != "" {
		opened, err := openStore(*socket, *database)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, opened.Close()) }()
		store = opened
	}
	var decoder ingest.Decoder = undecoded{}
	if *decode {
		if decoder, err = event.NewDecoder(decoderConfig()); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ingester, err := ingest.New(config, store, decoder, log, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := ingester.Run(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// openStore opens the database in the engine behind a socket.
func openStore(socket, database string) (*queries.Store, error) {
	config := queries.DefaultConfig()
	config.Database = database
	return queries.Open(config, queries.Options{DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
}

// nowhere is a store that keeps nothing.
type nowhere struct {
	had    atomic.Int64
	wanted int64
}

func (n *nowhere) InsertBatch(_ context.Context, b event.Batch) error {
	if rows := int64(b.Records); n.had.Add(rows) >= n.wanted && n.had.Load()-rows < n.wanted {
		fmt.Println("all")
	}
	return nil
}

func (*nowhere) Present(context.Context, string, int32, int64, int64) (event.Stored, error) {
	return event.Stored{}, nil
}

func (*nowhere) Newest(context.Context, string, int32) (event.Covered, bool, error) {
	return event.Covered{}, false, nil
}

// undecoded leaves records unread: each gives one event that tells nothing but its place.
type undecoded struct{}

func (undecoded) Decode(r event.Record) ([]event.Event, []event.Reject) {
	return []event.Event{{Position: r.Position, KafkaTime: r.Time}}, nil
}
