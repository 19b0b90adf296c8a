package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/proof"
	"auditor/event/view"
	"auditor/web"
)

func proofTo(partition int32, next int64, troubles ...proof.Trouble) proof.Proof {
	return proof.Proof{PartitionID: event.PartitionID{Topic: "t", Partition: partition}, Next: next, Newest: noon.Add(-10 * time.Minute),
		Checked: noon.Add(-30 * time.Second), Passed: noon.Add(-5 * time.Hour), Troubles: troubles}
}

func trouble(k proof.Kind, first, last, count int64) proof.Trouble {
	return proof.Trouble{Kind: k, Span: proof.Span{First: first, Last: last}, Count: count, Exact: count == last-first+1, Time: noon.Add(-time.Hour)}
}

// What the comparisons found is told on every page: in passing where all is well, loudly and with the offsets where not.
func TestProof(t *testing.T) {
	long := trouble(proof.Lost, 3, 4, 2)
	long.Time = noon.AddDate(0, -1, 0)
	among := trouble(proof.Missing, 30, 40, 1)
	among.Among = []proof.Span{{First: 30, Last: 30}, {First: 40, Last: 40}}
	for _, c := range []struct {
		name     string
		proofs   []proof.Proof
		now      string // said on the first page
		evidence string // on the page of the evidence
		line     string // on every page
		warn     bool
	}{
		{"never compared", nil, "not compared yet", "Not compared yet.", "evidence complete to 11:59:59", false},
		{"one of two", []proof.Proof{proofTo(0, 10)}, "not all partitions are compared yet", "t/0", "evidence complete to 11:59:59", false},
		{"all", []proof.Proof{proofTo(0, 10), proofTo(1, 10)}, "every event up to 11:59:59", "Every event up to 11:59:59 is stored exactly once.", "evidence complete to 11:59:59", false},
		{"all but the latest", []proof.Proof{proofTo(0, 10), proofTo(1, 9)}, "every event up to 11:50:00", "t/10 – 80000", "evidence complete to 11:59:59", false},
		{"missing", []proof.Proof{proofTo(0, 10, trouble(proof.Missing, 1204, 1206, 3), among), proofTo(1, 10)},
			"4 records missing · t/0 @ 1,204 – 1,206; 30 – 40", "missing: 1,204 – 1,206; 1 of 30, 40", "evidence is missing: 4 records", true},
		{"stored twice", []proof.Proof{proofTo(0, 10, trouble(proof.Doubled, 7, 7, 1)), proofTo(1, 10)},
			"1 row stored twice · t/0 @ 7", "stored twice: 7", "evidence is stored twice: 1 row", true},
		{"a hole", []proof.Proof{proofTo(0, 10, trouble(proof.Hole, 7, 8, 2)), proofTo(1, 10)},
			"2 offsets not in the ledger · t/0 @ 7 – 8", "not in the ledger: 7 – 8", "evidence is not proven: the ledger lacks 2 offsets", true},
		{"lost this week", []proof.Proof{proofTo(0, 10, trouble(proof.Lost, 3, 4, 2)), proofTo(1, 10)},
			"2 records deleted by Kafka before they were read · every other event up to 11:59:59", "2 records deleted by Kafka before they were read, every other event up to 11:59:59 is stored exactly once.", "evidence complete to 11:59:59", false},
		{"lost long ago", []proof.Proof{proofTo(0, 10, long), proofTo(1, 10)},
			"every event up to 11:59:59", "deleted by Kafka before they were read: 3 – 4", "evidence complete to 11:59:59", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := full()
			store.ledger = []view.Ledger{{Topic: "t", Last: 9, KafkaTime: noon}}
			store.proofs = c.proofs
			store.progress = []view.Partition{{Topic: "t", Next: 10, End: 10, Checked: noon.Add(-time.Second)}, {Topic: "t", Partition: 1, Next: 10, End: 10, Checked: noon}}
			server := newServer(t, store)
			for path, want := range map[string]string{"/": "stored exactly once" + c.now, "/evidence": c.evidence} {
				body := call(t, server, "GET", path, "").body
				if main := textOf(t, body, "main"); !strings.Contains(main, want) {
					t.Errorf("%s does not say %q: %s", path, want, main)
				}
				if line := textOf(t, body, "evidence"); !strings.Contains(line, c.line) || strings.HasPrefix(line, "!") != c.warn {
					t.Errorf("%s says %q, want %q", path, line, c.line)
				}
			}
		})
	}
}

func TestAPITellsTheProof(t *testing.T) {
	store := full()
	store.ledger = []view.Ledger{{Topic: "t", Last: 9, KafkaTime: noon}, {Topic: "t", Partition: 1, Last: 9, KafkaTime: noon}}
	store.proofs = []proof.Proof{proofTo(0, 10, trouble(proof.Missing, 4, 6, 3))}
	var got struct {
		EvidenceOK bool `json:"evidence_ok"`
		Partitions []struct {
			Proof *struct {
				Next     int64 `json:"next_offset"`
				Missing  int64
				Troubles []proof.Trouble
			}
		}
	}
	a := call(t, newServer(t, store, func(*web.Config, *web.Options) {}), "GET", "/api/v1/status", "")
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.EvidenceOK || len(got.Partitions) != 2 {
		t.Fatalf("%s %v", a.body, err)
	}
	p := got.Partitions[0].Proof
	if p == nil || p.Next != 10 || p.Missing != 3 || len(p.Troubles) != 1 || p.Troubles[0].First != 4 || got.Partitions[1].Proof != nil {
		t.Errorf("%s", a.body)
	}
}
