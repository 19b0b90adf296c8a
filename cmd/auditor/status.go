package main

import (
	"context"
	"errors"
	"time"

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

// completeness says up to when the store has all that happened, for the rules: to the moment at which ingest last saw
// that nothing was left to read, or to the newest record while something is. A partition that stands still until a
// person decides does not hold up the judgement of the others.
type completeness struct {
	status func() ingest.Status
	last   time.Time
}

func (c *completeness) at(now time.Time) time.Time {
	s := c.status()
	if !s.Assigned || s.Trouble != "" && len(s.Partitions) == 0 {
		return c.last
	}
	complete := now
	for _, p := range s.Partitions {
		upTo := p.Checked
		if p.Lag > 0 {
			upTo = p.Newest
		}
		if p.Stopped == "" && upTo.Before(complete) {
			complete = upTo
		}
	}
	c.last = complete
	return complete
}
