package ingest

import (
	"context"

	"auditor/event"
)

// Journal is where the processes that ingest tell the others how far they are.
type Journal interface {
	// SaveProgress stores where partitions stand, in one block. Of two calls for a partition the later one counts.
	SaveProgress(ctx context.Context, at []event.Progress) error
}

// Tell has ingest tell j every few seconds where its partitions stand. It must be called before Run.
func (i *Ingester) Tell(j Journal) { i.journal = j }

// tellProgress tells until ctx ends. That it fails holds nothing up: whoever reads the journal sees that it is old.
func (i *Ingester) tellProgress(ctx context.Context) {
	failing := false
	for pause(ctx, i.pace.progress) {
		all := Progress(i.Status())
		if len(all) == 0 {
			continue
		}
		err := i.journal.SaveProgress(ctx, all)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			i.log.Error("ingest can't tell the other processes how far it is, trying again", "error", err)
		case err == nil && failing:
			i.log.Info("ingest tells how far it is again")
		}
		failing = err != nil
	}
}

// Progress is what a status has to tell others. Of a partition that was only just given to this process it knows nothing
// yet, and what its former reader told stands.
func Progress(s Status) []event.Progress {
	var all []event.Progress
	for _, p := range s.Partitions {
		if p.Stopped == "" && (p.Next < 0 || p.HighWatermark < 0) {
			continue
		}
		at := event.Progress{
			PartitionID: event.PartitionID{Topic: p.Topic, Partition: p.Partition}, Topics: s.Topics, Partitions: p.Partitions,
			Next: p.Next, End: p.HighWatermark, LogStart: p.LogStart, Newest: p.Newest, Checked: p.Checked,
		}
		if p.Stopped != "" {
			at.Problem = string(p.Stopped) + ": " + p.Detail
		}
		all = append(all, at)
	}
	return all
}
