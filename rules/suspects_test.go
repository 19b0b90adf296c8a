package rules

import (
	"slices"
	"testing"

	"auditor/event/finding"
	"auditor/event/history/historytest"
)

// What the pass over the changed keys sets aside is healthy: whatever a judge would find is let through.
func TestSuspects(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []string // of one look each
		want   string
	}{
		{"a sweep that knows no attempt marks it as failed",
			[]string{"0 received a w=w1 r=0\n1 started a w=w1 r=0\n5 succeeded a w=w1 r=0\n300 failed a w=sweep err=Abandoned"}, TerminalConflict},
		{"only ends are told, and the attempt number never grows",
			[]string{"0 retried a r=0\n300 retried a r=0\n600 retried a r=0\n900 retried a r=0\n1200 retried a r=0"}, RedeliveryLoop},
		{"another task of the key succeeded", []string{"0 started v w=w1 task=validate\n1 succeeded v w=w1 task=validate\n2 skipped b w=w1 reason=locked"}, SwallowedWork},
		{"only ends are told, under two keys", []string{"0 failed a r=0", "60 succeeded a r=1 key=order:2"}, KeyDrift},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, DefaultConfig())
			for _, text := range test.events {
				b.add(historytest.Events(t, text)...)
				if _, err := b.engine.look(t.Context(), b.engine.present(t.Context(), historytest.At(1300))); err != nil {
					t.Fatal(err)
				}
			}
			all, err := b.store.AllFindings(t.Context())
			if err != nil || !slices.ContainsFunc(all, func(f finding.Finding) bool { return f.Rule == test.want }) {
				t.Errorf("%v, found %+v", err, all)
			}
		})
	}
}
