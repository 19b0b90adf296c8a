package ingest

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event/proof"
)

// TestDocumented keeps docs/ingest.md complete.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/ingest.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range Reasons {
		names = append(names, "`"+string(r)+"`")
	}
	r := &namer{}
	newMetrics(r, []string{topic}, newBudget(0, footprint{}), func() Status { return Status{} }, func() []proof.Proof { return nil })
	for _, name := range append(names, r.names...) {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/ingest.md says nothing of %s", name)
		}
	}
	if len(r.names) < 10 {
		t.Errorf("only the metrics %q were found", r.names)
	}
}

// namer notes the names of what is registered.
type namer struct {
	prometheus.Registerer
	names []string
}

func (n *namer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		out := make(chan *prometheus.Desc, 10)
		c.Describe(out)
		close(out)
		for d := range out {
			_, name, _ := strings.Cut(d.String(), `fqName: "`)
			name, _, _ = strings.Cut(name, `"`)
			n.names = append(n.names, name)
		}
	}
}
