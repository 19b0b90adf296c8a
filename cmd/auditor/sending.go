package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"auditor/cmd/auditor/archive"
	"auditor/emit"
	"auditor/event"
)

// Bounds of what is sent at once.
const (
	sendRecords = 10_000
	sendBytes   = 8 << 20
)

// sending sends the records of a file in batches, as they are, so that ingest reads what the file told.
type sending struct {
	name    string
	decoder *event.Decoder
	publish func(context.Context, []event.Record) error
	warn    io.Writer
	skip    int64        // records at the beginning that were sent before
	skipped chain        // their digest
	most    int          // bad records after which it ends; 0: never
	flushed func() error // nil, or called when everything read so far has been sent

	read    int64 // records
	digest  chain // of them
	before  chain // of all but the last
	sent    int   // events
	bad     int   // records
	lastBad bool  // whether the last of them was
	batch   []event.Record
	numbers []int64 // of the records of the batch
	counts  []int   // events of each
	size    int
}

func (s *sending) all(ctx context.Context, records iter.Seq2[archive.Record, error]) error {
	for rec, err := range records {
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.name, err), s.flush(ctx))
		}
		s.read++
		s.before, s.digest = s.digest, s.digest.and(slices.Concat(rec.Value, []byte(rec.Bad)))
		if s.read == s.skip && s.digest != s.skipped {
			return errAnotherFile
		}
		if s.read <= s.skip {
			continue
		}
		s.lastBad = false
		if err := s.add(ctx, rec); err != nil {
			return err
		}
	}
	if s.read < s.skip {
		return errAnotherFile
	}
	return s.flush(ctx)
}

// errAnotherFile says that a file does not begin with the records that are noted of it.
var errAnotherFile = errors.New("it is another file than the one of which progress is noted")

// add adds a record, whose elements are sent or rejected together.
func (s *sending) add(ctx context.Context, rec archive.Record) error {
	if rec.Bad != "" {
		s.lastBad = true
		return s.reject(ctx, rec.Number, rec.Bad)
	}
	events, rejects := s.decoder.Decode(event.Record{Time: time.Now(), Value: rec.Value})
	if len(rejects) > 0 {
		s.lastBad = true
		return s.reject(ctx, rec.Number, string(rejects[0].Reason)+": "+rejects[0].Detail)
	}
	s.numbers, s.counts = append(s.numbers, rec.Number), append(s.counts, len(events))
	s.batch = append(s.batch, event.Record{Key: event.RecordOf(&events[0]).Key, Value: rec.Value})
	if s.size += len(rec.Value); len(s.batch) < sendRecords && s.size < sendBytes {
		return nil
	}
	return s.flush(ctx)
}

// reject tells of a record that is not sent. It gives an error when there were too many.
func (s *sending) reject(ctx context.Context, number int64, why string) error {
	if s.bad++; s.bad <= maxWarnings {
		fmt.Fprintf(s.warn, "auditor: %s:%d: not sent: %s\n", s.name, number, printable(why))
	}
	if s.most == 0 || s.bad <= s.most {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: more than %s could not be read", s.name, count(s.most, "record")), s.flush(ctx))
}

// flush sends the batch. An error is of what ends the sending.
func (s *sending) flush(ctx context.Context) error {
	err := s.publish(ctx, s.batch)
	failed := new(emit.PublishError)
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	numbers := s.numbers
	for i, n := range s.counts {
		switch {
		case err == nil || failed.Errors[i] == nil:
			s.sent += n
		case !errors.As(failed.Errors[i], new(*emit.RefusedError)):
			return err
		}
	}
	s.batch, s.numbers, s.counts, s.size = s.batch[:0], s.numbers[:0], s.counts[:0], 0
	if err != nil {
		for i, one := range failed.Errors {
			if one == nil {
				continue
			}
			if err := s.reject(ctx, numbers[i], one.Error()); err != nil {
				return err
			}
		}
	}
	if s.flushed == nil {
		return nil
	}
	return s.flushed()
}
