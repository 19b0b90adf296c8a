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
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(1)
	}
}

// options say what a run is.
type options struct {
	auditor string // path of the program
	seed    uint64
	tasks   int
	span    time.Duration
	keep    bool // data and log, whatever the outcome
}

var errNotTrue = errors.New("what was found is not what there was to be found")

// command makes the run that the arguments ask for.
func command(ctx context.Context, args []string, w io.Writer) error {
	o := options{seed: rand.Uint64N(1_000_000)}
	flags := flag.NewFlagSet("truth", flag.ContinueOnError)
	flags.StringVar(&o.auditor, "auditor", "bin/auditor", "the `program` to try")
	flags.Func("seed", "of all that happens; by chance if not given", func(text string) error {
		_, err := fmt.Sscan(text, &o.seed)
		return err
	})
	flags.IntVar(&o.tasks, "tasks", 1_000_000, "how many tasks there are, at least")
	flags.DurationVar(&o.span, "span", 8*time.Hour, "over which they are spread, up to the present")
	flags.BoolVar(&o.keep, "keep", false, "keep data and log, whatever the outcome")
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
	r, err := measure(ctx, o, w)
	if err != nil {
		return fmt.Errorf("seed %d: %w", o.seed, err)
	}
	if err := r.printLine(w); err != nil {
		return err
	}
	if !r.perfect() {
		return errNotTrue
	}
	return nil
}

// validate says what no run can be made with.
func (o *options) validate() error {
	switch {
	case o.tasks < 5000:
		return fmt.Errorf("tasks %d: must be at least 5000", o.tasks)
	case o.span < 5*time.Hour || o.span > 16*time.Hour:
		return fmt.Errorf("span %s: must be from 5h to 16h, for troubles take hours, and the rules look back for 24", o.span)
	}
	if _, err := exec.LookPath(o.auditor); err != nil {
		return fmt.Errorf("auditor: %w", err)
	}
	return nil
}

// Time limits.
const (
	startLimit = 2 * time.Minute
	judgeLimit = time.Hour
)

// measure lets the auditor judge a stream, and compares. Where something is wrong, data and log are kept.
func measure(ctx context.Context, o options, w io.Writer) (r *report, err error) {
	begun := time.Now()
	dir, err := os.MkdirTemp("", "auditor-truth-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if o.keep || ctx.Err() == nil && (err != nil || !r.perfect()) {
			fmt.Fprintf(w, "\ndata and log are kept in %s\n", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	a, err := startAuditor(o.auditor, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	if err := a.until(ctx, "the auditor to be ready", startLimit, a.ready); err != nil {
		return nil, err
	}
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "%7.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	say("seed %d: %d tasks in %s", o.seed, o.tasks, o.span)
	s := newStream(o.seed, time.Now().Add(-o.span-margin), o.span, o.tasks)
	ends, err := produce(ctx, a.broker, s)
	if err != nil {
		return nil, err
	}
	say("sent %d events, and %d of them twice", s.events, s.twice)
	if err := a.until(ctx, "the rules to read all events", judgeLimit, a.reached(ends)); err != nil {
		return nil, err
	}
	say("the rules have read them")
	if err := a.until(ctx, "the rules to judge all that is due", judgeLimit, a.settled(time.Now())); err != nil {
		return nil, err
	}
	say("the rules have judged them")
	all, err := a.findings(ctx)
	if err != nil {
		return nil, err
	}
	r = newReport(o.seed, s, compare(&s.truth, all), len(all))
	r.Seconds = time.Since(begun).Round(100 * time.Millisecond).Seconds()
	r.events = a.events
	r.print(w)
	return r, nil
}
