package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// options say what a trial is.
type options struct {
	auditor string // path of the program
	broker  string // embedded or kafka
	seed    uint64
	events  int
	length  time.Duration // over which events are sent and faults happen
	short   bool          // few faults
	strict  bool          // a fault that this machine does not allow is an error
	keep    bool          // the data, whatever the outcome
}

// Time limits. The auditor's own are as short as its configuration allows, so that much happens in little time.
const (
	session       = insertTimeout + 5*time.Second // the least that the configuration allows
	insertTimeout = 4 * time.Second
	startLimit    = 2 * time.Minute
	drainLimit    = 3 * time.Minute // for the store to hold everything, once nothing goes wrong any more
	findLimit     = 2 * time.Minute // for the rules to have judged it
	stopLimit     = 40 * time.Second
)

// trial is one run: servers, auditors, a producer, and what goes wrong.
type trial struct {
	options
	dir   string
	out   *console
	start time.Time // of the stream

	broker    broker
	disk      *disk // nil where this machine does not allow one
	owner     *process
	ingesters []*ingester
	store     *store
	producer  *producer

	giveUp    context.CancelCauseFunc // ends the trial
	surprises atomic.Int64            // ends of ingesters by themselves

	mu       sync.Mutex
	counts   map[kind]int
	problems []string // beside what the checker finds: ends that were not clean, and the like
}

// ingester is an auditor that ingests, with what stands between it and the servers.
type ingester struct {
	*process
	addr    string // where it answers probes
	toStore *storeProxy
	toKafka *kafkaProxy
}

// run makes a trial. The report says what came of it; an error, that it could not be made. Where it shows something wrong, data and
// logs are kept.
func run(ctx context.Context, o options, w io.Writer) (*report, error) {
	begun, used := time.Now(), cpuTime()
	dir, err := os.MkdirTemp("", "auditor-chaos-")
	if err != nil {
		return nil, err
	}
	t := &trial{options: o, dir: dir, out: newConsole(w), counts: make(map[kind]int)}
	asked := ctx
	ctx, t.giveUp = context.WithCancelCause(ctx)
	defer t.giveUp(nil)
	r, err := t.run(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err := t.teardown(); err != nil {
		t.problem("tear down: %v", err)
	}
	if r != nil {
		r.Seconds = time.Since(begun).Round(100 * time.Millisecond).Seconds()
		r.CPUSeconds = (cpuTime() - used).Round(100 * time.Millisecond).Seconds()
		r.problems = t.problems
		r.judge(t)
	}
	keep := t.keep || asked.Err() == nil && (err != nil || !r.Clean) // one that was interrupted shows nothing
	if t.disk != nil {
		err = errors.Join(err, t.disk.unmount(keep))
	}
	if keep {
		fmt.Fprintf(w, "data and logs are kept in %s\n", dir)
		return r, err
	}
	return r, errors.Join(err, os.RemoveAll(dir))
}

func (t *trial) run(ctx context.Context) (*report, error) {
	if err := t.setUp(ctx); err != nil {
		return nil, err
	}
	t.out.begin()
	t.start = time.Now()
	stream := newStream(t.seed, t.start, t.length, t.events)
	if err := t.load(ctx, stream); err != nil {
		return nil, err
	}
	v, err := t.settle(ctx, stream)
	if err != nil {
		return nil, err
	}
	return &report{Seed: t.seed, Broker: t.options.broker, verdict: *v, Kinds: t.counts}, nil
}

// setUp starts everything, the ingesters last.
func (t *trial) setUp(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	data := filepath.Join(t.dir, "data")
	if t.disk, err = mountDisk(data); err != nil {
		if t.strict {
			return err
		}
		t.out.say("left out: %s (%v)", fullDisk, err)
	}
	if t.broker, err = startBroker(ctx, t.options.broker, t.dir); err != nil {
		return err
	}
	if t.producer, err = newProducer(t.broker.Addr()); err != nil {
		return err
	}
	engine, err := freeAddr()
	if err != nil {
		return err
	}
	t.store = &store{addr: engine, password: rand.Text(), database: "auditor"}
	if err := os.WriteFile(filepath.Join(t.dir, "password"), []byte(t.store.password), 0o600); err != nil {
		return err
	}
	if t.owner, err = t.newOwner(engine, data); err != nil {
		return err
	}
	if err := t.owner.start(); err != nil {
		return err
	}
	if err := t.awaitSchema(ctx); err != nil {
		return err
	}
	if err := t.store.keepRows(ctx); err != nil {
		return err
	}
	for n := range 3 {
		i, err := t.newIngester(n, engine)
		if err != nil {
			return err
		}
		t.ingesters = append(t.ingesters, i)
		if n < 2 {
			if err := i.start(); err != nil {
				return err
			}
		}
	}
	return errors.Join(t.awaitAlive(ctx, t.ingesters[0]), t.awaitAlive(ctx, t.ingesters[1]))
}

// awaitAlive waits until an ingester answers. One that ends before has a configuration that it refuses, or the like.
func (t *trial) awaitAlive(ctx context.Context, i *ingester) error {
	for {
		response, err := t.store.client.Get("http://" + i.addr + "/livez")
		if err == nil {
			return response.Body.Close()
		}
		if i.pid() == 0 || !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("%s does not answer (see %s): %w", i.name, i.log, err)
		}
	}
}

