// Command testrun runs go test with the arguments it is given and tells what came of it: a line for each package, the
// output of what failed, and at the end what was skipped and why, and the counts.
//
// What a machine lacks is skipped, and a skip that nobody sees is a promise that nobody checks. Hence the list.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := newSummary(stdout)
	readErr := s.read(events)
	waitErr := cmd.Wait()
	s.close()
	if err := errors.Join(readErr, waitErr); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}
