package ingest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

// producers of other make write 104 records that may be read: see testdata.
var producers = map[string]func(*testing.T) *exec.Cmd{
	"java": func(t *testing.T) *exec.Cmd {
		needApache(t)
		java, _ := testbroker.Java()
		jars, _ := testbroker.Jars()
		if _, err := exec.LookPath(filepath.Join(filepath.Dir(java), "javac")); err != nil {
			require.Missing(t, "a compiler for Java", "apt-get install openjdk-17-jdk-headless")
		}
		return exec.Command(java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*"), "testdata/Producer.java")
	},
	"python": func(t *testing.T) *exec.Cmd {
		python, err := testbroker.Python()
		if err != nil {
			require.Missing(t, "confluent-kafka for Python", "make testbroker")
		}
		return exec.Command(python, "testdata/producer.py")
	},
}

// TestServersProducersOfOtherMake reads what Apache Kafka's own client and librdkafka write, compressed in every way and in
// transactions, the last of which is open when its producer dies.
func TestServersProducersOfOtherMake(t *testing.T) {
	for name, command := range producers {
		t.Run(name, func(t *testing.T) {
			onEach(t, 1, func(r *trial) {
				d := &recorder{}
				p := r.run(r.wire(r.store, d))
				cmd := command(r.T)
				cmd.Args = append(cmd.Args, r.server.Addr(), r.topic)
				if out, err := cmd.CombinedOutput(); err != nil {
					r.Fatalf("%v: %s", err, out)
				}
				eventually(r, "the transaction of the dead producer is rolled back", func() bool {
					ends, err := r.admin.ListEndOffsets(r.bounded(), r.topic)
					r.must(err)
					stable, err := r.admin.ListCommittedOffsets(r.bounded(), r.topic)
					r.must(err)
					return sum(ends) == sum(stable)
				})
				r.readAll()
				p.stop()
				d.check(r)
				if len(d.seen) != 104 {
					r.Errorf("%d records were read, want 104", len(d.seen))
				}
			})
		})
	}
}

func sum(offsets kadm.ListedOffsets) (total int64) {
	offsets.Each(func(o kadm.ListedOffset) { total += o.Offset })
	return total
}
