package rules

import (
	"math/rand/v2"
	"testing"
	"time"

	"auditor/event/history"
)

// remembered is a memory whose shards are loaded, with nothing in them.
func remembered(floor time.Time, limit int) *knownKeys {
	k := &knownKeys{limit: limit}
	k.ready(floor)
	for shard := range k.loaded {
		k.loaded[shard] = true
	}
	return k
}

// Whatever becomes of a key in the memory, it is never taken for younger than it is, and seldom for older when it is new.
func TestKnownKeysMissesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	floor := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	k, told := remembered(floor, 1<<20), map[uint64][]history.Arrival{}
	now, wrong, asked := floor.Add(72*time.Hour), 0, 0
	for range 400 {
		now = now.Add(5 * time.Minute)
		floor = now.Add(-72 * time.Hour)
		k.ready(floor)
		for range 500 {
			hash := random.Uint64()
			if len(told) > 0 && random.IntN(4) == 0 {
				for hash = range told {
					break
				}
			}
			at := history.Arrival{First: now.Add(-time.Duration(random.IntN(600)) * time.Second), Last: now}
			got, any := k.before(hash, floor, now)
			asked++
			if _, known := told[hash]; !known && any && k.horizon.Before(floor) {
				wrong++
			}
			for _, was := range told[hash] {
				if was.First.Before(now) && !was.Last.Before(floor) &&
					(!any || later(was.First, floor).Before(got.First) || got.Last.Before(earlier(was.Last, now))) {
					t.Fatalf("of %v it says %v, %t", was, got, any)
				}
			}
			told[hash] = append(told[hash], at)
			k.add(hash, at)
		}
	}
	if wrong > asked/20 {
		t.Errorf("%d of %d new keys are taken for old ones", wrong, asked)
	}
	if k.size > 1<<20 {
		t.Errorf("it takes %d bytes", k.size)
	}
}

func TestKnownKeysForgetsWhatIsTooMuch(t *testing.T) {
	floor := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	k := remembered(floor, 64<<10)
	for hour := range 50 {
		from := floor.Add(time.Duration(hour) * time.Hour)
		var hashes []uint64
		for i := range uint64(2000) {
			hashes = append(hashes, i*1000+uint64(hour))
		}
		k.keep(0, history.Arrival{First: from, Last: from.Add(time.Hour)}, hashes)
	}
	if k.size > 64<<10 || k.size < 32<<10 {
		t.Errorf("it takes %d bytes", k.size)
	}
	if _, any := k.before(1<<40, floor, floor.AddDate(1, 0, 0)); !any {
		t.Error("it takes a key for new that it may have forgotten")
	}
	if _, any := k.before(1<<40, k.horizon, floor.AddDate(1, 0, 0)); any {
		t.Error("it takes a new key for one that it may have forgotten, though nobody asks so far back")
	}
}

// What is asked of older times than the memory knows may be anything.
func TestKnownKeysKnowsItsHorizon(t *testing.T) {
	floor := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	k := remembered(floor, 1<<20)
	if _, any := k.before(7, floor, floor.AddDate(1, 0, 0)); any {
		t.Error("a new key has a past")
	}
	if s, any := k.before(7, floor.Add(-25*time.Hour), floor); !any || !s.First.Equal(floor.Add(-25*time.Hour)) {
		t.Errorf("beyond its horizon it says %v, %t", s, any)
	}
	k.loaded[0] = false
	if _, any := k.before(7, floor, floor.AddDate(1, 0, 0)); !any {
		t.Error("it knows of a shard that was not loaded")
	}
}
