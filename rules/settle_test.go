package rules

import (
	"testing"

	"auditor/event/finding"
	"auditor/event/history/historytest"
)

// A judgement of a history ends what such judgements found, and nothing else that is known of the same subject.
func TestAJudgementEndsItsOwnFindings(t *testing.T) {
	b := newBench(t, DefaultConfig())
	own := func(rule, key string, ids ...string) finding.Finding {
		return finding.Finding{ID: finding.ID(rule, "", "", key), Rule: rule, Severity: finding.Warning, Task: "shop.settle", BusinessKey: key, TaskIDs: ids,
			FirstSeen: historytest.At(0), LastSeen: historytest.At(0)}
	}
	if err := b.store.SaveFindings(t.Context(), []finding.Finding{own("slow_pickup", "order:1", "a"), own(PermanentErrorRetried, "", "a"),
		own(TerminalConflict, "order:1", "a")}, nil); err != nil {
		t.Fatal(err)
	}
	b.add(historytest.Events(t, "1 sent a r=0 key=\n1 started a w=w1 r=0\n2 succeeded a w=w1 r=0\n3 started b w=w1 r=0\n4 failed b w=w1 r=0")...)
	if _, err := b.engine.look(t.Context(), b.engine.present(t.Context(), historytest.At(60))); err != nil {
		t.Fatal(err)
	}
	all, err := b.store.AllFindings(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for _, f := range all {
		if (f.State == finding.Resolved) != (f.Rule == TerminalConflict) {
			t.Errorf("%s is %s", f.Rule, f.State)
		}
	}
}
