package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"auditor/cmd/auditor/archive"
	"auditor/cmd/auditor/config"
	"auditor/emit"
	"auditor/event"
)

// imports imports a file, and gives the task ids that were sent and what was said.
func imports(t *testing.T, name string, publish func(context.Context, []event.Record) error, change func(*importing)) (said, warned string, err error) {
	t.Helper()
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var out, warn bytes.Buffer
	i := &importing{env: &environment{ctx: t.Context(), stdin: strings.NewReader(""), stdout: &out, stderr: &warn}, format: archive.Auto, decoder: decoder, publish: publish, to: "here"}
	if change != nil {
		change(i)
	}
	err = i.files(t.Context(), []string{name})
	return out.String(), warn.String(), err
}

func lineOf(n int) string {
	return fmt.Sprintf(`{"type":"started","task_id":"a%d","time":1793606400}`+"\n", n)
}

// An import that breaks off goes on where everything before is known to be sent.
func TestImportGoesOn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events.jsonl")
	var text strings.Builder
	const all = 2*sendRecords + 500
	for n := range all {
		text.WriteString(lineOf(n))
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var sent []event.Record
	calls := 0
	publish := func(_ context.Context, records []event.Record) error {
		if calls++; calls == 2 {
			return errors.New("Kafka is away")
		}
		sent = append(sent, records...)
		return nil
	}
	if _, _, err := imports(t, name, publish, nil); err == nil || !strings.Contains(err.Error(), "Kafka is away") {
		t.Fatalf("%v", err)
	}
	said, _, err := imports(t, name, publish, nil)
	if err != nil || !strings.Contains(said, "Imported 10,500 events from "+name) || !strings.Contains(said, "10,000 events of it had been imported before") {
		t.Errorf("%v: %s", err, said)
	}
	if len(sent) != all || string(sent[all-1].Key) != fmt.Sprintf("a%d", all-1) || string(sent[sendRecords].Key) != fmt.Sprintf("a%d", sendRecords) {
		t.Errorf("%d were sent", len(sent))
	}

	// The file grows, and its last line is not yet whole.
	more := text.String() + lineOf(all) + lineOf(all+1)
	if err := os.WriteFile(name, []byte(more[:len(more)-9]), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _, err = imports(t, name, publish, nil); err != nil || !strings.Contains(said, "Imported 1 event ") || !strings.Contains(said, "1 record not read") {
		t.Errorf("grown: %v: %s", err, said)
	}
	if err := os.WriteFile(name, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _, err = imports(t, name, publish, nil); err != nil || !strings.Contains(said, "Imported 1 event ") || !strings.Contains(said, "0 records not read") {
		t.Errorf("whole: %v: %s", err, said)
	}
	for what, change := range map[string]func(*importing){
		"again":          func(i *importing) { i.again = true },
		"to another":     func(i *importing) { i.to = "there" },
		"read otherwise": func(i *importing) { i.format = archive.Events },
	} {
		if said, _, err = imports(t, name, publish, change); err != nil || !strings.Contains(said, "Imported 20,502 events") || strings.Contains(said, "before") {
			t.Errorf("%s: %v: %s", what, err, said)
		}
	}
	if err := os.WriteFile(name, []byte(lineOf(7)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, _, err = imports(t, name, publish, nil); err != nil || !strings.Contains(said, "Imported 1 event ") || strings.Contains(said, "before") {
		t.Errorf("another file: %v: %s", err, said)
	}
}

func TestImportKnowsItsPlaceAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	embedded, named := config.Default(), config.Default()
	named.Kafka.Brokers = []string{"a:1", "b:2"}
	for _, c := range []struct {
		to   emit.Config
		by   config.Config
		want string
	}{
		{emit.Config{Brokers: []string{"127.0.0.1:40001"}, Topic: "t"}, embedded, filepath.Join(dir, "data") + "/t"},
		{emit.Config{Brokers: []string{"a:1", "b:2"}, Topic: "t"}, named, "a:1,b:2/t"},
		{emit.Config{URL: "http://a"}, named, "http://a"},
	} {
		if got, err := placeOf(c.to, c.by); err != nil || got != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
	}
}

func TestImportWhereNothingCanBeNoted(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "events.jsonl")
	if err := os.WriteFile(name, []byte(lineOf(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name+".imported", 0o700); err != nil { // root may write anywhere else
		t.Fatal(err)
	}
	said, warned, err := imports(t, name, func(context.Context, []event.Record) error { return nil }, nil)
	if err != nil || !strings.Contains(said, "Imported 1 event ") || strings.Count(warned, "cannot be noted") != 1 {
		t.Errorf("%v: %s%s", err, said, warned)
	}
	if left, err := filepath.Glob(name + ".imported.*"); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}

func TestImportBar(t *testing.T) {
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	read := int64(0)
	bar := &importBar{out: &out, terminal: true, name: "e.jsonl", size: 1000, read: func() int64 { return read }, now: func() time.Time { return now }}
	bar.begin(50)
	bar.tell(60, 0)
	if out.Len() > 0 {
		t.Errorf("too early: %q", out.String())
	}
	now, read = now.Add(10*time.Second), 250
	bar.tell(1050, 2)
	const want = "\r[=====>              ] 25 %  e.jsonl  1,050 events, 2 records not read, 100 events/s, 30s left"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	bar.end()
	if !strings.HasSuffix(out.String(), strings.Repeat(" ", len(want)-1)+"\r") {
		t.Errorf("not cleared: %q", out.String())
	}
	read = 1000
	if line := bar.line(now); !strings.HasPrefix(line, "[====================] 100 %") {
		t.Error(line)
	}
	elsewhere := &importBar{out: io.Discard, name: "-", read: func() int64 { return 7 }, now: func() time.Time { return now }}
	elsewhere.begin(0)
	if line := elsewhere.line(now); line != "-  0 events" {
		t.Error(line)
	}
}
