package main

import (
	"fmt"
	"os"
	"testing"
)

// The test binary is the embedded broker, where a trial starts it as that.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == brokerCommand {
		fmt.Fprintln(os.Stderr, runBroker(os.Args[2], os.Args[3]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
