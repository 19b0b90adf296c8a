package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
	"auditor/queries"
	"auditor/rules"
)

const (
	rulesSubcommand = "rules"
	rulesDatabase   = "rules"
	newTopic        = "task-events"
)

// rulesOptions say how much is stored, and how much is new.
type rulesOptions struct {
	options
	small, large int     // events stored
	fresh        int     // new events that a tick looks at
	ticks        int     // that are measured at each size
	known        float64 // share of the new tasks whose key has a past
	explain      bool
}

func parseRules(args []string, stderr io.Writer) (rulesOptions, error) {
	o := rulesOptions{options: options{partitions: 4, broker: "embedded"}}
	flags := flag.NewFlagSet("bench rules", flag.ContinueOnError)
	flags.SetOutput(stderr)
	small := flags.Float64("small", 10e6, "events stored at first")
	large := flags.Float64("large", 100e6, "events stored in the end")
	fresh := flags.Float64("new", 50e3, "new events that a tick looks at")
	flags.IntVar(&o.ticks, "ticks", 10, "ticks that are measured at each size, behind one that is not")
	flags.Float64Var(&o.known, "known", 0.1, "share of the new tasks that work for a business key of a task stored long before")
	flags.BoolVar(&o.explain, "explain", false, "tell what each statement of one more tick reads")
	flags.StringVar(&o.dir, "dir", "", "an empty directory for the data, which is removed at the end; a temporary one if empty")
	flags.Int64Var(&o.memory, "engine-memory", 4<<30, "what the engine may take, in bytes")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	whole := func(x float64) int { return int(math.Ceil(x/pastBlock)) * pastBlock }
	o.small, o.large, o.fresh = whole(*small), whole(*large), int(*fresh)
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", flags.Arg(0))
	case !(*small >= pastBlock), !(*large <= 1e9), o.large <= o.small:
		return o, fmt.Errorf("small must be at least %d, and large more than it by as much at least, up to 1e9", pastBlock)
	case !(*fresh >= 1000 && *fresh <= 1e6), o.ticks < 1:
		return o, errors.New("new must be 1e3 to 1e6, and ticks at least 1")
	case !(o.known >= 0 && o.known <= 1):
		return o, errors.New("known must be 0 to 1")
	}
	return o, nil
}

// benchRules measures what a tick of the rules costs with few and with many events stored.
func benchRules(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseRules(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o.options, stderr)
	if err != nil {
		return err
	}
	r := &rulesBench{bench: b, options: o, again: map[string]bool{}}
	result, err := r.measure(ctx)
	if err := errors.Join(err, b.close()); err != nil {
		return err
	}
	return result.print(stdout)
}

// rulesBench is what a benchmark of the rules works with.
type rulesBench struct {
	*bench
	options  rulesOptions
	store    *queries.Store
	producer *kgo.Client
	ingester *child
	shape    *mixed
	begin    time.Time // of the past
	produced int
	again    map[string]bool // keys of the past that came again
}

