package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topic is a filled topic.
type topic struct {
	name       string
	partitions int
	events     int
	bytes      int64 // of all values together
	workers    bool  // some events are of workers, not of tasks, and so change no key
}

// produce makes a topic and fills it, compressed with lz4, records with the same key in the same partition.
func produce(ctx context.Context, address, name string, partitions, events int, s shape) (topic, error) {
	t := topic{name: name, partitions: partitions, events: events}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(name),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return t, fmt.Errorf("connect to the broker: %w", err)
	}
	defer client.Close()
	if err := createTopic(ctx, client, name, partitions); err != nil {
		return t, err
	}
	var failure atomic.Pointer[error]
	for range events {
		key, value, at := s.next()
		t.bytes += int64(len(value))
		client.Produce(ctx, &kgo.Record{Key: key, Value: value, Timestamp: at}, func(_ *kgo.Record, err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return t, fmt.Errorf("fill the topic: %w", err)
	}
	if err := failure.Load(); err != nil {
		return t, fmt.Errorf("fill the topic: %w", *err)
	}
	return t, nil
}

func createTopic(ctx context.Context, client *kgo.Client, name string, partitions int) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = name, int32(partitions), 1
	request.Topics = append(request.Topics, wanted)
	request.TimeoutMillis = 30_000
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create the topic: %w", err)
		}
	}
	return nil
}
