package emit

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"auditor/event"
)

// linger is how long a batch may wait for company.
const linger = 5 * time.Millisecond

// writer is what is needed of Kafka's client.
type writer interface {
	WriteMessages(ctx context.Context, messages ...kafka.Message) error
	io.Closer
}

// brokers sends to Kafka, and waits for all in-sync replicas.
type brokers struct {
	writer
	free func() // the connections
}

func newBrokers(c Config) *brokers {
	ctx, stop := context.WithCancel(context.Background())
	transport := &kafka.Transport{TLS: c.TLS, SASL: c.SASL, ClientID: "auditor-emit", Context: ctx}
	return &brokers{
		free: func() {
			transport.CloseIdleConnections()
			stop()
		},
		writer: &kafka.Writer{
			Addr:                   kafka.TCP(c.Brokers...),
			Topic:                  c.Topic,
			Balancer:               &kafka.Hash{},
			RequiredAcks:           kafka.RequireAll,
			BatchSize:              maxBatch,
			BatchTimeout:           linger,
			MaxAttempts:            1, // deliver sends again, for as long as it is to
			AllowAutoTopicCreation: true,
			Compression:            kafka.Lz4,
			Transport:              transport,
		},
	}
}

func (b *brokers) close() error {
	err := b.writer.Close()
	b.free()
	return err
}

func (b *brokers) send(ctx context.Context, records []event.Record) []error {
	messages := make([]kafka.Message, len(records))
	for i, r := range records {
		messages[i] = kafka.Message{Key: r.Key, Value: r.Value, Time: r.Time}
	}
	err := b.WriteMessages(ctx, messages...)
	if err == nil {
		return nil
	}
	var each kafka.WriteErrors
	if !errors.As(err, &each) || len(each) != len(records) {
		return all(len(records), marked(err))
	}
	errs := make([]error, len(records))
	for i, err := range each {
		if errors.Is(err, kafka.MessageSizeTooLarge) { // of the batch that it was in: alone, it may do
			err = b.sendAlone(ctx, messages[i])
		}
		errs[i] = marked(err)
	}
	return errs
}

func (b *brokers) sendAlone(ctx context.Context, m kafka.Message) error {
	err := b.WriteMessages(ctx, m)
	if each := (kafka.WriteErrors)(nil); errors.As(err, &each) && len(each) == 1 {
		err = each[0]
	}
	if errors.Is(err, kafka.MessageSizeTooLarge) {
		return &RefusedError{err}
	}
	return err
}

// marked tells the errors that stay from those that pass.
func marked(err error) error {
	var code kafka.Error
	if errors.As(err, &code) && !code.Temporary() && code != kafka.Unknown && !isRefused(err) {
		return lasting{err}
	}
	return err
}
