package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/proof"
	"auditor/ingest"
)

// accounts of each kind.
func accounts() map[string]account {
	of := func(partition int32, change func(*account)) account {
		a := account{Verdict: proof.Verdict{PartitionID: event.PartitionID{Topic: "task-events", Partition: partition},
			Span: proof.Span{Last: 1204331}, Ranges: 30, Records: 1204332, Events: 1204330, Rejects: 2},
			kafka: &ingest.Standing{Start: 7, End: 1204340, Committed: 1204332, Intent: proof.Span{Last: -1}}, lag: 8}
		change(&a)
		return a
	}
	return map[string]account{
		complete: of(0, func(*account) {}),
		incomplete: of(1, func(a *account) {
			a.Troubles = []proof.Trouble{
				{Kind: proof.Missing, Span: proof.Span{First: 12, Last: 12}, Count: 1, Exact: true},
				{Kind: proof.Missing, Span: proof.Span{First: 40, Last: 45}, Count: 4, Exact: true},
				{Kind: proof.Missing, Span: proof.Span{First: 100, Last: 110}, Count: 3, Among: []proof.Span{{First: 100, Last: 105}, {First: 110, Last: 110}}},
				{Kind: proof.Lost, Span: proof.Span{First: 0, Last: 6}, Count: 7, Exact: true},
			}
			a.Expired = 2
		}),
		unchecked: of(2, func(a *account) { a.kafka, a.why = nil, "no broker answers" }),
	}
}

func TestVerifyOutcome(t *testing.T) {
	all := accounts()
	for _, test := range []struct {
		accounts []account
		want     int
	}{
		{[]account{all[complete]}, 0},
		{[]account{all[complete], all[unchecked]}, 3},
		{[]account{all[unchecked], all[incomplete], all[complete]}, 1},
	} {
		if got := report(outcome(test.accounts), io.Discard); got != test.want {
			t.Errorf("exit code %d, want %d", got, test.want)
		}
	}
	if got := report(uncheckedError{errors.New("clickhouse is away")}, io.Discard); got != 3 {
		t.Errorf("exit code %d, want 3", got)
	}
}

