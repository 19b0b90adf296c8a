package rules

import (
	"testing"

	"auditor/event/history/historytest"
)

// What has no root, such as an effect that one run did twice, is no part of an incident, and does no harm to those that are.
func TestFindingsWithoutARoot(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, `
		0 started a w=w1 r=0 exec=x
		1 effect a w=w1 r=0 exec=x name=mail
		2 effect a w=w1 r=0 exec=x name=mail
		3 succeeded a w=w1 r=0 exec=x`)...)
	if f := b.look(historytest.At(60)); f.Rule != RepeatedEffect || f.Cause != "unknown" {
		t.Errorf("found %+v", f)
	}
}
