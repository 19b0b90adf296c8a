package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The test binary is the embedded broker, where a trial starts it as that.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == brokerCommand {
		fmt.Fprintln(os.Stderr, runBroker(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// What is asked for wrongly is refused before anything is started, and leaves nothing behind.
func TestWrongArguments(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	auditor := "-auditor=" + os.Args[0]
	for _, args := range [][]string{
		{"7"}, {auditor, "-seeds=5..1"}, {auditor, "-seeds=x"}, {auditor, "-broker=rabbit"}, {auditor, "-events=0"},
		{auditor, "-length=0s"}, {auditor, "-length=-1s"}, {"-auditor=" + filepath.Join(temporary, "none")},
	} {
		err := command(t.Context(), args, os.Getenv, io.Discard)
		left, _ := os.ReadDir(temporary)
		if err == nil || errors.Is(err, errNotClean) || len(left) > 0 {
			t.Errorf("%v: %v, and %d directories are left", args, err, len(left))
		}
	}
}

// A trial that somebody ends says nothing of the auditor: nothing of it is kept.
func TestInterruptedTrialLeavesNothing(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := run(ctx, options{auditor: os.Args[0], broker: "embedded", events: 1000, length: time.Minute}, t.Output())
	left, _ := os.ReadDir(temporary)
	if !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v, and %d directories are left", err, len(left))
	}
}
