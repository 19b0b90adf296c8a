package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// kind is a kind of fault.
type kind string

// The kinds.
const (
	killIngester  kind = "kill -9 of an ingester"
	killInFlight  kind = "kill -9 of an ingester, its insert on the way"
	stopIngester  kind = "SIGTERM of an ingester"
	joinIngester  kind = "a third ingester joins and leaves"
	pauseIngester kind = "SIGSTOP of an ingester past its session"
	pauseInFlight kind = "SIGSTOP of an ingester, its insert on the way"
	killEngine    kind = "kill -9 of the engine"
	killOwner     kind = "kill -9 of the process that owns the engine"
	killBroker    kind = "kill -9 of the broker"
	fullDisk      kind = "full disk for the engine"
	storeLost     kind = "store: answer lost"
	storeLate     kind = "store: applied late"
	storeHeld     kind = "store: held up beyond the time-out"
	storeCut      kind = "store: request cut in the middle"
	storeSlow     kind = "store: slow link"
	storeMemory   kind = "store: no memory for inserts"
	storeRefused  kind = "store: connections refused"
	commitLost    kind = "Kafka: answer to a commit lost"
	commitLate    kind = "Kafka: commit applied late"
	kafkaLost     kind = "Kafka: other answer lost"
	kafkaCut      kind = "Kafka: request cut in the middle"
	kafkaSlow     kind = "Kafka: slow link"
	kafkaRefused  kind = "Kafka: connections refused"
)

// waits reports whether a fault of the kind waits for a request that it can befall.
func (k kind) waits() bool {
	switch k {
	case killInFlight, pauseInFlight, storeLost, storeLate, storeHeld, storeCut, commitLost, commitLate, kafkaLost, kafkaCut:
		return true
	}
	return false
}

// often is how often each kind happens in a whole trial, and in a short one.
var often = []struct {
	kind         kind
	whole, short int
}{
	{killIngester, 4, 1},
	{killInFlight, 2, 1},
	{stopIngester, 1, 1},
	{joinIngester, 1, 1},
	{pauseIngester, 1, 0},
	{pauseInFlight, 1, 1},
	{killEngine, 4, 1},
	{killOwner, 1, 1},
	{killBroker, 2, 1},
	{fullDisk, 1, 1},
	{storeLost, 12, 2},
	{storeLate, 12, 2},
	{storeHeld, 3, 1},
	{storeCut, 6, 1},
	{storeSlow, 2, 1},
	{storeMemory, 4, 1},
	{storeRefused, 2, 1},
	{commitLost, 7, 1},
	{commitLate, 7, 1},
	{kafkaLost, 3, 1},
	{kafkaCut, 3, 1},
	{kafkaSlow, 2, 1},
	{kafkaRefused, 1, 1},
}

// fault is one thing that goes wrong.
type fault struct {
	at   time.Duration
	kind kind
	who  int // the ingester, 0 or 1
	rng  *rand.Rand
}

// planFaults gives what goes wrong in a trial of a length, soonest first. It is a function of the seed. Each kind is spread
// over the trial, and kinds overlap as they may.
func planFaults(seed uint64, length time.Duration, short bool) []fault {
	rng := rand.New(rand.NewPCG(seed, 2))
	var all []fault
	first, last := length/20, 19*length/20
	for _, o := range often {
		n := o.whole
		if short {
			n = o.short
		}
		for i := range n {
			slot := (last - first) / time.Duration(n)
			if short && o.kind.waits() {
				slot /= 2 // early enough for a request to come
			}
			all = append(all, fault{
				at:   first + time.Duration(i)*slot + below(rng, slot),
				kind: o.kind,
				who:  rng.IntN(2),
				rng:  rand.New(rand.NewPCG(rng.Uint64(), 3)),
			})
		}
	}
	slices.SortFunc(all, func(a, b fault) int { return int(a.at - b.at) })
	return all
}

func below(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// between is a duration from low to high.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + below(rng, high-low)
}
