package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// strike lets one fault happen. Where there is nothing that it could befall it does not, and is not counted.
func (t *trial) strike(ctx context.Context, f fault) {
	i := t.ingesters[f.who]
	switch f.kind {
	case killIngester:
		if i.kill() {
			t.struck(f, "%s", i.name)
			t.back(ctx, f, i)
		}
	case killInFlight:
		t.withInsertOnTheWay(ctx, f, nil, func(i *ingester, request string) {
			if i.kill() {
				t.struck(f, "%s, %s", i.name, request)
				t.back(ctx, f, i)
			}
		})
	case stopIngester:
		t.stopIngester(ctx, f, i)
	case joinIngester:
		t.joinIngester(ctx, f)
	case pauseIngester:
		t.pauseIngester(ctx, f, i, "")
	case pauseInFlight:
		release := make(chan struct{})
		t.withInsertOnTheWay(ctx, f, release, func(i *ingester, request string) {
			t.pauseIngester(ctx, f, i, request)
			pause(ctx, below(f.rng, 300*time.Millisecond))
		})
		close(release)
	case killEngine, killOwner:
		t.killServer(ctx, f)
	case killBroker:
		t.broker.Kill()
		t.struck(f, "")
		pause(ctx, below(f.rng, 2*time.Second))
		if err := t.broker.Restart(context.WithoutCancel(ctx)); err != nil {
			t.problem("%v", err)
		}
	case fullDisk:
		t.fullDisk(ctx, f)
	case storeSlow:
		i.toStore.slowDown(between(f.rng, 100*time.Millisecond, 800*time.Millisecond), between(f.rng, 2*time.Second, 4*time.Second))
		t.struck(f, "%s", i.name)
	case storeMemory:
		lasts := between(f.rng, time.Second, 4*time.Second)
		for _, i := range t.ingesters {
			i.toStore.starve(lasts)
		}
		t.struck(f, "for %s", lasts.Round(100*time.Millisecond))
	case kafkaSlow:
		i.toKafka.slowDown(between(f.rng, 50*time.Millisecond, 300*time.Millisecond), between(f.rng, 2*time.Second, 4*time.Second))
		t.struck(f, "%s", i.name)
	case storeRefused:
		t.refuse(ctx, f, i.name, i.toStore)
	case kafkaRefused:
		t.refuse(ctx, f, i.name, i.toKafka)
	default:
		t.ensnare(ctx, f)
	}
}

// struck counts a fault that happened, and says so.
func (t *trial) struck(f fault, format string, args ...any) {
	t.mu.Lock()
	t.counts[f.kind]++
	t.mu.Unlock()
	if about := fmt.Sprintf(format, args...); about != "" {
		t.out.say("%s: %s", f.kind, about)
	} else {
		t.out.say("%s", f.kind)
	}
}

// back starts an ingester that was killed again. Mostly the group is told that it has gone, before or after: its session
// would end by itself, but nine seconds are long in a trial of a minute, and while it lasts nobody reads its partitions.
func (t *trial) back(ctx context.Context, f fault, i *ingester) {
	gone := i.toKafka.forget()
	if f.rng.IntN(4) > 0 {
		wait := below(f.rng, time.Second)
		go func() {
			pause(ctx, wait)
			leave(t.broker.Addr(), gone) // where the broker is away just now the session ends by itself
		}()
	}
	t.restart(ctx, f, i.process)
}

// restart starts a process again after a while, at once if the faults are over.
func (t *trial) restart(ctx context.Context, f fault, p *process) {
	pause(ctx, below(f.rng, 1500*time.Millisecond))
	if err := p.start(); err != nil {
		t.problem("%v", err)
	}
}

func (t *trial) stopIngester(ctx context.Context, f fault, i *ingester) {
	if i.pid() == 0 {
		return
	}
	t.struck(f, "%s", i.name)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := i.stop(stopping); err != nil {
		t.problem("%v", err)
	}
	t.restart(ctx, f, i.process)
}

func (t *trial) joinIngester(ctx context.Context, f fault) {
	third := t.ingesters[2]
	if third.pid() != 0 {
		return
	}
	if err := third.start(); err != nil {
		t.problem("%v", err)
		return
	}
	t.struck(f, "%s", third.name)
	pause(ctx, between(f.rng, 4*time.Second, 10*time.Second))
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := third.stop(stopping); err != nil {
		t.problem("%v", err)
	}
	t.out.say("%s left", third.name)
}

// pauseIngester stops an ingester for longer than its session lasts, so that another gets its partitions, and lets it go on.
func (t *trial) pauseIngester(ctx context.Context, f fault, i *ingester, request string) {
	if i.signal(syscall.SIGSTOP) != nil {
		return
	}
	t.struck(f, "%s", strings.TrimSuffix(i.name+", "+request, ", "))
	pause(ctx, session+between(f.rng, time.Second, 3*time.Second))
	if i.signal(syscall.SIGCONT) == nil {
		t.out.say("SIGCONT of %s", i.name)
	}
}

