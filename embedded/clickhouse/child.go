package clickhouse

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"auditor/internal/access"
)

// passwordVariable carries the password to the child: a command line is for all to see.
const passwordVariable = "AUDITOR_EMBEDDED_CLICKHOUSE_PASSWORD"

// The child's first line on its standard output: that it is ready, or why it never will be.
const (
	readyLine  = "ready"
	failedLine = "failed: "
)

// childLogPrefix begins each line of the child's own log, which tells of what should not happen only.
const childLogPrefix = "time="

// Child is the child process: main calls it with the arguments after Subcommand and exits with what it gives. It ends
// on SIGTERM, or when its standard input does, which its parent holds open.
func Child(arguments []string) error {
	err := serveChild(arguments)
	if err != nil {
		fmt.Printf("%s%s\n", failedLine, strings.ReplaceAll(err.Error(), "\n", " "))
	}
	return err
}

func serveChild(arguments []string) error {
	flags := flag.NewFlagSet(Subcommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	config := ServeConfig{
		Password: access.Secret(os.Getenv(passwordVariable)),
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready:    func() { fmt.Println(readyLine) },
	}
	flags.StringVar(&config.Data, "data", "", "directory that holds everything")
	flags.StringVar(&config.Library, "library", "", "path of libchdb")
	flags.StringVar(&config.Socket, "socket", "", "path of the unix socket")
	flags.StringVar(&config.Listen, "listen", "", "loopback address for others")
	flags.Int64Var(&config.Memory, "memory", DefaultMemory, "what the engine may take, in bytes")
	flags.BoolVar(&config.Temporary, "temporary", false, "remove the data directory at the end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if config.Data == "" || config.Library == "" || config.Socket == "" {
		return errors.New("data, library and socket are needed")
	}
	_ = os.Unsetenv(passwordVariable)
	// Nothing that the engine writes is for others to read.
	syscall.Umask(0o077)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
		// The parent is gone: nobody is left to see that this process hangs.
		time.Sleep(stopLimit)
		os.Exit(1)
	}()
	return Serve(ctx, config)
}