// awaitSchema waits until the last of the schema's tables is there.
func (t *trial) awaitSchema(ctx context.Context) error {
	for {
		err := t.store.do(ctx, "SELECT 1 FROM ledger_ends LIMIT 0")
		if err == nil {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("the auditor makes no schema (see %s): %w", t.owner.log, err)
		}
	}
}

// newOwner is the process that owns the engine, judges, and shows the pages.
func (t *trial) newOwner(engine, data string) (*process, error) {
	listen, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return t.newAuditor("owner", "rules,web", []string{"--embedded"}, fmt.Sprintf(`
listen: %s
data: %s
embedded:
  clickhouse_listen: %s
  clickhouse_password_file: %s
rules:
  interval: 3s
`, listen, data, engine, filepath.Join(t.dir, "password")))
}

func (t *trial) newIngester(n int, engine string) (*ingester, error) {
	toStore, err := newStoreProxy(n, engine)
	if err != nil {
		return nil, err
	}
	toKafka, err := newKafkaProxy(n, t.broker.Addr())
	if err != nil {
		return nil, err
	}
	listen, err := freeAddr()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("ingester-%d", n+1)
	p, err := t.newAuditor(name, "ingest", nil, fmt.Sprintf(`
listen: %s
kafka:
  brokers: [%s]
  client_id: %s
clickhouse:
  addresses: [%s]
  protocol: http
  password_file: %s
  dial_timeout: 2s
  query_timeout: 5s
  insert_timeout: %s
ingest:
  max_rows: 5000
  session_timeout: %s
  rebalance_timeout: %s
  insert_timeout: %s
`, listen, toKafka.addr, name, toStore.addr, filepath.Join(t.dir, "password"), insertTimeout, session, session, insertTimeout))
	if err != nil {
		return nil, err
	}
	return &ingester{process: p, addr: listen, toStore: toStore, toKafka: toKafka}, nil
}

// newAuditor is an auditor with a configuration of its own. When it ends by itself that is noted, and it is started again.
func (t *trial) newAuditor(name, roles string, flags []string, config string) (*process, error) {
	file := filepath.Join(t.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(config, "\n")), 0o600); err != nil {
		return nil, err
	}
	return &process{
		name:      name,
		command:   append([]string{t.auditor, "--config", file, "run", "--roles", roles}, flags...),
		log:       filepath.Join(t.dir, name+".log"),
		surprised: t.surprised,
	}, nil
}

// surprised is told that an auditor ended by itself. An ingester never does, and where several have, they refuse to run:
// the trial is over. The process that owns the engine ends where that cannot be started, as on a full disk: whoever runs it
// starts it again.
func (t *trial) surprised(p *process, err error) {
	if p == t.owner {
		t.out.say("%s ended by itself: %v", p.name, err)
	} else {
		t.problem("%s ended by itself: %v", p.name, err)
		if t.surprises.Add(1) > 5 {
			t.giveUp(fmt.Errorf("%s ends by itself, again and again (see %s)", p.name, p.log))
			return
		}
	}
	time.Sleep(200 * time.Millisecond)
	if err := p.start(); err != nil {
		t.problem("%v", err)
	}
}

