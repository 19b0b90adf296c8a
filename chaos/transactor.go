package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactor sends records in transactions, every other of which it rolls back. What it rolls back would be seen: second
// effects of healthy work. Whether a transaction whose commit was not answered came to be, the log tells in the end.
type transactor struct {
	producer  *producer
	addr      string
	stories   *stream
	committed int
	aborted   int
}

// txEvery is how far transactions are apart.
const txEvery = 1500 * time.Millisecond

func newTransactor(p *producer, addr string, seed uint64, start time.Time) *transactor {
	s := &stream{rng: rand.New(rand.NewPCG(seed, 4)), start: start.UTC().Truncate(time.Microsecond), numbers: 1_000_000_000}
	return &transactor{producer: p, addr: addr, stories: s}
}

// run makes transactions until ctx ends, and ends the last.
func (t *transactor) run(ctx context.Context) error {
	var client *kgo.Client
	defer func() {
		if client != nil {
			client.Close()
		}
	}()
	for ctx.Err() == nil {
		if client == nil {
			var err error
			if client, err = t.connect(); err != nil {
				return err
			}
		}
		if !t.transaction(context.WithoutCancel(ctx), client) { // its state is not known: begin anew, which ends it
			client.Close()
			client = nil
		}
		pause(ctx, txEvery)
	}
	return nil
}

func (t *transactor) connect() (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(t.addr), kgo.DefaultProduceTopic(topic), kgo.ClientID("transactor"),
		kgo.TransactionalID("transactor"), kgo.TransactionTimeout(10*time.Second),
		kgo.RecordDeliveryTimeout(8*time.Second), kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	)
}

// transaction makes one transaction of a few stories, and reports whether its end is known.
func (t *transactor) transaction(ctx context.Context, client *kgo.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if client.BeginTransaction() != nil {
		return false
	}
	abort := t.stories.rng.IntN(2) == 0
	var records []*kgo.Record
	for _, r := range t.tell(abort) {
		t.producer.know(&r)
		records = append(records, &kgo.Record{Key: []byte(r.key), Value: r.value})
	}
	sent := client.ProduceSync(ctx, records...).FirstErr() == nil
	commit := kgo.TransactionEndTry(sent && !abort)
	if err := client.EndTransaction(ctx, commit); err != nil {
		return false
	}
	if commit == kgo.TryCommit {
		t.committed++
	} else {
		t.aborted++
	}
	return true
}

// tell tells some stories, all of it now. Where they are to be rolled back each does its effect twice.
func (t *transactor) tell(twice bool) []record {
	s := t.stories
	s.told = 0
	for range 20 {
		story := s.story(time.Since(s.start))
		story.publish()
		story.run()
		story.succeed()
		if twice {
			story.id = fmt.Sprintf("t%d", story.number())
			story.run()
			story.succeed()
		}
	}
	var records []record
	for {
		r, ok := s.next()
		if !ok {
			return records
		}
		records = append(records, r)
	}
}
