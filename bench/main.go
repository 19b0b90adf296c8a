// Command bench measures how fast events get from Kafka into ClickHouse, and how many bytes they take there; as bench rules
// it measures what a look of the rules costs, with few and with many events stored (see benchRules).
//
// One run, on one machine, compares four ways of moving the same topic, in rounds in which each has its turn, so that what
// disturbs the machine disturbs all of them. What counts are the ratios of a round, and of those the median:
//
//   - fetch, and decode: ingest's own way to the records, and to the events in them, into a store that keeps nothing;
//   - insert: blocks that were encoded beforehand, sent to the tables. Nothing that reads Kafka can be faster;
//   - kafka engine: ClickHouse's own Kafka table, and a materialized view from it into the same tables;
//   - auditor: ingest and the store as the program runs them, in a process of their own, each event exactly once.
//
// The tables are those of the auditor. Each of the last three is measured with the table events and its feed changed_keys
// ("feed"), and with every table that is derived from events ("all").
//
// The statements in this package are about ClickHouse itself (its Kafka tables, its parts on disk); what the auditor asks of
// it is in queries.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"auditor/embedded/clickhouse"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is the program. A first argument that names a child makes this process that child.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case clickhouse.Subcommand:
			return clickhouse.Child(args[1:])
		case ingestSubcommand:
			return ingestChild(ctx, args[1:])
		case brokerSubcommand:
			return brokerChild(ctx, args[1:], stdout)
		}
	}
	if runtime.GOOS != "linux" {
		return errors.New("processor time and memory are read from /proc: it runs on Linux only")
	}
	if len(args) > 0 && args[0] == rulesSubcommand {
		return benchRules(ctx, args[1:], stdout, stderr)
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, stderr)
	if err != nil {
		return err
	}
	result, err := b.measure(ctx)
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	return result.print(stdout)
}

// options say how much is measured, and where.
type options struct {
	events     int
	rounds     int
	partitions int
	celery     int    // events of Celery's shape, of which only the bytes on disk are measured
	views      string // feed, all, or both
	ways       []string
	broker     string
	dir        string
	memory     int64 // what the engine may take, in bytes
	profile    string
	parse      string
	consumers  int
	blockSize  int
	streams    int
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.events, "events", 2_000_000, "events in the topic")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds in which each way has its turn")
	flags.IntVar(&o.partitions, "partitions", 4, "partitions of the topic")
	flags.IntVar(&o.celery, "celery-events", 400_000, "raw Celery events whose bytes on disk are measured; 0 leaves that out")
	flags.StringVar(&o.views, "views", "both", "which tables are filled from events: feed (changed_keys), all, or both, one after the other")
	flags.StringVar(&o.broker, "broker", "auto", "kafka (Apache Kafka, from its jars), embedded, or auto: kafka if its jars are there")
	flags.StringVar(&o.dir, "dir", "", "an empty directory for the data, which is removed at the end; a temporary one if empty")
	flags.Int64Var(&o.memory, "engine-memory", 4<<30, "what the engine may take, in bytes")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the auditor's last turn to this file")
	flags.StringVar(&o.parse, "kafka-parse", parseInView, "where ClickHouse's Kafka table has its JSON parsed: in the view behind it, or in the table")
	flags.IntVar(&o.consumers, "kafka-consumers", 2, "kafka_num_consumers of the Kafka table, each with a thread of its own")
	flags.IntVar(&o.blockSize, "kafka-block-size", 65_536, "kafka_max_block_size of the Kafka table")
	flags.IntVar(&o.streams, "insert-streams", 4, "blocks that are inserted at a time to find the ceiling")
	ways := flags.String("ways", strings.Join(allWays, ","), "the ways to measure; a ratio to one that is left out is 0")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.ways = strings.Split(*ways, ",")
	unknown := slices.DeleteFunc(slices.Clone(o.ways), func(w string) bool { return slices.Contains(allWays, w) })
	switch {
	case len(unknown) > 0:
		return o, fmt.Errorf("ways must be of %s, not %q", strings.Join(allWays, ","), unknown)
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case o.events < 1000, o.rounds < 1, o.partitions < 1, o.celery < 0, o.consumers < 1, o.blockSize < 1, o.streams < 1:
		return o, errors.New("events must be at least 1000, celery-events at least 0, and the other counts at least 1")
	case o.views != "feed" && o.views != "all" && o.views != "both":
		return o, fmt.Errorf("views must be feed, all or both, not %q", o.views)
	case o.parse != parseInView && o.parse != parseInTable:
		return o, fmt.Errorf("kafka-parse must be view or table, not %q", o.parse)
	case o.broker != "auto" && o.broker != "kafka" && o.broker != "embedded":
		return o, fmt.Errorf("broker must be auto, kafka or embedded, not %q", o.broker)
	}
	return o, nil
}
