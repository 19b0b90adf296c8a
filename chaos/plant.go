package main

import (
	"fmt"
	"slices"
	"time"
)

// plan decides which troubles happen, and when: each kind a few times, spread over the first three quarters, so that the
// last can be found while events still come.
func (s *stream) plan() {
	kinds := []func(*story){
		publishedTwice, redeliveredWhileRunning, redeliveredAfterSuccess, retriedAfterEffect, retriesInVain, getsStuck,
	}
	each := max(1, s.events/80_000)
	for i := range each {
		for _, happen := range kinds {
			slot := 3 * s.length / 4 / time.Duration(each)
			s.plants = append(s.plants, plant{time.Duration(i)*slot + s.below(slot), happen})
		}
	}
	slices.SortFunc(s.plants, func(a, b plant) int { return int(a.at - b.at) })
}

// expect notes that the story must be found.
func (t *story) expect(rule, cause string) {
	t.expected = append(t.expected, expected{rule: rule, namespace: t.namespace, key: t.key, cause: cause})
}

const (
	repeatedEffect = "repeated_effect"
	concurrentRuns = "concurrent_runs"
	retryStorm     = "retry_storm"
	stuckPending   = "stuck_pending"
)

// publishedTwice is a double click that becomes two messages.
func publishedTwice(t *story) {
	t.expect(repeatedEffect, "published_twice")
	t.publish()
	t.run()
	t.succeed()
	t.id = fmt.Sprintf("t%d", t.number())
	t.publish()
	t.run()
	t.succeed()
}

// redeliveredWhileRunning is a visibility time-out that is shorter than the run.
func redeliveredWhileRunning(t *story) {
	t.expect(repeatedEffect, "redelivered_while_running")
	t.expect(concurrentRuns, "redelivered_while_running")
	t.publish()
	t.run()
	first := t.worker
	t.at += time.Second
	t.worker = "second@host-e"
	t.run(redelivered)
	t.succeed()
	t.worker = first
	t.at += t.short()
	t.succeed()
}

// redeliveredAfterSuccess is an acknowledgement that did not reach the queue's broker.
func redeliveredAfterSuccess(t *story) {
	t.expect(repeatedEffect, "redelivered_after_success")
	t.publish()
	t.run()
	t.succeed()
	t.at += time.Second
	t.worker = "second@host-e"
	t.run(redelivered)
	t.succeed()
}

// retriedAfterEffect is a step that fails behind the effect.
func retriedAfterEffect(t *story) {
	t.expect(repeatedEffect, "retried_after_effect")
	t.publish()
	t.run()
	t.say(t.short(), "retried", refused)
	t.retries++
	t.at += time.Second
	t.run()
	t.succeed()
}

// retriesInVain is a task that retries in a tight loop.
func retriesInVain(t *story) {
	t.task = "loop." + t.task
	t.expect(retryStorm, "")
	t.publish()
	for range 12 {
		t.say(t.short(), "started")
		t.say(t.short(), "retried", refused)
		t.retries++
	}
	t.run()
	t.succeed()
}

// getsStuck is a task that was started an hour ago and never ended.
func getsStuck(t *story) {
	t.expect(stuckPending, "")
	t.shift = time.Hour
	t.worker = "gone@host-f"
	t.publish()
	t.say(t.short(), "received")
	t.say(t.short(), "started")
}
