package clickhouse

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	t.Setenv("AUDITOR_LIBCHDB", "")
	// The test binary itself lies outside the repository.
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	if _, err := Locate(""); !errors.Is(err, ErrNoLibrary) || strings.Contains(err.Error(), "\n") {
		t.Errorf("nothing there: %v", err)
	}
	installed := filepath.Join(root, "embedded", "clickhouse", "node_modules", "@chdb", platformPackage(), "libchdb.so")
	copied := filepath.Join(root, "copy.so")
	for _, path := range []string{installed, copied} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(explicit, path string) {
		t.Helper()
		if got, err := Locate(explicit); err != nil || got != path {
			t.Errorf("Locate(%q) = %q, %v; want %q", explicit, got, err, path)
		}
	}
	want("", installed)
	t.Setenv("AUDITOR_LIBCHDB", copied)
	want("", copied)
	want(installed, installed)
	if _, err := Locate("nowhere.so"); err == nil || errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "configuration") {
		t.Errorf("a path that leads nowhere: %v", err)
	}
}

func TestLockFilePinsContentAndNamesNoPlace(t *testing.T) {
	text, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "://") {
		t.Error("package-lock.json names a download address")
	}
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	delete(lock.Packages, "")
	if len(lock.Packages) == 0 {
		t.Error("package-lock.json names no package")
	}
	for name, locked := range lock.Packages {
		if locked.Version == "" || !strings.HasPrefix(locked.Integrity, "sha512-") {
			t.Errorf("%s is not pinned: %+v", name, locked)
		}
	}
}
