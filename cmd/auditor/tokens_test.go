package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"auditor/web"
)

// A token that is taken away counts no more, whatever else is wrong with the file, and one that is added counts, without a start.
func TestTokensChange(t *testing.T) {
	const a, b = "a emit aaaaaaaaaaaaaaaaaaaa\n", "b emit bbbbbbbbbbbbbbbbbbbb\n"
	name := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	var said bytes.Buffer
	write(a)
	f, err := openTokens(name, slog.New(slog.NewTextHandler(&said, nil)), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func()
		want   string
		says   string
	}{
		{"as it was", func() {}, a, ""},
		{"one is added", func() { write(a + b) }, a + b, "was read again"},
		{"one is taken away, and a line is broken", func() { write(b + "c emit\n") }, b, "line 2: must hold a name"},
		{"nothing changes", func() {}, b, ""},
		{"gone", func() {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}, "", "no such file"},
		{"still gone", func() {}, "", ""},
		{"back", func() { write(a) }, a, "was read again"},
		{"empty", func() { write("") }, "", "was read again"},
	} {
		before := f.current()
		c.change()
		if soon := f.current(); !soon.Equal(before) {
			t.Errorf("%s: counts at once, and asks the disk at each request", c.name)
		}
		now = now.Add(tokensEvery)
		said.Reset()
		want, err := web.ReadTokens(strings.NewReader(c.want))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.current(); !got.Equal(want) {
			t.Errorf("%s: other tokens count", c.name)
		}
		if (said.Len() > 0) != (c.says != "") || !strings.Contains(said.String(), c.says) || strings.Contains(said.String(), "bbbbbbbb") {
			t.Errorf("%s: said %q", c.name, said.String())
		}
	}
}
