package testbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)

// startedLine is part of what the broker logs once it serves.
const startedLine = "Kafka Server started"

// startLimit bounds the start where the context does not.
const startLimit = 2 * time.Minute

// jvm gives the options of the virtual machine.
func (b *Broker) jvm() []string {
	options := []string{
		"-cp", filepath.Join(b.jars, "*"),
		"-Xmx" + strconv.Itoa(b.config.Heap) + "m",
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", // a quick start
		"-XX:-UsePerfData", // a file in the temporary directory, which a killed process would leave
		"-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info", // says startedLine
	}
	return append(options, b.config.JVM...)
}

// process is one run of the broker.
type process struct {
	pid     int
	command *exec.Cmd
	done    chan struct{} // closed when it has ended
	err     error         // how it did, to be read after done
	log     *log
}

// launch starts the process and waits until it serves.
func (b *Broker) launch(ctx context.Context) (*process, error) {
	p := &process{done: make(chan struct{}), log: newLog(b.config.Log)}
	p.command = exec.Command(b.java, append(b.jvm(), "kafka.Kafka", filepath.Join(b.config.Data, propertiesFile))...)
	p.command.Dir = b.config.Data
	p.command.Stdout, p.command.Stderr = p.log, p.log
	p.command.SysProcAttr = processAttributes()
	started := make(chan error)
	go func() {
		// The kernel ends the broker with the thread that started it: the thread stays until the broker has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.err = p.command.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.pid = p.command.Process.Pid
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	select {
	case <-p.log.started:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("it ended at once: %v: %s", p.err, p.log.tail())
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("%w: %s", ctx.Err(), p.log.tail())
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(s os.Signal) error {
	if err := p.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal Apache Kafka: %w", err)
	}
	return nil
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.done
}

// end asks the process to end, and kills it when that takes longer than limit.
func (p *process) end(limit time.Duration) {
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(continueSignal) // it may be paused
	select {
	case <-p.done:
	case <-time.After(limit):
		p.kill()
	}
}

// log passes on what the broker writes, keeps the end of it, and sees when the broker serves.
type log struct {
	to      io.Writer
	started chan struct{}

	mu   sync.Mutex
	once bool
	last []byte
}

const tailBytes = 4 << 10

func newLog(to io.Writer) *log { return &log{to: to, started: make(chan struct{})} }

// Write never fails.
func (l *log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, text...)
	if !l.once && bytes.Contains(l.last, []byte(startedLine)) {
		l.once = true
		close(l.started)
	}
	l.last = l.last[max(len(l.last)-tailBytes, 0):]
	_, _ = l.to.Write(text)
	return len(text), nil
}

func (l *log) tail() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.TrimSpace(bytes.Clone(l.last))
}

func tail(text []byte) []byte { return bytes.TrimSpace(text[max(len(text)-tailBytes, 0):]) }