func (t *trial) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.out.say("PROBLEM: %s", text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = append(t.problems, text)
}

// load sends the stream, and lets things go wrong meanwhile. At its end everything runs, and nothing goes wrong any more.
func (t *trial) load(ctx context.Context, s *stream) error {
	faults, calm := context.WithCancel(ctx)
	defer calm()
	var running sync.WaitGroup
	struckAll := make(chan struct{})
	for _, f := range planFaults(t.seed, t.length, t.short) {
		running.Go(func() {
			if pause(faults, time.Until(t.start.Add(f.at))) {
				t.strike(faults, f)
			}
		})
	}
	go func() {
		running.Wait()
		close(struckAll)
	}()
	transactor := newTransactor(t.producer, t.broker.Addr(), t.seed, t.start)
	transactions := make(chan error, 1)
	go func() { transactions <- transactor.run(faults) }()
	progressing, done := context.WithCancel(ctx)
	defer done()
	go t.progress(progressing)
	sending, cancel := context.WithTimeout(ctx, t.length+startLimit)
	defer cancel()
	err := t.producer.send(sending, s)
	if err == nil {
		t.awaitFaults(ctx, struckAll)
	}
	calm()
	<-struckAll
	err = errors.Join(err, <-transactions, t.calm(ctx))
	t.out.say("sent %d records; %d transactions, and %d rolled back", t.producer.sent.Load(), transactor.committed, transactor.aborted)
	return err
}

// awaitFaults lets things go wrong for a while after all is sent, where too few have: on a slow machine the ingesters are
// far behind, and faults wait for their requests.
func (t *trial) awaitFaults(ctx context.Context, struckAll <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for t.faults() < t.least() && pause(ctx, 100*time.Millisecond) {
		select {
		case <-struckAll:
			return
		default:
		}
	}
}

// faults counts those that happened.
func (t *trial) faults() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.counts {
		n += of
	}
	return n
}

// least is how many faults there must be for a trial to prove anything.
func (t *trial) least() int {
	if t.short {
		return 12
	}
	return 60
}

// calm puts everything right that may have been left otherwise.
func (t *trial) calm(ctx context.Context) error {
	var errs []error
	if t.disk != nil {
		errs = append(errs, t.disk.free())
	}
	errs = append(errs, t.broker.Restart(ctx), t.owner.start())
	for _, i := range t.ingesters[:2] {
		errs = append(errs, i.start(), i.signal(syscall.SIGCONT))
	}
	return errors.Join(errs...)
}

// progress says now and then how far things are.
func (t *trial) progress(ctx context.Context) {
	for pause(ctx, 5*time.Second) {
		stored := int64(0)
		at, err := t.store.reaches(ctx, ledgerReaches)
		for _, next := range at {
			stored += next
		}
		faults := t.faults()
		if err != nil {
			t.out.say("-- %d records sent, the engine does not answer, %d faults", t.producer.sent.Load(), faults)
		} else {
			t.out.say("-- %d records sent, %d stored, %d faults", t.producer.sent.Load(), stored, faults)
		}
	}
}

