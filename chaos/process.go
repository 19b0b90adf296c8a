package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program that is ended and started again and again. Its output goes to a file.
type process struct {
	name      string
	command   []string
	log       string                      // path
	surprised func(p *process, err error) // called when it ends by itself; may start it again

	mu  sync.Mutex
	run *running // the last run; nil before the first
}

type running struct {
	cmd    *exec.Cmd
	wanted bool          // its end is of our making
	done   chan struct{} // closed when it has ended
	err    error         // how; to be read after done
}

// starts runs the functions that it is given on one thread that lives as long as this process does: the kernel ends a
// child with the thread that started it, which is how none outlives us.
var starts = sync.OnceValue(func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range starts {
			f()
		}
	}()
	return starts
})

// start runs the program. One that runs already is left alone.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && !p.run.ended() {
		return nil
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r := &running{cmd: exec.Command(p.command[0], p.command[1:]...), done: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = processAttributes()
	started := make(chan error)
	starts() <- func() { started <- r.cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.run = r
	go p.watch(r)
	return nil
}

func (p *process) watch(r *running) {
	r.err = r.cmd.Wait()
	p.mu.Lock()
	wanted := r.wanted
	close(r.done)
	p.mu.Unlock()
	if !wanted && p.surprised != nil {
		p.surprised(p, r.err)
	}
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// pid is 0 while it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return 0
	}
	return p.run.cmd.Process.Pid
}

// signal fails where it does not run.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return fmt.Errorf("%s does not run", p.name)
	}
	return p.run.cmd.Process.Signal(s)
}

// kill ends it as kill -9 does, and waits until it is gone. It tells whether it ran.
func (p *process) kill() bool {
	r := p.end(syscall.SIGKILL)
	if r == nil {
		return false
	}
	<-r.done
	return true
}

// stop ends it as SIGTERM does, and waits until it is gone. An end that is not clean is an error.
func (p *process) stop(ctx context.Context) error {
	r := p.end(syscall.SIGTERM)
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("%s did not end in time after SIGTERM", p.name)
	}
	if exit := new(exec.ExitError); errors.As(r.err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return nil // killed while it was ending
	}
	if r.err != nil {
		return fmt.Errorf("%s ended with %w after SIGTERM", p.name, r.err)
	}
	return nil
}

// end sends the signal that ends the process, nil where it does not run.
func (p *process) end(s syscall.Signal) *running {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return nil
	}
	p.run.wanted = true
	_ = p.run.cmd.Process.Signal(s) // it may be gone by now
	return p.run
}

// child is the process id of the child of a process whose command line contains a word, 0 where there is none.
func child(parent int, word string) int {
	if parent == 0 {
		return 0
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold anything
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(stat), "cmdline"))
		if err == nil && strings.Contains(string(line), word) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
			return pid
		}
	}
	return 0
}

// cpuTime is what this process has used, and those that it has started and that have ended.
func cpuTime() time.Duration {
	var total int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if syscall.Getrusage(who, &usage) == nil {
			total += usage.Utime.Nano() + usage.Stime.Nano()
		}
	}
	return time.Duration(total)
}

// pause waits, and reports whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
