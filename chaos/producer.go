package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is an offset of a partition.
type place struct {
	partition int32
	offset    int64
}

// producer sends a stream, and notes what the broker acknowledged. It sends again what was not, and may so send a record
// twice: it is not idempotent, as the emitters of many languages are not.
type producer struct {
	client *kgo.Client
	sent   atomic.Int64 // records acknowledged

	mu       sync.Mutex
	acked    map[place]print
	contents map[print]content // of all that was ever sent
	failures []error           // of records that were given up
}

func newProducer(addr string) (*producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ClientID("producer"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.MaxBufferedRecords(200_000),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.ProduceRequestTimeout(5*time.Second), kgo.MetadataMinAge(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	return &producer{client: client, acked: make(map[place]print), contents: make(map[print]content)}, nil
}

// know notes what a record becomes, and gives its print. It must be called before the record is sent.
func (p *producer) know(r *record) print {
	id := printOf(r.value)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contents[id] = r.content
	return id
}

// send sends a stream, each record at its time, and waits until all is acknowledged.
func (p *producer) send(ctx context.Context, s *stream) error {
	for {
		r, ok := s.next()
		if !ok {
			break
		}
		if !pause(ctx, time.Until(s.start.Add(r.at))) {
			return ctx.Err()
		}
		id := p.know(&r)
		p.client.Produce(ctx, &kgo.Record{Key: []byte(r.key), Value: r.value}, func(sent *kgo.Record, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.failures = append(p.failures, err)
				return
			}
			p.sent.Add(1)
			p.acked[place{sent.Partition, sent.Offset}] = id
		})
	}
	if err := p.client.Flush(ctx); err != nil {
		return fmt.Errorf("send all events: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) > 0 {
		return fmt.Errorf("the producer gave up %d records: %w", len(p.failures), errors.Join(p.failures[:min(3, len(p.failures))]...))
	}
	return nil
}

func (p *producer) close() { p.client.Close() }
