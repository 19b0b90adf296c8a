// Package celery_test runs the tests of auditor-celery, the Python package in this directory, against Kafka.
package celery_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"auditor/embedded/kafka"
	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

var pytest = flag.String("pytest", "", "further arguments of pytest, such as tests/test_keys.py")

// python finds the Python that `make celery` has given the package and what its tests need.
func python(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("venv", "complete")); err != nil {
		require.Missing(t, "Python with the tests' packages", "make celery")
	}
	path, err := filepath.Abs(filepath.Join("venv", "bin", "python"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// broker starts Apache Kafka where this machine has it, else the embedded broker.
func broker(t *testing.T) (address string) {
	t.Helper()
	if testbroker.Available() == nil {
		b, err := testbroker.Start(t.Context(), testbroker.Config{Data: filepath.Join(t.TempDir(), "kafka")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Stop(); err != nil {
				t.Error(err)
			}
		})
		return b.Addr()
	}
	b, err := kafka.Start(kafka.Config{Data: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b.Addr()
}

func run(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, python(t), arguments...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends what it started
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestPackage runs the package's own tests: pure ones, and ones with real workers on Redis.
func TestPackage(t *testing.T) {
	python(t)
	t.Setenv("AUDITOR_TEST_KAFKA", broker(t))
	run(t, append([]string{"-m", "pytest", "-q", "--durations=10", "-p", "no:cacheprovider"}, strings.Fields(*pytest)...)...)
}

// TestTypes holds the package to the strictest that mypy knows.
func TestTypes(t *testing.T) {
	run(t, "-m", "mypy", "--cache-dir", t.TempDir())
}

// TestForm holds the package, and the example that uses it, to one form.
func TestForm(t *testing.T) {
	const example = "../../examples/celery-shop"
	run(t, "-m", "ruff", "check", "--no-cache", "--config", "pyproject.toml", ".", example)
	run(t, "-m", "ruff", "format", "--no-cache", "--config", "pyproject.toml", "--check", "--diff", ".", example)
}
