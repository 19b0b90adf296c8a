package ingest

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"auditor/event"
)

// maxDetail bounds the detail of a reject that ingest itself writes, in bytes.
const maxDetail = 512

// readEntry adds the events and rejects of a record to those of others. One with more headers than are read is a reject.
func (i *Ingester) readEntry(events []event.Event, rejects []event.Reject, e *entry) ([]event.Event, []event.Reject) {
	r, headers := e.record()
	if headers > maxHeaders {
		return events, append(rejects, rejectOf(r, event.ReasonTooMany,
			fmt.Sprintf("the record has %d headers, of which the first %d are kept", headers, maxHeaders)))
	}
	return i.decode(events, rejects, r)
}

// decode adds a record's events and rejects to those of others. Where the decoder breaks its promise, by a panic or with no row
// at all, the record becomes a reject and keeps its bytes: it would otherwise end every process that comes to it. It may be
// called from many goroutines at once.
func (i *Ingester) decode(events []event.Event, rejects []event.Reject, r event.Record) (allEvents []event.Event, allRejects []event.Reject) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		i.decoderFailed.Do(func() {
			i.log.Error("the decoder failed on a record, which is kept as a reject; further ones are only counted",
				"topic", r.Topic, "partition", r.Partition, "offset", r.Offset, "panic", fault, "stack", string(debug.Stack()))
		})
		allEvents, allRejects = events, append(rejects, rejectOf(r, event.ReasonDecoderFailed, fmt.Sprint("the decoder failed: ", fault)))
	}()
	if many, ok := i.decoder.(appender); ok {
		allEvents, allRejects = many.Append(events, rejects, r)
	} else {
		moreEvents, moreRejects := i.decoder.Decode(r)
		allEvents, allRejects = append(events, moreEvents...), append(rejects, moreRejects...)
	}
	if len(allEvents)+len(allRejects) == len(events)+len(rejects) {
		allRejects = append(rejects, rejectOf(r, event.ReasonDecoderFailed, "the decoder gave neither an event nor a reject"))
	}
	return allEvents, allRejects
}

// appender is a Decoder that can add a record's rows to those of others.
type appender interface {
	Append([]event.Event, []event.Reject, event.Record) ([]event.Event, []event.Reject)
}

func cloned(headers []event.Header) []event.Header {
	own := slices.Clone(headers)
	for i := range own {
		own[i].Value = bytes.Clone(own[i].Value)
	}
	return own
}

// rejectOf is a reject that stands for all of a record.
func rejectOf(r event.Record, reason event.Reason, detail string) event.Reject {
	return event.Reject{
		Position:  r.Position,
		KafkaTime: r.Time,
		Reason:    reason,
		Detail:    strings.ToValidUTF8(detail[:min(len(detail), maxDetail)], ""),
		Key:       bytes.Clone(r.Key), // a record is a part of its chunk, which a reject would keep in memory
		Headers:   cloned(r.Headers),
		Raw:       bytes.Clone(r.Value),
	}
}