func (r *rulesBench) measure(ctx context.Context) (result *rulesResult, err error) {
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.shut())
	}
	defer func() { err = errors.Join(err, r.shut()) }()
	result = &rulesResult{options: r.options}
	filled := 0
	for i, size := range []int{r.options.small, r.options.large} {
		begun := time.Now()
		if err := r.fill(ctx, rulesDatabase, r.begin, filled, size); err != nil {
			return nil, err
		}
		filled = size
		if err := r.quiet(ctx); err != nil {
			return nil, err
		}
		r.say("%d events stored after %s", size, time.Since(begun).Round(time.Second))
		if result.sizes[i], err = r.at(ctx, i, size); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// open makes the tables, the topic, and what reads it.
func (r *rulesBench) open(ctx context.Context) (err error) {
	r.begin = pastBegin(time.Now())
	if r.store, err = openStore(r.engine.Socket(), rulesDatabase); err != nil {
		return err
	}
	if _, err = r.store.Migrate(ctx); err != nil {
		return err
	}
	if r.producer, err = newProducer(r.broker.address, newTopic); err != nil {
		return err
	}
	if err := createTopic(ctx, r.producer, newTopic, r.options.partitions); err != nil {
		return err
	}
	r.ingester, err = startChild(r.stderr, ingestSubcommand, "--broker", r.broker.address, "--topic", newTopic,
		"--database", rulesDatabase, "--socket", r.engine.Socket())
	return err
}

func (r *rulesBench) shut() error {
	var errs []error
	if r.ingester != nil {
		errs = append(errs, r.ingester.stop())
	}
	if r.producer != nil {
		r.producer.Close()
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}

// at measures ticks over new events, each over others of the same kind, with size events stored.
func (r *rulesBench) at(ctx context.Context, phase, size int) (s sized, err error) {
	s.events = size
	r.shape = newMixed(byte(1+phase), r.begin.Add(time.Duration(size)*pastInterval), r.options.large+phase*r.options.large, r.options.known)
	r.shape.past = size / 4
	past := event.Cursor{}
	for p := range int32(pastPartitions) {
		past[event.PartitionID{Topic: pastTopic, Partition: p}] = int64(size / pastPartitions)
	}
	if err := r.store.SaveCursor(ctx, "rules", past); err != nil {
		return s, err
	}
	begun := time.Now()
	engine, err := rules.New(rules.DefaultConfig(), r.store, slog.New(slog.NewTextHandler(os.Stderr, nil)), prometheus.NewRegistry())
	if err != nil {
		return s, err
	}
	if _, err := engine.Look(ctx, r.shape.now); err != nil {
		return s, err
	}
	s.start = time.Since(begun)
	if err := r.settleIn(ctx, engine); err != nil {
		return s, err
	}
	for i := range r.options.ticks + 1 {
		t, err := r.tick(ctx, engine)
		if err != nil {
			return s, err
		}
		r.say("%d events stored: tick %d: %4.0f ms, %.2f s of processor; to ingest them took %.2f s; %d rows read", size, i,
			t.wall.Seconds()*1000, t.cpu().Seconds(), t.ingest.Seconds(), t.rows)
		if i > 0 { // the first warms up
			s.ticks = append(s.ticks, t)
		}
	}
	if r.options.explain {
		if s.statements, err = r.explain(ctx); err != nil {
			return s, err
		}
	}
	if err := r.checkPast(ctx, size); err != nil {
		return s, err
	}
	if err := r.end(ctx, engine); err != nil {
		return s, err
	}
	s.parts, err = r.number(ctx, "SELECT count() FROM system.parts WHERE database = currentDatabase() AND table = 'events' AND active")
	return s, err
}

// checkPast fails unless the past is there, and the keys of it that came again are those that were meant to.
func (r *rulesBench) checkPast(ctx context.Context, size int) error {
	stored, err := r.number(ctx, "SELECT count() FROM changed_keys WHERE kafka_topic = '"+pastTopic+"'")
	if err != nil {
		return err
	}
	again, err := r.number(ctx, "SELECT uniqExact(business_key) FROM events WHERE kafka_topic = '"+pastTopic+"' AND key_hash IN "+
		"(SELECT key_hash FROM events WHERE kafka_topic = '"+newTopic+"')")
	maps.Copy(r.again, r.shape.used)
	if err == nil && (stored != size || again != len(r.again)) {
		return fmt.Errorf("%d events of the past are stored, not %d; %d of its keys came again, not %d", stored, size, again, len(r.again))
	}
	return err
}

// tick has new events ingested, and then has the rules look at them.
func (r *rulesBench) tick(ctx context.Context, engine *rules.Engine) (t tick, err error) {
	if t.ingest, err = r.ingest(ctx, r.options.fresh); err != nil {
		return t, err
	}
	t.keys = r.shape.counts
	rowsBefore, err := r.rowsRead(ctx)
	if err != nil {
		return t, err
	}
	before, err := r.times()
	if err != nil {
		return t, err
	}
	begun := time.Now()
	for more := true; more; {
		if more, err = engine.Look(ctx, r.shape.now.Add(time.Second)); err != nil {
			return t, err
		}
	}
	t.wall = time.Since(begun)
	rowsAfter, err := r.rowsRead(ctx)
	if err != nil {
		return t, err
	}
	t.rows = rowsAfter - rowsBefore
	if err := r.quiet(ctx); err != nil { // what was written is merged
		return t, err
	}
	after, err := r.times()
	t.engine, t.auditor = after.engine-before.engine, after.self-before.self
	r.shape.now = r.shape.now.Add(rules.DefaultConfig().Interval)
	return t, err
}

// settleIn has an engine look at a few new events again and again, as long as it is still learning what there is: its first looks
// after a start cost more.
func (r *rulesBench) settleIn(ctx context.Context, engine *rules.Engine) error {
	const looks = 20
	for range looks {
		if err := r.sendAndStore(ctx, 100); err != nil {
			return err
		}
		if _, err := engine.Look(ctx, r.shape.now.Add(time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// end has the tasks end that are under way, so that none is left to be found stuck.
func (r *rulesBench) end(ctx context.Context, engine *rules.Engine) error {
	if _, err := r.ingest(ctx, r.shape.left()); err != nil {
		return err
	}
	for more := true; more; {
		var err error
		if more, err = engine.Look(ctx, r.shape.now.Add(time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// ingest sends new events, waits until all of them are stored and merged, and tells what processor time that took the
// ingester and the engine.
func (r *rulesBench) ingest(ctx context.Context, events int) (time.Duration, error) {
	before, err := r.times()
	if err != nil {
		return 0, err
	}
	if err := r.sendAndStore(ctx, events); err != nil {
		return 0, err
	}
	if err := r.quiet(ctx); err != nil {
		return 0, err
	}
	after, err := r.times()
	return after.engine - before.engine + after.ingester - before.ingester, err
}

// sendAndStore sends new events, and waits until all of them are stored.
func (r *rulesBench) sendAndStore(ctx context.Context, events int) error {
	r.shape.count()
	if _, err := send(ctx, r.producer, events, r.shape); err != nil {
		return err
	}
	r.produced += events
	for begun := time.Now(); ; {
		confirmed, err := r.store.Confirmed(ctx)
		if err != nil {
			return err
		}
		stored := 0
		for of, next := range confirmed {
			if of.Topic == newTopic {
				stored += int(next)
			}
		}
		if stored >= r.produced {
			return nil
		}
		if time.Since(begun) > 2*time.Minute {
			return fmt.Errorf("%d of %d events came, and no more", stored, r.produced)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// quiet waits until the engine merges nothing.
func (r *rulesBench) quiet(ctx context.Context) error {
	for calm := 0; calm < 3; {
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		merges, err := r.number(ctx, "SELECT count() FROM system.merges")
		if err != nil {
			return err
		}
		if calm++; merges > 0 {
			calm = 0
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// times is how long processes have worked.
type times struct{ engine, ingester, self time.Duration }

func (r *rulesBench) times() (t times, err error) {
	var err1, err2, err3 error
	t.engine, err1 = cpuTime(r.engine.PID())
	t.ingester, err2 = cpuTime(r.ingester.pid())
	t.self, err3 = cpuTime(os.Getpid())
	return t, errors.Join(err1, err2, err3)
}

// rowsRead is how many rows the engine has read for statements so far.
func (r *rulesBench) rowsRead(ctx context.Context) (int, error) {
	return r.number(ctx, "SELECT sum(value) FROM system.events WHERE event = 'SelectedRows'")
}

func (r *rulesBench) number(ctx context.Context, sql string) (n int, err error) {
	rows, err := r.engine.ask(ctx, rulesDatabase, sql, nil, nil)
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(strings.Join(rows[0], ""), &n)
	return n, err
}
