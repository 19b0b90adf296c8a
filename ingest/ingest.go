// Package ingest moves task events from Kafka into the store, each exactly once.
//
// # Contract
//
// The rows in the store equal the records in Kafka, whatever is killed and whenever: nothing is lost, nothing is doubled.
// A record that can't be read becomes a reject, with its bytes; it never stops a partition. Records that retention
// deleted before they were read are counted in the ledger as lost, logged and shown: nothing is skipped in silence.
//
// For each partition one batch is in flight, and each batch passes through four steps:
//
//  1. fetch: the records of offsets first..last;
//  2. intent: commit offset first with the metadata "v1;last=..;rows=..". The group's generation fences it: refused, the
//     partition is no longer ours, and nothing is inserted;
//  3. insert: exactly those records, under the token "topic:partition:first-last". An outcome that isn't known (a time-out,
//     a lost answer) is met by sending the same rows under the same token again until it is known;
//  4. the next batch's intent confirms this one; when idle or closing, commit last+1 with empty metadata.
//
// A batch that the store refuses is divided: the next intents are smaller, and name how far the refused range reached, as
// well as each range of which an attempt had no answer and may still arrive.
//
// Whoever gets the partition next reads the offset, the intent and the store's ledger. An open intent is fetched again,
// exactly; the store says which of its rows it has; the missing ones are inserted. The ledger decides where to go on, so a
// group that was reset, that expired or that was renamed doubles nothing, and a store that was restored from an older backup
// is filled again from what Kafka still holds.
//
// One store takes the partitions of one group only: two groups that fill one store would each insert every record.
package ingest

import (
	"context"

	"auditor/event"
)

// Store keeps what was ingested. Its methods are called from many goroutines at once, for one partition by one at a time.
//
// An error is retried with the same arguments until it goes away, unless it (or an error that it wraps) has one of these
// methods, and that answers true:
//
//   - Permanent() bool: no request can succeed before a person has acted. The partition stops and says why.
//   - OfContent() bool, of InsertBatch: the store's answer was that it can't store something in the batch. The batch is
//     divided, down to one record, which becomes a reject; where many in a row do, the partition stops.
//   - OfSize() bool, of InsertBatch: the store's answer was that the batch asks too much of it at once. If that comes again,
//     smaller batches are sent for a while.
//
// The last two also say that nothing of that attempt is under way any more.
//
// A Store that has a method Footprint() (row, perByte int) too tells by it what InsertBatch takes in memory beside the events:
// about how many bytes for a row, and for a byte of a record.
type Store interface {
	// InsertBatch writes b's events under the deduplication token b.Token(), its rejects under the same with ":rejects", and
	// then, last, its row in the ledger: what the ledger covers is there. The ledger's counts
	// are len(Events)+StoredEvents and len(Rejects)+StoredRejects; it also takes Records, Time and Lost. If b.Supplement is
	// set then ":supplement" is added to both tokens. If b.Unconfirmed is set the ledger is left alone. A batch without
	// rows only writes the ledger.
	//
	// An error leaves the outcome open. The same batch comes again after an error, from this process or the next one, and
	// perhaps while an earlier attempt is still being applied: the rows must be stored once.
	InsertBatch(ctx context.Context, b event.Batch) error

	// Present tells what the store holds of the offsets first..last, both inclusive. It must see every write that was
	// acknowledged, or dropped as a duplicate, before the call: on a cluster the replica is brought up to date first.
	Present(ctx context.Context, topic string, partition int32, first, last int64) (event.Stored, error)

	// Newest gives the partition's ledger row with the highest last offset, false when there is none. It must see as much
	// as Present.
	Newest(ctx context.Context, topic string, partition int32) (event.Covered, bool, error)
}

// Decoder turns one record into its events and rejects, with their positions. It must be pure: the same record gives the
// same rows. Each record gives at least one row, and no two of them have the same position. One that has a method Append too, as
// event.Decoder has, is asked by that.
type Decoder interface {
	Decode(event.Record) ([]event.Event, []event.Reject)
}
