package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"auditor/embedded/clickhouse/chtest"
	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

// program builds the auditor.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "auditor")
	if out, err := exec.Command("go", "build", "-o", path, "auditor/cmd/auditor").CombinedOutput(); err != nil {
		t.Fatalf("build the auditor: %v\n%s", err, out)
	}
	return path
}

// TestShortTrial is the short form of `make chaos`: the same trial, with fewer events and faults.
func TestShortTrial(t *testing.T) {
	library := chtest.Library(t)
	t.Setenv("AUDITOR_LIBCHDB", library)
	auditor := program(t)
	for _, broker := range []string{"embedded", "kafka"} {
		t.Run(broker, func(t *testing.T) {
			if broker == "kafka" {
				needKafka(t)
			}
			r, err := run(t.Context(), options{
				auditor: auditor, broker: broker, seed: 1, events: 20_000, length: 14 * time.Second, short: true,
				strict: os.Getenv("AUDITOR_REQUIRE") == "all",
			}, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.print(t.Output()); err != nil {
				t.Fatal(err)
			}
			if !r.Clean {
				t.Error("the trial is not clean")
			}
			if r.Events < 20_000 {
				t.Errorf("%d events prove little", r.Events)
			}
		})
	}
}

// needKafka ends the test if the machine lacks what runs Apache Kafka.
func needKafka(t *testing.T) {
	t.Helper()
	if _, err := testbroker.Java(); errors.Is(err, testbroker.ErrNoJava) {
		require.Missing(t, "java", "a JDK, version 17 or later")
	}
	if _, err := testbroker.Jars(); errors.Is(err, testbroker.ErrNoJars) {
		require.Missing(t, "the jars of Apache Kafka", "make testbroker")
	} else if err != nil {
		t.Fatal(err)
	}
}
