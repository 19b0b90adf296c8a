package emit

import (
	"context"
	"errors"
	"fmt"

	"auditor/event"
)

// atOnce is how many records a publisher sends before it looks at what became of them.
const atOnce = 10 * maxBatch

// Publisher sends records and waits until they are taken: where a Client is for workers, this is for whoever must know. It is safe
// for concurrent use, and small calls at the same time go together.
type Publisher struct{ sender sender }

// NewPublisher makes a publisher. It does not wait for Kafka. Of the configuration, Emitter and Buffer count for nothing. The
// caller closes it.
func NewPublisher(c Config) (*Publisher, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Publisher{c.withDefaults().open()}, nil
}

// PublishError says what became of records that were not all taken.
type PublishError struct {
	Errors []error // of each record, nil for those that were taken. A RefusedError is for ever; after any other it may have been taken, too
}

// Error gives the first cause, and how many records it may be of.
func (e *PublishError) Error() string {
	n, first := 0, error(nil)
	for _, err := range e.Errors {
		if err != nil {
			if n++; first == nil || isRefused(first) && !isRefused(err) {
				first = err
			}
		}
	}
	return fmt.Sprintf("%d of %d events were not taken: %v", n, len(e.Errors), first)
}

// Unwrap gives the causes.
func (e *PublishError) Unwrap() []error { return e.Errors }

// Publish returns once all in-sync replicas have every record, or the auditor has said so. What passes by itself is waited out until
// ctx ends. Key, Value and Time of a record count; to an auditor only Value, one event in JSON. The error is a PublishError; the same records may be sent again under the same event ids, and count once.
func (p *Publisher) Publish(ctx context.Context, records []event.Record) error {
	var errs []error
	for first := 0; first < len(records); first += atOnce {
		part := records[first:min(first+atOnce, len(records))]
		failed := deliver(ctx, p.sender, part, func(_ int, err error) bool { return !errors.As(err, new(lasting)) })
		if failed == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(records))
		}
		copy(errs[first:], failed)
		if rest := first + len(part); mayFollow(failed) != nil {
			copy(errs[rest:], all(len(records)-rest, mayFollow(failed)))
			break
		}
	}
	if errs == nil {
		return nil
	}
	return &PublishError{errs}
}

// mayFollow gives the error for which it makes no sense to send what follows; nil where it does.
func mayFollow(errs []error) error {
	for _, err := range errs {
		if err != nil && !isRefused(err) {
			return err
		}
	}
	return nil
}

// Close frees what the publisher holds, once what is being sent has been.
func (p *Publisher) Close() error { return p.sender.close() }
