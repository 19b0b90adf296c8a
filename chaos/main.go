package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == brokerCommand {
		fmt.Fprintln(os.Stderr, runBroker(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errNotClean = errors.New("not clean")

// command makes the trials that the arguments ask for.
func command(ctx context.Context, args []string, getenv func(string) string, w io.Writer) error {
	var o options
	var seeds string
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.StringVar(&o.auditor, "auditor", "bin/auditor", "the `program` to try")
	flags.StringVar(&o.broker, "broker", "embedded", "embedded, or kafka for Apache Kafka")
	flags.StringVar(&seeds, "seeds", "", "`seed` of what happens, or a range of them such as 1..20; by chance if empty")
	flags.IntVar(&o.events, "events", 400_000, "how many events are sent, at least")
	flags.DurationVar(&o.length, "length", 55*time.Second, "over which they are sent")
	flags.BoolVar(&o.short, "short", false, "only a few faults")
	flags.BoolVar(&o.keep, "keep", false, "keep data and logs, whatever the outcome")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if err := o.validate(); err != nil {
		return err
	}
	o.strict = getenv("AUDITOR_REQUIRE") == "all"
	first, last, err := parseSeeds(seeds)
	if err != nil {
		return err
	}
	var reports []*report
	for o.seed = first; ; o.seed++ {
		r, err := run(ctx, o, w)
		if ctx.Err() != nil {
			return fmt.Errorf("seed %d: %w", o.seed, ctx.Err())
		}
		if err != nil { // a trial that could not be made to its end proves nothing
			r = &report{Seed: o.seed, Broker: o.broker, Problems: 1, problems: []string{err.Error()}}
		}
		if err := r.print(w); err != nil {
			return err
		}
		if reports = append(reports, r); o.seed == last {
			break
		}
	}
	if first != last {
		printSeries(w, reports)
	}
	notClean := slices.DeleteFunc(slices.Clone(reports), func(r *report) bool { return r.Clean })
	if len(notClean) > 0 {
		return fmt.Errorf("%w: %d of %d trials", errNotClean, len(notClean), len(reports))
	}
	return nil
}

// validate says what no trial can be made with.
func (o *options) validate() error {
	switch {
	case o.broker != "embedded" && o.broker != "kafka":
		return fmt.Errorf("broker %q: must be embedded or kafka", o.broker)
	case o.events < 1000:
		return fmt.Errorf("events %d: must be at least 1000", o.events)
	case o.length < 5*time.Second || o.length > time.Hour:
		return fmt.Errorf("length %s: must be from 5s to 1h", o.length)
	}
	if _, err := exec.LookPath(o.auditor); err != nil {
		return fmt.Errorf("auditor: %w", err)
	}
	return nil
}

// parseSeeds reads a seed, or a range of seeds.
func parseSeeds(text string) (first, last uint64, err error) {
	if text == "" {
		n := rand.Uint64N(1_000_000)
		return n, n, nil
	}
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	first, err = strconv.ParseUint(from, 10, 64)
	if err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || last < first {
		return 0, 0, fmt.Errorf("seeds %q: must be a number, or a range such as 1..20", text)
	}
	return first, last, nil
}
