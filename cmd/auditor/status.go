package main

import (
	"context"
	"errors"

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