// settle waits until the store has everything and the rules have judged it, and compares both with the truth.
func (t *trial) settle(ctx context.Context, s *stream) (*verdict, error) {
	for _, i := range t.ingesters {
		i.toStore.late.Wait()
		i.toKafka.late.Wait()
	}
	log, ends, err := t.readBack(ctx)
	if err != nil {
		return nil, err
	}
	if lost := lostByBroker(t.producer.acked, log); lost > 0 {
		return nil, fmt.Errorf("the broker lost %d records that it had acknowledged: nothing can be said of the auditor", lost)
	}
	truth := &truth{contents: t.producer.contents, log: log, ends: ends, expected: s.expected}
	progressing, done := context.WithCancel(ctx)
	defer done()
	go t.progress(progressing)
	t.await(ctx, drainLimit, "the store to hold everything", ledgerReaches, ends)
	t.out.say("the store has come to the end of the log")
	done()
	t.stopIngesters(ctx)
	v := new(verdict)
	if err := v.checkRows(ctx, t.store, truth); err != nil {
		return nil, err
	}
	t.verify(ctx)
	t.out.say("the rows are counted")
	if v.clean() { // else they are of interest as they are
		if err := t.store.mergeRows(ctx); err != nil {
			return nil, err
		}
	}
	for _, i := range t.ingesters { // who waits for what is stuck waits for their word that nothing is on its way
		if err := i.start(); err != nil {
			return nil, err
		}
	}
	t.await(ctx, findLimit, "the rules to judge everything", rulesReach, ends)
	t.awaitFindings(ctx, len(s.expected))
	t.out.say("the rules have judged them")
	t.stopIngesters(ctx)
	return v, v.checkRest(ctx, t.store, truth)
}

// stopIngesters ends the ingesters, which must end cleanly.
func (t *trial) stopIngesters(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for _, i := range t.ingesters {
		if err := i.stop(ctx); err != nil {
			t.problem("%v", err)
		}
	}
}

// verify asks the auditor itself whether everything is stored once, which must say the same as the checker.
func (t *trial) verify(ctx context.Context) {
	file := filepath.Join(t.dir, "verify.yaml")
	config := fmt.Sprintf(`kafka:
  brokers: [%s]
clickhouse:
  addresses: [%s]
  protocol: http
  password_file: %s
`, t.broker.Addr(), t.store.addr, filepath.Join(t.dir, "password"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.problem("%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var complaints bytes.Buffer
	command := exec.CommandContext(ctx, t.auditor, "--config", file, "verify")
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.problem("auditor verify: %v\n%s%s", err, out, complaints.String())
	} else if n := bytes.Count(out, []byte(" complete\n")); n < partitions {
		t.problem("auditor verify finds %d partitions complete, of %d\n%s", n, partitions, out)
	}
}

// readBack reads the log once no transaction is open any more, which an end that got lost leaves to a time-out.
func (t *trial) readBack(ctx context.Context) (map[int32][]entry, map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := t.awaitTransactions(ctx); err != nil {
		return nil, nil, err
	}
	return readLog(ctx, t.broker.Addr())
}

// awaitTransactions waits until each partition can be read to its very end.
func (t *trial) awaitTransactions(ctx context.Context) error {
	for {
		committed, err := logEnds(ctx, t.broker.Addr(), true)
		if err != nil {
			return err
		}
		all, err := logEnds(ctx, t.broker.Addr(), false)
		if err != nil {
			return err
		}
		if reached(committed, all) {
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("a transaction stays open: partitions can be read to %v of %v", committed, all)
		}
	}
}

// await waits until a query says that every partition has come to its end. It is a problem if that takes too long.
func (t *trial) await(ctx context.Context, limit time.Duration, what, query string, ends map[int32]int64) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		at, err := t.store.reaches(ctx, query)
		if err == nil && reached(at, ends) {
			return
		}
		if !pause(ctx, 200*time.Millisecond) {
			t.problem("waited %s for %s: partitions have come to %v of %v, %v", limit, what, at, ends, err)
			return
		}
	}
}

// awaitFindings waits until there are as many findings as there must be. The check says which they are.
func (t *trial) awaitFindings(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	for {
		var found int64
		err := t.store.ask(ctx, "SELECT count() FROM findings", func(fields []string) error { return numbers(fields, &found) })
		if err == nil && found >= int64(n) || !pause(ctx, 200*time.Millisecond) {
			return
		}
	}
}

// teardown ends everything that still runs.
func (t *trial) teardown() error {
	for _, i := range t.ingesters {
		i.kill()
		i.toStore.shut()
		i.toKafka.shut()
	}
	var errs []error
	if t.owner != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		errs = append(errs, t.owner.stop(ctx))
	}
	if t.producer != nil {
		t.producer.close()
	}
	if t.broker != nil {
		errs = append(errs, t.broker.Stop())
	}
	return errors.Join(errs...)
}
