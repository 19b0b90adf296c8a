package rules_test

import (
	"testing"

	"auditor/event/history/historytest"
	"auditor/queries/querytest"
	"auditor/rules"
)

// The lock of a run that was revoked while it worked stays: what stands aside for it is swallowed until someone frees it. A
// copy that was revoked before it began held nothing.
func TestSwallowedByTheLockOfARevokedRun(t *testing.T) {
	for _, test := range []struct {
		name, events string
		found        bool
	}{
		{"revoked at work", `
			0 received a w=w1 r=0
			1 started a w=w1 r=0
			2 revoked a w=w1 r=0
			60 received b w=w1 r=0
			61 skipped b w=w1 r=0 reason=locked holder=a
			3000 started c w=w1 r=0
			3001 succeeded c w=w1 r=0`, true},
		{"revoked before it began", `
			0 received a w=w1 r=0
			2 revoked a w=w1 r=0
			50 started c w=w1 r=0
			61 skipped b w=w1 r=0 reason=locked
			1500 succeeded c w=w1 r=0`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &feed{store: querytest.Store(t)}
			f.add(t, historytest.Events(t, test.events)...)
			if _, found := evaluateAt(t, newEngine(t, f.store), 5000)[rules.SwallowedWork]; found != test.found {
				t.Errorf("found %v, want %v", found, test.found)
			}
		})
	}
}
