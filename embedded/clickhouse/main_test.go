package clickhouse_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

// parentArgument makes the test binary a program that runs an engine on the directory that follows, says so, and waits
// for the end of its standard input.
const parentArgument = "parent"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == parentArgument {
		engine, err := clickhouse.Start(context.Background(), clickhouse.Config{Data: os.Args[2]})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(engine.PID())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	code := chtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}
