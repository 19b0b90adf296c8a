package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runChild runs one child until it ends, and says why it did. It must be called on a thread that outlives the child.
func (e *Engine) runChild(ctx context.Context, ready func()) error {
	arguments := append(e.config.Command[1:len(e.config.Command):len(e.config.Command)],
		"--data", e.config.Data, "--library", e.config.Library, "--socket", e.socket,
		"--listen", e.config.Listen, "--memory", strconv.FormatInt(e.config.Memory, 10),
		"--temporary="+strconv.FormatBool(e.config.Temporary))
	command := exec.CommandContext(ctx, e.config.Command[0], arguments...)
	command.Env = append(os.Environ(), passwordVariable+"="+string(e.config.Password))
	command.SysProcAttr = processAttributes()
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopLimit
	var reason string
	complaints := complaints{logger: e.config.Logger}
	command.Stdout = &lines{each: func(line string) {
		if text, failed := strings.CutPrefix(line, failedLine); failed {
			reason = text
		} else if line == readyLine {
			e.setReady(true)
			ready()
		}
	}}
	command.Stderr = &lines{each: complaints.hear}
	// Nothing is ever written: that the pipe ends tells the child that this process has.
	if _, err := command.StdinPipe(); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	e.setPID(command.Process.Pid)
	late := time.AfterFunc(startLimit, func() {
		if !e.isReady() {
			_ = command.Process.Kill()
		}
	})
	err := command.Wait()
	late.Stop()
	e.setPID(0)
	e.setReady(false)
	switch {
	case strings.HasSuffix(reason, ErrInUse.Error()): // as the child told it
		err = fmt.Errorf("%s%w", strings.TrimSuffix(reason, ErrInUse.Error()), ErrInUse)
	case reason != "":
		err = errors.New(reason)
	case err == nil:
		err = errors.New("it ended by itself")
	}
	if complaints.last != "" {
		err = fmt.Errorf("%w: %s", err, complaints.last)
	}
	return err
}

func (e *Engine) setPID(pid int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pid = pid
}

func (e *Engine) isReady() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

func (e *Engine) setReady(ready bool) {
	was := e.isReady()
	e.mu.Lock()
	defer e.mu.Unlock()
	if ready && !was {
		close(e.ready)
	} else if !ready && was {
		e.ready = make(chan struct{})
	}
}

// complaints reads what a child writes to its standard error: its log, the engine's errors, and how Go programs die.
type complaints struct {
	logger *slog.Logger
	last   string
}

// 2026.01.31 23:59:59.123456 [ 1234 ] {query id} <Error> Logger: text
var engineComplaint = regexp.MustCompile(`^[\d. :]+\[ \d+ \] \{[^}]*\} <(?:Error|Critical|Fatal)> (\S+): (.*)$`)

func (c *complaints) hear(line string) {
	const limit = 500
	if match := engineComplaint.FindStringSubmatch(line); match != nil {
		// libchdb 26.7 says so after each streamed insert: its worker registers a thread that is registered already.
		if match[1] == "ThreadStatus" {
			return
		}
		text, _, _ := strings.Cut(match[2], ", Stack trace")
		c.last = text[:min(len(text), limit)]
		c.logger.Debug("embedded ClickHouse reports an error", "from", match[1], "error", c.last)
		return
	}
	if strings.HasPrefix(line, childLogPrefix) {
		c.logger.Warn("embedded ClickHouse warns", "line", line)
		return
	}
	for _, prefix := range []string{"panic: ", "fatal error: ", "SIG", "Code: "} {
		if strings.HasPrefix(line, prefix) {
			c.last = line[:min(len(line), limit)]
			c.logger.Debug("embedded ClickHouse reports an error", "from", "process", "error", c.last)
		}
	}
}

// lines is a writer that hands on whole lines, of bounded length.
type lines struct {
	each func(line string)
	rest []byte
}

// Write never fails.
func (l *lines) Write(p []byte) (int, error) {
	const limit = 4 << 10
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			break
		}
		l.each(string(line[:min(len(line), limit)]))
		l.rest = rest
	}
	if len(l.rest) > limit {
		l.each(string(l.rest[:limit]))
		l.rest = nil
	}
	return len(p), nil
}
