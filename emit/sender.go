package emit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"auditor/event"
)

// Bounds of what is sent at once, and of one event: Kafka takes a mebibyte unless it is told otherwise.
const (
	maxBatch  = 1000
	maxRecord = 1<<20 - 1<<10
)

// Waits between two attempts to send the same.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 2 * time.Second
)

// sender is one way to where events go. It may be used by many goroutines at once.
type sender interface {
	// send tries once. It gives nil when every record was taken, and otherwise the error of each, nil for those that were. A
	// record whose error is a RefusedError will never be taken; of every other it is not known.
	send(ctx context.Context, records []event.Record) []error
	close() error
}

// RefusedError says that a record is not taken, now or ever, for what is in it.
type RefusedError struct{ Err error }

// Error says why.
func (e *RefusedError) Error() string { return "refused: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// lasting is an error that stays until somebody changes something: a wrong token, a topic that may not be written.
type lasting struct{ error }

func (e lasting) Unwrap() error { return e.error }

// pausing is an error of a server that says how long to leave it in peace.
type pausing struct {
	error
	wait time.Duration
}

func (e pausing) Unwrap() error { return e.error }

func isRefused(err error) bool { return errors.As(err, new(*RefusedError)) }

// all gives the same error to n records.
func all(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// tooLarge refuses a record that Kafka would not take; nil for one that it would.
func tooLarge(r event.Record) error {
	if n := len(r.Key) + len(r.Value); n > maxRecord {
		return &RefusedError{fmt.Errorf("%d bytes, an event may have %d", n, maxRecord)}
	}
	return nil
}

// deliver sends records until each is taken or refused, ctx ends, or goOn says of an error that it is in vain. It gives nil when
// all were taken, and otherwise the error of each, nil for those that were.
func deliver(ctx context.Context, s sender, records []event.Record, goOn func(left int, err error) bool) []error {
	result := make([]error, len(records))
	places, batch := make([]int, 0, len(records)), make([]event.Record, 0, len(records))
	failed := false
	for i, r := range records {
		if err := tooLarge(r); err != nil {
			result[i], failed = err, true
			continue
		}
		places, batch = append(places, i), append(batch, r)
	}
	for wait := firstWait; len(batch) > 0; wait = min(2*wait, lastWait) {
		errs := s.send(ctx, batch)
		if errs == nil {
			break
		}
		var cause error
		left := 0
		for i, err := range errs {
			result[places[i]] = err
			failed = failed || err != nil
			if err != nil && !isRefused(err) {
				cause = err
				places[left], batch[left] = places[i], batch[i]
				left++
			}
		}
		places, batch = places[:left], batch[:left]
		if left == 0 || ctx.Err() != nil || !goOn(left, cause) {
			break
		}
		if p := (pausing{}); errors.As(cause, &p) {
			wait = max(wait, p.wait)
		}
		if !pause(ctx, wait) {
			break
		}
		for _, i := range places {
			result[i] = nil
		}
	}
	if !failed {
		return nil
	}
	for _, err := range result {
		if err != nil {
			return result
		}
	}
	return nil
}

// pause waits, and reports whether ctx still holds.
func pause(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
