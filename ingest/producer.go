package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"auditor/event"
)

// Producer writes records to Kafka, one by one, under the security settings that Ingester reads by. Each is acknowledged
// by all in-sync replicas. It connects when it is first used, and may be used by many goroutines at once.
type Producer struct{ client *client }

// NotSentError says that a record is surely not in Kafka, and will not be. After any other error of Send it may be.
type NotSentError struct{ Err error }

// Error says why.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// NewProducer makes a producer for some topics. The caller closes it.
func NewProducer(k Kafka, topics ...string) (*Producer, error) {
	k.Topics = topics
	c, err := newClient(k)
	if err != nil {
		return nil, err
	}
	return &Producer{c}, nil
}

// Close ends the connections, whatever waits on them.
func (p *Producer) Close() { p.client.close() }

// End gives an offset before which the next record of a partition will not be.
func (p *Producer) End(ctx context.Context, topic string, partition int32) (int64, error) {
	n, err := p.partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	if int(partition) >= n {
		return 0, fmt.Errorf("topic %s has %d partitions, and none with the number %d", topic, n, partition)
	}
	_, end, err := p.client.bounds(ctx, topic, partition)
	return end, err
}

func (p *Producer) partitions(ctx context.Context, topic string) (int, error) {
	counts, err := p.client.partitions(ctx)
	if err == nil && counts[topic] == 0 {
		err = fmt.Errorf("there is no topic %s", topic)
	}
	return counts[topic], err
}

// Partition chooses the partition of a record by its key, as most Kafka clients do; without a key it is the first.
func (p *Producer) Partition(ctx context.Context, topic string, key []byte) (int32, error) {
	n, err := p.partitions(ctx, topic)
	if err != nil || len(key) == 0 {
		return 0, err
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, numbers...)), nil
}

// Send writes a record to its partition, under its time, and gives its offset. It tries once, so that there are not two.
func (p *Producer) Send(ctx context.Context, r event.Record) (int64, error) {
	if len(r.Headers) > maxHeaders {
		return 0, &NotSentError{fmt.Errorf("the record has %d headers, and ingest reads at most %d", len(r.Headers), maxHeaders)}
	}
	record := kafka.Record{Time: r.Time, Value: kafka.NewBytes(r.Value)}
	if len(r.Key) > 0 { // the store does not tell an empty key from none
		record.Key = kafka.NewBytes(r.Key)
	}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	resp, err := p.client.Produce(ctx, &kafka.ProduceRequest{
		Topic:        r.Topic,
		Partition:    int(r.Partition),
		RequiredAcks: kafka.RequireAll,
		Records:      kafka.NewRecordReader(record),
		Compression:  kafka.Lz4, // what came in compressed may be too large without
	})
	if err == nil {
		err = resp.Error
	}
	switch {
	case err == nil:
		return resp.BaseOffset, nil
	case refusedRecord(err):
		return 0, &NotSentError{err}
	}
	return 0, err
}

// undecided are the brokers' errors after which a record may be in the log.
var undecided = []kafka.Error{kafka.Unknown, kafka.RequestTimedOut, kafka.NetworkException, kafka.NotEnoughReplicasAfterAppend}

// refusedRecord reports whether an error says that a record did not get into the log: a broker refused it, or was not
// reached at all.
func refusedRecord(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return !slices.Contains(undecided, code)
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" ||
		errors.As(err, new(*protocol.TopicError)) || errors.As(err, new(*protocol.TopicPartitionError)) // it knew no broker to send it to
}