// withInsertOnTheWay holds up the next insert of events, and calls do while it is on its way. It goes on when released, or
// after a while.
func (t *trial) withInsertOnTheWay(ctx context.Context, f fault, release chan struct{}, do func(i *ingester, request string)) {
	trap := &trap{mishap: heldUp, matches: insertOf("events"), later: between(f.rng, time.Second, 6*time.Second), release: release}
	if release != nil {
		trap.later = 3 * session
	}
	if c, ok := t.lay(ctx, trap, (*ingester).storeTraps); ok {
		do(t.ingesters[c.who], c.request)
	}
}

// lay lays a trap for every ingester, and waits until it has caught something. It reports false if ctx ends first.
func (t *trial) lay(ctx context.Context, trap *trap, at func(*ingester) *traps) (catch, bool) {
	trap.caught = make(chan catch, 1)
	for _, i := range t.ingesters {
		at(i).lay(trap)
		defer at(i).lift(trap)
	}
	select {
	case c := <-trap.caught:
		return c, true
	case <-ctx.Done():
		return catch{}, false
	}
}

func (i *ingester) storeTraps() *traps { return &i.toStore.traps }
func (i *ingester) kafkaTraps() *traps { return &i.toKafka.traps }

// killServer kills the engine's process, or the one that owns it.
func (t *trial) killServer(ctx context.Context, f fault) {
	if f.kind == killOwner {
		if t.owner.kill() {
			t.struck(f, "")
			t.restart(ctx, f, t.owner)
		}
		return
	}
	for range 20 { // it may be starting
		if pid := child(t.owner.pid(), "embedded-clickhouse"); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
			t.struck(f, "")
			return
		}
		if !pause(ctx, 100*time.Millisecond) {
			return
		}
	}
}

func (t *trial) fullDisk(ctx context.Context, f fault) {
	if t.disk == nil {
		return
	}
	if err := t.disk.fill(); err != nil {
		t.problem("%v", err)
		return
	}
	t.struck(f, "")
	pause(ctx, between(f.rng, 2*time.Second, 4*time.Second))
	if err := t.disk.free(); err != nil {
		t.problem("%v", err)
	}
	t.out.say("the disk has room again")
}

// refuse lets nothing through for a while.
func (t *trial) refuse(ctx context.Context, f fault, name string, proxy interface {
	shut()
	open() error
}) {
	proxy.shut()
	t.struck(f, "%s", name)
	pause(ctx, between(f.rng, 500*time.Millisecond, 3*time.Second))
	if err := proxy.open(); err != nil {
		t.problem("%v", err)
	}
}

// ensnare lets the next request of a kind meet with a mishap.
func (t *trial) ensnare(ctx context.Context, f fault) {
	trap, at := &trap{}, (*ingester).kafkaTraps
	switch f.kind {
	case storeLost:
		trap.mishap, trap.matches, at = lostAnswer, anyInsert(f), (*ingester).storeTraps
	case storeLate:
		trap.mishap, trap.matches, at = appliedLate, anyInsert(f), (*ingester).storeTraps
		trap.later = between(f.rng, 200*time.Millisecond, 5*time.Second)
	case storeHeld:
		trap.mishap, trap.matches, at = heldUp, anyInsert(f), (*ingester).storeTraps
		trap.later = insertTimeout + between(f.rng, 100*time.Millisecond, 4*time.Second)
	case storeCut:
		trap.mishap, trap.matches, at = cutShort, isInsert, (*ingester).storeTraps
	case commitLost:
		trap.mishap, trap.matches = lostAnswer, isCommit
	case commitLate:
		trap.mishap, trap.matches, trap.later = appliedLate, isCommit, between(f.rng, 200*time.Millisecond, 4*time.Second)
	case kafkaLost:
		name := []string{"JoinGroup", "SyncGroup", "Heartbeat", "Fetch", "OffsetFetch", "Metadata"}[f.rng.IntN(6)]
		trap.mishap, trap.matches = lostAnswer, func(request string) bool { return request == name }
	case kafkaCut:
		trap.mishap, trap.matches = cutShort, func(string) bool { return true }
	}
	if c, ok := t.lay(ctx, trap, at); ok {
		t.struck(f, "%s, %s", t.ingesters[c.who].name, c.request)
	}
}

// anyInsert matches the inserts into one table, or into any.
func anyInsert(f fault) func(string) bool {
	switch n := f.rng.IntN(10); {
	case n < 4:
		return insertOf("events")
	case n < 6:
		return insertOf("rejects")
	case n < 8:
		return insertOf("ingest_ledger")
	}
	return isInsert
}

func isCommit(request string) bool { return strings.HasPrefix(request, "OffsetCommit") }
