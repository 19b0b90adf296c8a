// Package require lets a test say what the machine lacks: at home the test is skipped with the reason, under
// AUDITOR_REQUIRE=all (as in CI) it fails.
package require

import (
	"os"
	"testing"
)

// Missing ends the test, for this machine lacks what, which how brings.
func Missing(t testing.TB, what, how string) {
	t.Helper()
	if os.Getenv("AUDITOR_REQUIRE") == "all" {
		t.Fatalf("missing: %s (%s)", what, how)
	}
	t.Skipf("missing: %s (%s)", what, how)
}
