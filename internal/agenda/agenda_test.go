package agenda

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSoonestFirstAndInTheOrderOfPlanning(t *testing.T) {
	type thing struct {
		at     time.Duration
		number int
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var a Agenda[thing]
	last, left, number := thing{}, 2000, 0
	for left > 0 || a.Len() > 0 {
		if left > 0 && rng.IntN(3) > 0 {
			number, left = number+1, left-1
			at := last.at + time.Duration(rng.IntN(50))
			a.Add(at, thing{at, number})
			continue
		}
		soonest, any := a.Soonest()
		at, next, ok := a.Next()
		if any != ok || ok && (soonest != at || at != next.at) {
			t.Fatalf("announced %v %d, came %v %+v at %d", any, soonest, ok, next, at)
		}
		if !ok {
			continue
		}
		if next.at < last.at || next.at == last.at && next.number < last.number {
			t.Fatalf("%+v comes after %+v", next, last)
		}
		last = next
	}
	if _, _, ok := a.Next(); ok || number != 2000 {
		t.Errorf("%d planned, and one is left", number)
	}
}
