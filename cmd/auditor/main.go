// Command auditor finds the work that a task queue did twice, too often, or never finished, says why, and proves it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	os.Exit(report(err, os.Stderr))
}

// usageError is a command line that makes no sense.
type usageError struct{ error }

// report tells what went wrong, one line for each thing, and gives the exit code: 0 for success, 2 for a command line
// that makes no sense, 3 where verify could not compare, that of the command that was run, 1 for everything else.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "auditor: %s\n", strings.TrimRight(line, "\n"))
	}
	if errors.As(err, new(usageError)) {
		return 2
	}
	if errors.As(err, new(uncheckedError)) {
		return 3
	}
	return 1
}
