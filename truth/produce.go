package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// produce sends a stream to the broker, and gives the end of each partition. Records carry the time of their arrival in
// the simulation as their timestamp, so that the auditor sees the hours as they passed.
func produce(ctx context.Context, broker string, s *stream) (map[int32]int64, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic), kgo.ClientID("truth"),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(50_000),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var mu sync.Mutex
	var failure error
	ends := make(map[int32]int64)
	for r, ok := s.Next(); ok && ctx.Err() == nil; r, ok = s.Next() {
		client.Produce(ctx, &kgo.Record{Key: []byte(r.key), Value: r.value, Timestamp: s.moment(r.at)}, func(sent *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failure = err
				return
			}
			ends[sent.Partition] = max(ends[sent.Partition], sent.Offset+1)
		})
	}
	if err := client.Flush(ctx); err != nil {
		return nil, fmt.Errorf("send the events: %w", err)
	}
	if failure != nil {
		return nil, fmt.Errorf("send the events: %w", failure)
	}
	return ends, nil
}
