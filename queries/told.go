package queries

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"auditor/event/history"
)

// Told tells what the task ids of some keys told, one after another, in no order. What it hands to tell is valid during the call
// only.
func (s *Store) Told(ctx context.Context, q history.Stretch, tell func(*history.Told)) error {
	for keys := range hashChunks(q.Keys) {
		err := s.each(ctx, "rules/told", params{"hashes": hashText(keys), "since": q.Since, "until": q.Until,
			"quiet_from": q.Quiet.First, "quiet_to": q.Quiet.Last, "keyless": q.Keyless}, func(rows driver.Rows) error {
			var r toldRow
			if err := rows.ScanStruct(&r); err != nil {
				return err
			}
			t, err := r.told()
			if err == nil {
				tell(&t)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type toldRow struct {
	Hash               uint64    `ch:"key_hash"`
	Namespace          string    `ch:"namespace"`
	BusinessKey        string    `ch:"business_key"`
	SubjectTask        string    `ch:"subject_task"`
	TaskID             string    `ch:"task_id"`
	Name               string    `ch:"name"`
	Successes          uint64    `ch:"successes"`
	Effects            uint64    `ch:"effects"`
	Kinds              []uint64  `ch:"kinds_of_effect"`
	Retries            uint64    `ch:"retries"`
	Starts             uint64    `ch:"starts"`
	Receipts           uint64    `ch:"receipts"`
	Attempts           uint64    `ch:"attempts"`
	UnnumberedStarts   uint64    `ch:"unnumbered_starts"`
	UnnumberedReceipts uint64    `ch:"unnumbered_receipts"`
	Ends               uint64    `ch:"ends"`
	EndedAttempts      uint64    `ch:"ended_attempts"`
	FirstAttempt       int32     `ch:"first_attempt"`
	Received           uint64    `ch:"received"`
	ReceivedAgain      uint64    `ch:"received_again"`
	Ran                bool      `ch:"ran"`
	Did                bool      `ch:"did"`
	Skips              uint64    `ch:"skips"`
	FirstSkip          time.Time `ch:"first_skip"`
	LastSkip           time.Time `ch:"last_skip"`
	FirstSuccess       time.Time `ch:"first_success"`
	LastSuccess        time.Time `ch:"last_success"`
	GoodAttempts       []int32   `ch:"good_attempts"`
	BadAttempts        []int32   `ch:"bad_attempts"`
	Expiry             time.Time `ch:"expiry"`
	LastStart          time.Time `ch:"last_start"`
	LastDeadline       time.Time `ch:"last_deadline"`
	LastWork           time.Time `ch:"last_work"`
	Last               []any     `ch:"last"` // type, requeue, retry_in
	LastStep           time.Time `ch:"last_step"`
	ETA                time.Time `ch:"latest_eta"`
	Waited             bool      `ch:"waited"`
	Found              bool      `ch:"found"`
}

func (r *toldRow) told() (history.Told, error) {
	t := history.Told{
		Subject: history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.SubjectTask},
		KeyHash: r.Hash, ID: r.TaskID, Task: r.Name,
		Successes: int(r.Successes), Effects: int(r.Effects), Kinds: r.Kinds, Retries: int(r.Retries),
		Starts: int(r.Starts), Receipts: int(r.Receipts), Attempts: int(r.Attempts),
		UnnumberedStarts: int(r.UnnumberedStarts), UnnumberedReceipts: int(r.UnnumberedReceipts),
		Ends: int(r.Ends), EndedAttempts: int(r.EndedAttempts), FirstAttempt: int(r.FirstAttempt),
		Received: int(r.Received), ReceivedAgain: int(r.ReceivedAgain), Ran: r.Ran, Did: r.Did,
		Skips: int(r.Skips), FirstSkip: known(r.FirstSkip), LastSkip: known(r.LastSkip),
		FirstSuccess: known(r.FirstSuccess), LastSuccess: known(r.LastSuccess), GoodAttempts: r.GoodAttempts, BadAttempts: r.BadAttempts,
		Expires: known(r.Expiry), LastStart: known(r.LastStart), Deadline: known(r.LastDeadline), LastWork: known(r.LastWork),
		LastStep: known(r.LastStep), ETA: known(r.ETA), Waited: r.Waited, Found: r.Found,
	}
	var ok [3]bool
	if len(r.Last) == 3 {
		var retryIn int32
		t.Last, ok[0] = r.Last[0].(string)
		t.Requeue, ok[1] = r.Last[1].(bool)
		retryIn, ok[2] = r.Last[2].(int32)
		t.RetryIn = int(retryIn)
	}
	if ok != [3]bool{true, true, true} {
		return t, fmt.Errorf("the last word of task id %q is %v", r.TaskID, r.Last)
	}
	return t, nil
}
