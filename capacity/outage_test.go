package main

import (
	"math"
	"testing"
)

// steady is a load that is a half of what each part takes.
func steady() scenario {
	return scenario{rate: 12_000, partitions: 12, processes: 3, partition: 2000, process: 8000, store: 24_000,
		session: 30, deal: 8, fullRows: 500, rowMemory: 1000, memory: 1.6e6}
}

func sum(of []float64) (all float64) {
	for _, x := range of {
		all += x
	}
	return all
}

func TestLagIsWhatArrivedAndWasNotStored(t *testing.T) {
	s := steady()
	s.downFrom, s.downTo, s.killed = 100, 400, 380
	s.store = 17_000
	before := make([]float64, s.partitions)
	out := s.run(func(at int, st *state) {
		of := make([]float64, s.processes)
		for p := range st.lag {
			if st.lag[p] < 0 || math.Abs(st.arrived[p]-st.stored[p]-st.lag[p]) > 1e-3 {
				t.Fatalf("%d s: partition %d: %v arrived, %v are stored, the lag is %v", at, p, st.arrived[p], st.stored[p], st.lag[p])
			}
			took := st.stored[p] - before[p]
			if took < 0 || took > s.partition+1e-6 {
				t.Fatalf("%d s: partition %d took %v", at, p, took)
			}
			of[st.owner[p]] += took
			before[p] = st.stored[p]
		}
		for process, took := range of {
			if took > s.process+1e-6 {
				t.Fatalf("%d s: process %d took %v", at, process, took)
			}
		}
		if all := sum(of); all > s.store+1e-6 || at >= s.downFrom && at < s.downTo && all > 0 {
			t.Fatalf("%d s: the store took %v", at, all)
		}
	})
	if out.never || out.peak < 300*s.rate {
		t.Errorf("got %+v", out)
	}
}

func TestCatchUpTakesAsLongAsReckoned(t *testing.T) {
	for name, narrow := range map[string]func(s *scenario){
		"store":      func(s *scenario) { s.store = 18_000 },
		"processes":  func(s *scenario) { s.process = 5000 },
		"partitions": func(s *scenario) { s.partition = 1100 },
	} {
		for _, outage := range []int{1, 600, 3600} {
			s := steady()
			narrow(&s)
			s.downFrom, s.downTo = 10, 10+outage
			takes := min(s.store, s.process*float64(s.processes), s.partition*float64(s.partitions))
			want := float64(outage) * s.rate / (takes - s.rate)
			out := s.run(nil)
			if out.never || math.Abs(float64(out.caught)-want) > 1 {
				t.Errorf("%s, %d s: caught up after %d s, never %t; want %v", name, outage, out.caught, out.never, want)
			}
			if math.Abs(out.peak-float64(outage)*s.rate) > 1 || math.Abs(out.oldest-float64(outage)) > 1e-6 {
				t.Errorf("%s, %d s: a lag of %v, an event waits %v s", name, outage, out.peak, out.oldest)
			}
		}
	}
}

func TestWhatIsTooLittleNeverCatchesUp(t *testing.T) {
	for name, change := range map[string]func(s *scenario){
		"just the load":            func(s *scenario) { s.store, s.downTo = s.rate, 60 },
		"less, without any outage": func(s *scenario) { s.process = 3999 },
		"one partition too slow":   func(s *scenario) { s.partition = 999 },
		"the only process killed":  func(s *scenario) { s.processes, s.process, s.killed = 1, 24_000, 5 },
		"two left of three":        func(s *scenario) { s.process, s.killed = 5000, 5 },
	} {
		s := steady()
		change(&s)
		if out := s.run(nil); !out.never {
			t.Errorf("%s: caught up after %d s", name, out.caught)
		}
	}
	s := steady()
	if out := s.run(nil); out.never || out.peak != 0 {
		t.Errorf("with enough of everything: %+v", out)
	}
}

func TestPartitionsOfAKilledProcessStandStill(t *testing.T) {
	s := steady()
	s.killed = 20
	expired, dealt := s.killed+s.session, s.killed+s.session+s.deal
	before := make([]float64, s.partitions)
	out := s.run(func(at int, st *state) {
		for p := range st.stored {
			of := p % s.processes // as it was before the deal
			stands := at >= s.killed && at < dealt && (of == 0 || at >= expired)
			if took := st.stored[p] - before[p]; (took == 0) != stands {
				t.Fatalf("%d s: partition %d of process %d took %v", at, p, of, took)
			}
			if at >= dealt && st.owner[p] == 0 {
				t.Fatalf("%d s: partition %d still belongs to who was killed", at, p)
			}
			before[p] = st.stored[p]
		}
	})
	if want := float64(s.session + s.deal); math.Abs(out.oldest-want) > 1e-6 {
		t.Errorf("an event waits for %v s; want %v", out.oldest, want)
	}
	own, all := s.rate/float64(s.processes), s.rate
	if want := own*float64(s.session) + all*float64(s.deal); math.Abs(out.peak-want) > 1e-3 {
		t.Errorf("a lag of %v; want %v", out.peak, want)
	}
}

func TestMemoryDoesNotGrowWithLag(t *testing.T) {
	var held []float64
	for _, hours := range []int{1, 10} {
		s := steady()
		s.downTo = hours * 3600
		held = append(held, s.run(nil).held)
	}
	if held[0] != held[1] || held[0] != 1.6e6 {
		t.Errorf("a process holds %v bytes after one hour and after ten; want its memory, all of it and no more", held)
	}
	s := steady()
	s.memory = 1e9
	s.downTo = 3600
	if got, want := s.run(nil).held, 4*s.fullRows*s.rowMemory; got != want {
		t.Errorf("with memory enough a process holds %v; want a batch of each of its partitions, %v", got, want)
	}
}

func TestWhoWantsLittleGetsIt(t *testing.T) {
	a, b, c := 10.0, 1.0, 4.0
	level(9, []*float64{&a, &b, &c})
	if a != 4 || b != 1 || c != 4 {
		t.Errorf("got %v, %v, %v; want 4, 1, 4", a, b, c)
	}
}

// A killed process of a plan leaves enough to catch up: otherwise the plan would be none.
func TestPlansSurviveTheirTroubles(t *testing.T) {
	in := defaults()
	for _, rate := range usualRates {
		p := in.plan(rate)
		for _, o := range in.outages(&p) {
			if out := o.run(nil); out.never || out.held > in.memory*mib {
				t.Errorf("%v/s, %s: %+v", rate, o.name, out)
			}
		}
	}
}
