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
	client, err := newProducer(address, name)
	if err != nil {
		return t, err
	}
	defer client.Close()
	if err := createTopic(ctx, client, name, partitions); err != nil {
		return t, err
	}
	t.bytes, err = send(ctx, client, events, s)
	return t, err
}

func newProducer(address, topic string) (*kgo.Client, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	return client, nil
}

// send sends the next events of a shape, and tells how many bytes their values have together.
func send(ctx context.Context, client *kgo.Client, events int, s shape) (bytes int64, err error) {
	var failure atomic.Pointer[error]
	for range events {
		key, value, at := s.next()
		bytes += int64(len(value))
		client.Produce(ctx, &kgo.Record{Key: key, Value: value, Timestamp: at}, func(_ *kgo.Record, err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return bytes, fmt.Errorf("fill the topic: %w", err)
	}
	if err := failure.Load(); err != nil {
		return bytes, fmt.Errorf("fill the topic: %w", *err)
	}
	return bytes, nil
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
