package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"auditor/cmd/auditor/archive"
	"auditor/event"
	"auditor/queries"
)

// batchRecords and batchBytes bound what is held of a file at a time.
const (
	batchRecords = 20_000
	batchBytes   = 16 << 20
	maxWarnings  = 20
)

// intake puts event files into a store, by the way that ingest takes.
type intake struct {
	store     *queries.Store
	decoder   *event.Decoder
	warn      io.Writer
	kafkaTime time.Time // taken for the time at which Kafka got every event: files tell none

	files, events, rejects int
}

// readFiles reads each file. The same name twice is an error: a record is known by its file and place.
func (in *intake) readFiles(ctx context.Context, names []string, stdin io.Reader) error {
	seen := make(map[string]bool)
	for _, name := range names {
		if seen[name] {
			return usageError{fmt.Errorf("%s is given twice", name)}
		}
		seen[name] = true
		if err := in.readFile(ctx, name, stdin); err != nil {
			return err
		}
	}
	if left := in.rejects - maxWarnings; left > 0 {
		fmt.Fprintf(in.warn, "auditor: and %d more could not be read\n", left)
	}
	return nil
}

func (in *intake) readFile(ctx context.Context, name string, stdin io.Reader) error {
	r := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	}
	in.files++
	topic := name
	if name == "-" {
		topic = "standard input"
	}
	batch, size := event.Batch{Topic: topic}, 0
	for rec, err := range archive.Records(r) {
		if err != nil {
			return fmt.Errorf("%s: %w", topic, err)
		}
		in.add(&batch, rec)
		if size += len(rec.Value); batch.Records >= batchRecords || size >= batchBytes {
			if err := in.store.InsertBatch(ctx, batch); err != nil {
				return err
			}
			batch, size = event.Batch{Topic: topic, First: batch.Last + 1}, 0
		}
	}
	if batch.Records == 0 {
		return nil
	}
	return in.store.InsertBatch(ctx, batch)
}

// add decodes one record into the batch.
func (in *intake) add(batch *event.Batch, rec archive.Record) {
	batch.Last = rec.Number
	batch.Records++
	batch.Time = in.kafkaTime
	events, rejects := in.decoder.Decode(event.Record{
		Position: event.Position{Topic: batch.Topic, Offset: rec.Number},
		Value:    rec.Value,
	})
	for i := range events {
		events[i].KafkaTime = in.kafkaTime
	}
	for i := range rejects {
		rejects[i].KafkaTime = in.kafkaTime
		if in.rejects++; in.rejects <= maxWarnings {
			fmt.Fprintf(in.warn, "auditor: %s:%d: not read: %s: %s\n", batch.Topic, rec.Number, rejects[i].Reason, printable(rejects[i].Detail))
		}
	}
	in.events += len(events)
	batch.Events = append(batch.Events, events...)
	batch.Rejects = append(batch.Rejects, rejects...)
}

func (in *intake) summary() string {
	return fmt.Sprintf("Read %s from %s, %s rejected.", count(in.events, "event"), count(in.files, "file"), count(in.rejects, "record"))
}
