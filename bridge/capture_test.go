package bridge

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Of what real workers told, nothing is missing; and each start that is taken away is missed, but for those of a worker that was
// killed. The captures hold each worker's first and last word; a heartbeat is added behind that, for it to be judged.
func TestHeartbeatsOfRealWorkers(t *testing.T) {
	for name, missed := range map[string]int{"events_basic.jsonl": 9, "events_vt.jsonl": 4} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../event/testdata/celery", name))
			if err != nil {
				t.Fatal(err)
			}
			lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
			if lost := lostOf(t, lines, -1); lost != 0 {
				t.Errorf("%v starts are missing of all that was told", lost)
			}
			starts, found := 0, 0
			for i, line := range lines {
				if !bytes.Contains(line, []byte(`"type": "task-started"`)) {
					continue
				}
				starts++
				switch lost := lostOf(t, lines, i); lost {
				case 0:
				case 1:
					found++
				default:
					t.Errorf("without line %d, %v starts are missing", i+1, lost)
				}
			}
			if found != missed {
				t.Errorf("%d of %d starts are missed when they are taken away, want %d", found, starts, missed)
			}
		})
	}
}

// lostOf tells how many starts are found to be missing when one line is left out.
func lostOf(t *testing.T, lines [][]byte, without int) float64 {
	t.Helper()
	b := newBridge(t, Config{}, nil, new(kafka))
	for i, line := range lines {
		if i != without {
			b.take(said(string(line)))
		}
		if last := (map[string]any{}); json.Unmarshal(line, &last) == nil && last["type"] == "worker-offline" {
			last["type"], last["clock"] = "worker-heartbeat", last["clock"].(float64)+1
			beat, err := json.Marshal(last)
			if err != nil {
				t.Fatal(err)
			}
			b.take(said(string(beat)))
		}
	}
	return testutil.ToFloat64(b.metrics.lost)
}
