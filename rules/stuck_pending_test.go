package rules

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
