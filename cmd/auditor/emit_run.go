package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"auditor/emit"
	"auditor/event"
)

// emitRun runs a command as a task. Whatever becomes of what is told of it, the command runs, and its exit code is passed on.
type emitRun struct {
	destination
	Task       string        `placeholder:"NAME" help:"Name of the task (the command's)."`
	Key        string        `placeholder:"KEY" help:"Business key, what the work is about, such as backup:2026-11-30."`
	TaskID     string        `name:"task-id" placeholder:"ID" help:"The queue's id of the message, the same for every attempt; AUDITOR_TASK_ID, if not given, or one by chance."`
	Namespace  string        `placeholder:"NAME" help:"Environment or team; AUDITOR_NAMESPACE, if not given."`
	System     string        `placeholder:"NAME" default:"shell" help:"What runs the task, such as cron (${default})."`
	Queue      string        `placeholder:"NAME" help:"Queue."`
	Retries    *int          `placeholder:"N" help:"Attempts before this one; AUDITOR_RETRIES, if not given, or 0."`
	MaxRetries int           `placeholder:"N" help:"How many there may be."`
	RetryCode  []int         `placeholder:"CODE,..." help:"Exit codes after which the task is tried again: a failure that is told as retried."`
	SkipCode   []int         `placeholder:"CODE,..." help:"Exit codes by which the command says that it stood aside, such as that of flock -E."`
	Timeout    time.Duration `default:"10s" help:"How long to go on telling once the command has ended (${default})."`
	Command    []string      `arg:"" passthrough:"" help:"The command and its arguments, after --."`
}

// exitCode ends the program with the exit code of another. There is nothing to say about it.
type exitCode int

func (e exitCode) Error() string { return "exit code " + strconv.Itoa(int(e)) }

// Exit codes of shells.
const (
	cannotRun   = 126
	notFound    = 127
	afterSignal = 128 // and the signal's number
)

// Run runs the command and tells of it.
func (r emitRun) Run(env *environment) error {
	if len(r.Command) > 0 && r.Command[0] == "--" {
		r.Command = r.Command[1:]
	}
	if len(r.Command) == 0 {
		return usageError{errors.New("name the command to run after --")}
	}
	task, err := r.taskOf(env)
	if err != nil {
		return err
	}
	client, err := r.connect(env)
	if err != nil {
		fmt.Fprintf(env.stderr, "auditor: nothing is told of this run: %v\n", err)
	}
	signals := make(chan os.Signal, 8)
	for _, s := range passedOn {
		if !signal.Ignored(s) { // as under nohup: then the command ignores it, too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	cmd := exec.Command(r.Command[0], r.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.stdin, env.stdout, env.stderr
	var run *emit.Run
	if client != nil {
		_, run = client.Start(context.Background(), task)
		defer r.finish(env, client)
	}
	cmd.Env = append(os.Environ(), "AUDITOR_TASK="+task.Name, "AUDITOR_TASK_ID="+task.ID, "AUDITOR_BUSINESS_KEY="+task.BusinessKey,
		"AUDITOR_NAMESPACE="+task.Namespace, "AUDITOR_RETRIES="+strconv.Itoa(task.Retries), "AUDITOR_EXECUTION_ID="+run.ExecutionID())
	if err := cmd.Start(); err != nil {
		run.Fail(event.Error{Type: "NotStarted", Message: err.Error()})
		fmt.Fprintf(env.stderr, "auditor: %v\n", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return exitCode(notFound)
		}
		return exitCode(cannotRun)
	}
	return r.end(run, wait(cmd, signals))
}

// taskOf is what the flags and the environment say of the task.
func (r emitRun) taskOf(env *environment) (emit.Task, error) {
	t := emit.Task{
		Name:        cmp.Or(r.Task, r.Command[0][strings.LastIndexByte(r.Command[0], '/')+1:]),
		ID:          cmp.Or(r.TaskID, env.getenv("AUDITOR_TASK_ID"), strings.ToLower(rand.Text())),
		BusinessKey: r.Key,
		Namespace:   cmp.Or(r.Namespace, env.getenv("AUDITOR_NAMESPACE")),
		System:      r.System,
		Queue:       r.Queue,
		Worker:      hostname(),
		MaxRetries:  r.MaxRetries,
	}
	text := env.getenv("AUDITOR_RETRIES")
	switch n, err := strconv.Atoi(text); {
	case r.Retries != nil:
		t.Retries = *r.Retries
	case text != "" && (err != nil || n < 0):
		return t, usageError{fmt.Errorf("AUDITOR_RETRIES: must be 0 or more, not %q", text)}
	default:
		t.Retries = n
	}
	return t, nil
}

// connect makes the client, which waits for nobody.
func (r emitRun) connect(env *environment) (*emit.Client, error) {
	to, _, err := r.open(env)
	if err != nil {
		return nil, err
	}
	to.Unnumbered, to.Buffer = true, 16
	return emit.New(to)
}

// finish sends what is left to tell, for a while, and says so when that fails.
func (r emitRun) finish(env *environment, client *emit.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
	defer cancel()
	err := client.Close(ctx)
	if s := client.Stats(); err != nil || s.Refused > 0 {
		fmt.Fprintf(env.stderr, "auditor: %d of the %d events of this run were not taken: %v\n", s.Taken-s.Sent, s.Taken, cmp.Or(err, errRefused))
	}
}

var errRefused = errors.New("the auditor refused them")

// passedOn are the signals that the command gets, too.
var passedOn = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// wait passes signals on until the command has ended.
func wait(cmd *exec.Cmd, signals <-chan os.Signal) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case s := <-signals:
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground() {
				continue // the terminal has sent it to the command as well
			}
			_ = cmd.Process.Signal(s) // it may have ended by now
		}
	}
}

// inForeground reports whether this process belongs to those that the terminal sends its signals to.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// end tells how the command ended, and gives the exit code to pass on.
func (r emitRun) end(run *emit.Run, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		run.End(err)
		return err
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		s := status.Signal()
		run.Fail(event.Error{Type: unix.SignalName(s), Message: fmt.Sprintf("killed by signal %d (%s)", s, s)})
		return exitCode(afterSignal + int(s))
	}
	code := exit.ExitCode()
	failure := event.Error{Type: "ExitStatus" + strconv.Itoa(code), Message: "exit status " + strconv.Itoa(code)}
	switch {
	case slices.Contains(r.SkipCode, code):
		run.End(emit.Skipped("already_running", ""))
	case slices.Contains(r.RetryCode, code):
		run.RetryAs(failure, 0)
	default:
		run.Fail(failure)
	}
	return exitCode(code)
}
