package clickhouse

import (
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