func TestVerifyPrints(t *testing.T) {
	all := accounts()
	var table bytes.Buffer
	if err := printAccounts(&table, []account{all[complete], all[incomplete], all[unchecked]}); err != nil {
		t.Fatal(err)
	}
	want := `PARTITION      OFFSETS    RECORDS    EVENTS     REJECTS  NOT READ YET  VERDICT
task-events/0  0-1204331  1,204,332  1,204,330  2        8             complete
task-events/1  0-1204331  1,204,332  1,204,330  2        8             8 missing, 7 lost to Kafka's retention
task-events/2  0-1204331  1,204,332  1,204,330  2        not known     not compared in full

task-events/1
  missing: 12, 40-45 (4), 3 of 100-105 110
  lost to Kafka's retention: 0-6
  expired: 2 records may have left the tables for their age

task-events/2
  not known: no broker answers
`
	if table.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &table, want)
	}
	var lines bytes.Buffer
	if err := printAccountsJSON(&lines, []account{all[complete], all[incomplete], all[unchecked]}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"lag":8,"kafka":{"log_start":7,"end":1204340,"committed":1204332,"intent":null}`, `"lag":null,"kafka":null`,
		`"among":[{"first":100,"last":105},{"first":110,"last":110}]`, `{"verdict":"incomplete","partitions":3,"records":3612996,"missing":8,`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%s lacks %s", &lines, want)
		}
	}
	if n := strings.Count(lines.String(), "\n"); n != 4 {
		t.Errorf("%d lines", n)
	}
}

func TestVerifyTellsFewPlaces(t *testing.T) {
	var troubles []proof.Trouble
	for i := range int64(50) {
		troubles = append(troubles, proof.Trouble{Kind: proof.Missing, Span: proof.Span{First: 2 * i, Last: 2 * i}, Count: 1, Exact: true})
	}
	if got := placesOf(troubles, proof.Missing); !strings.HasSuffix(got, "36, 38 ... and 30 more up to offset 98") {
		t.Error(got)
	}
}

// What Kafka has, and what it had, beside how far the ledger reaches.
func TestVerifyWhatIsNotRead(t *testing.T) {
	nothing, whole := proof.Span{Last: -1}, proof.Span{Last: 1 << 60}
	for _, test := range []struct {
		name      string
		start     int64 // before the ledger was asked
		kafka     ingest.Standing
		ledger    event.Extent
		compared  proof.Span
		lag, lost int64
		why       bool
	}{
		{"all is read", 0, ingest.Standing{End: 10, Intent: nothing}, event.Extent{Ranges: 1, Next: 10}, whole, 0, 0, false},
		{"some is not", 0, ingest.Standing{End: 15, Intent: nothing}, event.Extent{Ranges: 1, Next: 10}, whole, 5, 0, false},
		{"nothing is", 3, ingest.Standing{End: 15, Intent: nothing}, event.Extent{}, whole, 12, 0, false},
		{"retention was faster", 12, ingest.Standing{Start: 12, End: 15, Intent: nothing}, event.Extent{Ranges: 1, Next: 10}, whole, 3, 2, false},
		{"but what it deleted is in hand", 12, ingest.Standing{Start: 12, End: 15, Intent: proof.Span{First: 10, Last: 11}}, event.Extent{Ranges: 1, Next: 10}, whole, 5, 0, false},
		{"a part of it", 13, ingest.Standing{Start: 13, End: 15, Intent: proof.Span{First: 10, Last: 11}}, event.Extent{Ranges: 1, Next: 10}, whole, 2, 1, false},
		{"ingest has moved on since", 12, ingest.Standing{Start: 12, End: 15, Intent: nothing}, event.Extent{Ranges: 1, Next: 15}, whole, 0, 0, false},
		{"it is not asked for", 12, ingest.Standing{Start: 12, End: 15, Intent: nothing}, event.Extent{Ranges: 1, Next: 10}, proof.Span{Last: 5}, 5, 0, false},
		{"the topic is shorter", 0, ingest.Standing{End: 4, Intent: nothing}, event.Extent{Ranges: 1, Next: 10}, whole, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := account{kafka: &test.kafka}
			a.behind(test.start, test.ledger, test.compared)
			if lost := proof.Count(a.Troubles, proof.Lost); a.lag != test.lag || lost != test.lost || a.why != "" != test.why {
				t.Errorf("lag %d, lost %d, %q; want %d and %d", a.lag, lost, a.why, test.lag, test.lost)
			}
		})
	}
}

func TestVerifyWhen(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]when{
		"":                          {},
		"24h":                       {time: now.Add(-24 * time.Hour)},
		"2026-03-04T06:06:07+01:00": {time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)},
		"17":                        {offset: true, at: 17},
	} {
		if got, err := (verifyCommand{Partition: 0}).when("--from", text, now); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"-5", "-24h", "1e3", "tomorrow", "2026-03-04", "9223372036854775807", "0001-01-01T00:00:00Z"} {
		if _, err := (verifyCommand{Partition: 0}).when("--from", text, now); !errors.As(err, new(usageError)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What compares nothing must not pass for a proof.
func TestVerifyRefusesWhatHoldsNothing(t *testing.T) {
	for _, v := range []verifyCommand{
		{Partition: -2},
		{Partition: 0, From: "50", To: "10"},
		{Partition: -1, From: "24h", To: "48h"},
		{Partition: -1, From: "2026-03-04T05:06:07Z", To: "2026-03-04T05:06:06Z"},
	} {
		if _, err := v.verify(&environment{}); !errors.As(err, new(usageError)) {
			t.Errorf("partition %d from %q to %q: %v", v.Partition, v.From, v.To, err)
		}
	}
}
