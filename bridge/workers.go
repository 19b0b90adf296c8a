package bridge

// What is known of a worker's completeness. Each event carries its sender's logical clock, which goes up by one with it; but it also
// goes up with what a worker hears from others, so a clock that was not heard is no proof of a loss: it bounds how much can have
// been lost. A heartbeat tells how many tasks its worker has started so far (processed). Where more were started between two
// heartbeats than were heard to, and clocks were not heard either, as many starts were lost.
//
// Celery sends heartbeats at once and gathers the events of tasks for a moment, so those from before a heartbeat may arrive after
// it. They have lower clocks, and what lies between two heartbeats is judged when the next one comes.

// sign is what an event says of its worker's completeness.
type sign struct {
	Clock     *int64 `json:"clock"`
	Processed *int64 `json:"processed"` // heartbeats only
}

// worker is one start of a worker.
type worker struct {
	name string
	pid  int
}

// window is what was heard from one heartbeat on, until the next.
type window struct {
	from, to  int64 // clocks of the two
	processed int64 // at from
	heard     int64 // events between
	starts    int64 // of them, those that tell of a start
}

// standing is what is known of a worker: the window that grows, and the one before it, for which late events may still come.
type standing struct {
	last, open window
	begun      int // heartbeats heard, up to 2
}

// verdict is what a window says.
type verdict struct {
	lost    int64 // starts that were not heard: at least as many events were lost
	unheard int64 // clocks that were not heard: at most as many events were lost
}

// Bounds of what is believed of a worker: whoever may send to the broker may send anything.
const (
	maxCount = 1 << 53 // of a clock, and of tasks
	maxLost  = 100_000 // between two heartbeats
)

// perGeneration bounds how many workers are known: those heard of last, and at most as many before them.
const perGeneration = 5_000

// workers knows the workers heard of last. The zero value knows none.
type workers struct{ young, old map[worker]*standing }

// forget begins anew with all: what was told in between is not known.
func (w *workers) forget() { w.young, w.old = nil, nil }

// hear takes an event's sign, and judges a window when that is over.
func (w *workers) hear(from worker, s sign, start bool) verdict {
	if !believable(s.Clock) || s.Processed != nil && !believable(s.Processed) {
		return verdict{}
	}
	known := w.find(from)
	if s.Processed == nil {
		if known != nil {
			known.note(*s.Clock, start)
		}
		return verdict{}
	}
	if known == nil {
		known = w.add(from)
	}
	return known.beat(*s.Clock, *s.Processed)
}

func believable(n *int64) bool { return n != nil && *n >= 0 && *n <= maxCount }

func (w *workers) find(from worker) *standing {
	known := w.young[from]
	if known == nil {
		if known = w.old[from]; known != nil {
			w.put(from, known)
		}
	}
	return known
}

func (w *workers) add(from worker) *standing {
	known := new(standing)
	w.put(from, known)
	return known
}

func (w *workers) put(from worker, known *standing) {
	if len(w.young) >= perGeneration {
		w.old, w.young = w.young, nil
	}
	if w.young == nil {
		w.young = make(map[worker]*standing)
	}
	w.young[from] = known
}

// note counts an event in the window of its clock.
func (s *standing) note(clock int64, start bool) {
	of := &s.open
	if s.begun > 1 && clock < s.open.from {
		of = &s.last
	}
	if clock <= of.from {
		return // from before anything was known
	}
	of.heard++
	if start {
		of.starts++
	}
}

// beat ends the open window at a heartbeat, and judges the one before it.
func (s *standing) beat(clock, processed int64) verdict {
	if s.begun > 0 && (clock <= s.open.from || processed < s.open.processed) {
		*s = standing{} // a clock that goes back, as nobody's does: begin anew
	}
	var v verdict
	if s.begun > 1 {
		v = s.last.judge(s.open.processed)
	}
	if s.begun > 0 {
		s.open.to = clock
		s.last = s.open
	}
	s.open = window{from: clock, processed: processed}
	s.begun = min(s.begun+1, 2)
	return v
}

// judge compares what was heard with what the heartbeat at the window's end says.
func (w window) judge(processed int64) verdict {
	unheard := max(w.to-w.from-1-w.heard, 0)
	return verdict{lost: max(min(processed-w.processed-w.starts, unheard, maxLost), 0), unheard: unheard}
}
