package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// bench is the servers, the topic, and what has been measured so far.
type bench struct {
	options options
	stderr  io.Writer
	dir     string
	broker  *broker
	engine  *engine
	topic   topic
	columns []string // of events, as blocks have them
	blocks  []string // files of blocks, ready to be inserted, in the order in which they came
	turns   int      // so far: each has a database of its own
}

func newBench(ctx context.Context, o options, stderr io.Writer) (b *bench, err error) {
	b = &bench{options: o, stderr: stderr}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = makeDir(o.dir); err != nil {
		return b, err
	}
	if b.broker, err = startBroker(ctx, o, b.dir, stderr); err != nil {
		return b, err
	}
	if b.engine, err = startEngine(ctx, filepath.Join(b.dir, "clickhouse"), o.memory); err != nil {
		return b, err
	}
	return b, nil
}

func makeDir(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "auditor-bench-")
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty, and it would be removed at the end", dir)
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (b *bench) close() error {
	var errs []error
	if b.engine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		errs = append(errs, b.engine.close(ctx))
	}
	if b.broker != nil {
		errs = append(errs, b.broker.stop())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.stderr, format+"\n", args...) }

// measure fills the topic, and lets each way have its turn in each round.
func (b *bench) measure(ctx context.Context) (*result, error) {
	begun := time.Now()
	var err error
	b.say("broker: %s; filling a topic with %d events", b.broker.name, b.options.events)
	if b.topic, err = produce(ctx, b.broker.address, "task-events", b.options.partitions, b.options.events, newShop()); err != nil {
		return nil, err
	}
	r := &result{broker: b.broker.name, events: b.topic.events, eventBytes: float64(b.topic.bytes) / float64(b.topic.events)}
	b.say("the first turn warms the machine up; what it stored is measured, and is what will be inserted in blocks")
	if r.storage, err = b.warmUp(ctx); err != nil {
		return nil, err
	}
	ways := b.ways()
	for _, w := range ways {
		r.ways = append(r.ways, measured{name: w.name})
	}
	for round := range b.options.rounds {
		for i, w := range ways {
			t, err := w.run(ctx, round == b.options.rounds-1)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			b.say("round %d of %d: %-22s %9.0f events/s", round+1, b.options.rounds, w.name, t.rate)
			r.ways[i].turns = append(r.ways[i].turns, t)
		}
	}
	if r.celery, err = b.celery(ctx); err != nil {
		return nil, err
	}
	b.say("took %s", time.Since(begun).Round(time.Second))
	return r, nil
}
