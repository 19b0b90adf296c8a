package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/view"
	"auditor/ingest"
)

// partitions is where ingest stands, as the pages show it.
func partitions(s ingest.Status) []view.Partition {
	out := make([]view.Partition, len(s.Partitions))
	for i, p := range s.Partitions {
		out[i] = view.Partition{Topic: p.Topic, Partition: p.Partition, Next: p.Next, End: p.HighWatermark, Lag: p.Lag,
			Newest: p.Newest, Checked: p.Checked}
		if p.Stopped != "" {
			out[i].Problem = string(p.Stopped) + ": " + p.Detail
		}
	}
	return out
}

// checkKafka says why events are not being read just now.
func checkKafka(status func() ingest.Status) func(context.Context) error {
	return func(context.Context) error {
		switch s := status(); {
		case s.Trouble != "":
			return errors.New(s.Trouble)
		case !s.Assigned:
			return errors.New("waiting for the consumer group to deal its partitions")
		}
		return nil
	}
}

// noteKafka tells which partitions stand still. They do not make the process less ready: it serves the others and the pages,
// which say what to do, and no restart would help.
func noteKafka(status func() ingest.Status) func() string {
	return func() string {
		var stopped []string
		all := status().Partitions
		for _, p := range all {
			if p.Stopped != "" {
				stopped = append(stopped, fmt.Sprintf("%s/%d %s", p.Topic, p.Partition, p.Stopped))
			}
		}
		if len(stopped) == 0 {
			return ""
		}
		const named = 5
		note := fmt.Sprintf("%d of %d partitions stand still: %s", len(stopped), len(all), strings.Join(stopped[:min(len(stopped), named)], ", "))
		if len(stopped) > named {
			note += ", ..."
		}
		return note
	}
}

// completeness says up to when the store has all that happened, for the rules: to the moment at which every partition was
// last seen read to its end, or to its newest record while something is left to read. Of the partitions that this process
// reads it knows that itself; of the others, what the processes that read them told. A partition that stands still until a
// person decides does not hold up the judgement of the others, and one of which nobody has told anything holds up all.
type completeness struct {
	status func() ingest.Status // nil: this process reads nothing
	told   func(context.Context) ([]event.Progress, error)
	settle time.Duration // until those who ask the store see what it took
	log    *slog.Logger

	last    time.Time // what it came to
	waiting bool
}

func (c *completeness) at(ctx context.Context, now time.Time) time.Time {
	told, err := c.told(ctx)
	if err != nil {
		return c.last // the look that follows fails for the same reason, and says so
	}
	if c.status != nil {
		told = append(told, ingest.Progress(c.status())...)
	}
	if complete, ok := completeTo(told, now); ok {
		if !complete.IsZero() {
			complete = complete.Add(-c.settle)
		}
		c.last, c.waiting = complete, false
		return complete
	}
	if !c.waiting && c.status == nil { // a process that has just begun to read tells in a moment
		c.log.Info("rules wait until the processes that ingest have told how far they are")
	}
	c.waiting = true
	return c.last
}

// completeTo is the moment up to which all is read, of what was told: of two words about a partition the later one counts.
// It is not known as long as nobody has told of a partition.
func completeTo(told []event.Progress, now time.Time) (time.Time, bool) {
	if len(told) == 0 {
		return time.Time{}, false
	}
	known := make(map[event.PartitionID]event.Progress, len(told))
	counts := make(map[string]int)
	for _, p := range told {
		known[p.PartitionID] = p
		counts[p.Topic] = max(counts[p.Topic], p.Partitions)
	}
	complete := now
	for _, topic := range told[len(told)-1].Topics {
		for n := range max(counts[topic], 1) {
			p, heard := known[event.PartitionID{Topic: topic, Partition: int32(n)}]
			if !heard {
				return time.Time{}, false
			}
			upTo := p.Checked
			if p.Next < p.End {
				upTo = p.Newest
			}
			if p.Problem == "" && upTo.Before(complete) {
				complete = upTo
			}
		}
	}
	return complete, true
}
