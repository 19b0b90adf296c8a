package queries

import (
	"context"
	"time"

	"auditor/event"
	"auditor/event/proof"
	"auditor/event/view"
)

// ExtraEffects counts effects beyond the first, from a time on, by slots of the given length: each by when its finding
// was last seen.
func (p *Pages) ExtraEffects(ctx context.Context, from time.Time, slot time.Duration) ([]view.ExtraEffects, error) {
	type row struct {
		Slot    time.Time `ch:"begun"`
		Task    string    `ch:"name"`
		Extra   int64     `ch:"extra"`
		Guarded int64     `ch:"guarded"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/extra_effects", params{"from": from, "slot": uint32(slot.Seconds())})
	return pluck(rows, func(r *row) view.ExtraEffects {
		return view.ExtraEffects{Slot: r.Slot, Task: r.Task, Extra: int(r.Extra), Guarded: int(r.Guarded)}
	}), err
}

// activitySample is how many events that tell no name are counted, of all tasks together.
const activitySample = 20_000

// Activity counts what tasks did, from a time on, by slots of the given length, which is whole minutes. The counts are
// within about one per cent; of what came without a name, within a few, where there is more than activitySample of it.
func (p *Pages) Activity(ctx context.Context, from time.Time, slot time.Duration) ([]view.Activity, error) {
	return p.activity(ctx, from, slot, activitySample)
}

func (p *Pages) activity(ctx context.Context, from time.Time, slot time.Duration, sample uint64) ([]view.Activity, error) {
	type row struct {
		Slot      time.Time `ch:"begun"`
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		Latest    time.Time `ch:"latest"`
		Events    uint64    `ch:"all"`
		Runs      uint64    `ch:"runs"`
		Retries   uint64    `ch:"retried"`
		Succeeded uint64    `ch:"succeeded"`
		Failed    uint64    `ch:"failed"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/activity", params{"from": from, "slot": uint32(slot.Seconds()), "sample": sample})
	return pluck(rows, func(r *row) view.Activity {
		return view.Activity{Slot: r.Slot, Latest: r.Latest, Namespace: r.Namespace, Task: r.Task, Events: int(r.Events), Runs: int(r.Runs),
			Retries: int(r.Retries), Succeeded: int(r.Succeeded), Failed: int(r.Failed)}
	}), err
}

// Workers gives when each worker was heard of, the one heard of last first.
func (p *Pages) Workers(ctx context.Context, limit int) ([]view.Worker, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Worker    string    `ch:"worker"`
		Processes uint64    `ch:"processes"`
		First     time.Time `ch:"first_heard"`
		Last      time.Time `ch:"last_heard"`
		Idle      time.Time `ch:"idle_at"`
		Lost      time.Time `ch:"lost_at"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/workers", params{"limit": limit})
	return pluck(rows, func(r *row) view.Worker {
		return view.Worker{Namespace: r.Namespace, Name: r.Worker, Processes: int(r.Processes), First: known(r.First),
			Last: known(r.Last), Idle: known(r.Idle), Lost: known(r.Lost)}
	}), err
}

// Ledger gives what the ledger proves of the partitions that were written to since from.
func (p *Pages) Ledger(ctx context.Context, from time.Time) ([]view.Ledger, error) {
	type row struct {
		Topic     string    `ch:"topic"`
		Partition int32     `ch:"partition"`
		First     int64     `ch:"first_offset"`
		Last      int64     `ch:"last_offset"`
		Batches   uint64    `ch:"batches"`
		Records   uint64    `ch:"records"`
		Events    uint64    `ch:"events"`
		Rejects   uint64    `ch:"rejects"`
		Missing   int64     `ch:"missing"`
		Newest    time.Time `ch:"newest"`
		Judged    int64     `ch:"judged"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/ledger", params{"from": from})
	return pluck(rows, func(r *row) view.Ledger {
		return view.Ledger{Topic: r.Topic, Partition: r.Partition, First: r.First, Last: r.Last, Batches: int(r.Batches),
			Records: int(r.Records), Events: int(r.Events), Rejects: int(r.Rejects), Missing: r.Missing, KafkaTime: known(r.Newest), Judged: r.Judged}
	}), err
}

// Progress gives where ingest stands in each partition, in order, as the process that reads it told last.
func (p *Pages) Progress(ctx context.Context) ([]view.Partition, error) {
	at, err := p.store.Progress(ctx)
	return pluck(at, func(p *event.Progress) view.Partition {
		return view.Partition{Topic: p.Topic, Partition: p.Partition, Next: p.Next, End: p.End, Lag: max(p.End-p.Next, 0),
			Newest: p.Newest, Checked: p.Checked, Problem: p.Problem}
	}), err
}

// Proofs gives what is known of each partition from comparing Kafka, the ledger and the tables.
func (p *Pages) Proofs(ctx context.Context) ([]proof.Proof, error) { return p.store.Proofs(ctx) }
