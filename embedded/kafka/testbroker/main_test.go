package testbroker_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"auditor/embedded/kafka/testbroker"
)

// orphan makes the test binary a process that starts a broker, tells its process id, and waits to be killed.
const orphan = "TESTBROKER_ORPHAN"

func TestMain(m *testing.M) {
	if data := os.Getenv(orphan); data != "" {
		b, err := testbroker.Start(context.Background(), testbroker.Config{Data: data})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(b.PID())
		select {}
	}
	os.Exit(m.Run())
}
