package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
)

// A message that one worker gave back and another brought to its end is not stuck, although the first one's clock is ahead. What
// was given back long after such an end is.
func TestGivenBackByAClockThatIsAhead(t *testing.T) {
	for _, test := range []struct {
		name, events string
		want         []string
	}{
		{"another host", `
			10.0 started a w=w2@host-b r=0
			10.4 succeeded a w=w2@host-b r=0
			10.9 started a w=w1@host-a r=0
			11.3 rejected a w=w1@host-a r=0 requeue=1`, []string{}},
		{"the same host", `
			10.0 started a w=w2@host-a r=0
			10.4 succeeded a w=w2@host-a r=0
			10.9 started a w=w1@host-a r=0
			11.3 rejected a w=w1@host-a r=0 requeue=1`, []string{"stuck_pending warning a retry"}},
		{"much later", `
			10.0 started a w=w2@host-b r=0
			10.4 succeeded a w=w2@host-b r=0
			20.9 started a w=w1@host-a r=0
			21.3 rejected a w=w1@host-a r=0 requeue=1`, []string{"stuck_pending warning a retry"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, findings(t, test.events, 5000)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Where anyone may have the next word of a task, what others lost at about the time when it was due leaves open whether the
// task is stuck. What they lost at any other time does not.
func TestAnothersLossSilencesOnlyWhatWasDueThen(t *testing.T) {
	for _, test := range []struct {
		name        string
		from, until float64 // when events were lost
		events      string
		want        finding.Severity
	}{
		{"as it was published", 90, 120, "100 sent a", finding.Info},
		{"before that", 10, 90, "100 sent a", finding.Warning},
		{"long after that", 400, 500, "100 sent a", finding.Warning},
		{"when its retry was due", 390, 420, "90 started a w=w1 r=0\n100 retried a w=w1 r=0 in=300", finding.Info},
		{"long after that", 600, 700, "90 started a w=w1 r=0\n100 retried a w=w1 r=0 in=300", finding.Warning},
		{"while it is its worker's turn", 90, 120, "90 received a w=w1 r=0\n100 started a w=w1 r=0", finding.Warning},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := DefaultConfig()
			j := &judge{config: &config, history: history.Build(history.Subject{BusinessKey: "order:1"}, historytest.Events(t, test.events)), asOf: historytest.At(5000)}
			j.gapsOfAll = []history.Gap{{Emitter: "w7", First: 3, Last: 5, After: historytest.At(test.from), Before: historytest.At(test.until)}}
			found := j.verdict().findings
			if len(found) != 1 || found[0].Rule != StuckPending || found[0].Severity != test.want {
				t.Errorf("found %+v, want it as %s", found, test.want)
			}
		})
	}
}
