package main

import (
	"cmp"
	"slices"
	"time"

	"auditor/event"
)

// oracle says what stories amount to. It knows when everything happened in truth, and why.
type oracle struct {
	end   time.Duration // of all that happens
	books *books
}

// judge gives the troubles of a story of which every word was told.
func (o *oracle) judge(s *story) []trouble {
	var all []trouble
	all = append(all, s.repeatedEffects()...)
	all = append(all, s.concurrentRuns()...)
	for _, j := range s.jobs {
		all = append(all, s.jobTroubles(j, o.end)...)
	}
	all = append(all, s.swallowed(o.end)...)
	all = append(all, s.partial()...)
	for i := range all {
		t := &all[i]
		t.namespace, t.script = s.fleet.namespace, s.script.name
		if t.root.kind == "" {
			t.root = s.root
		}
		if t.evidence == "" {
			t.evidence = evident
		}
	}
	o.books.enter(s)
	return all
}

// subject is what findings about a job are filed under.
func (j *job) subject() string { return cmp.Or(j.key, j.id) }

// told is when a word was said by the clock of whoever said it.
func (w *word) told() time.Duration { return w.at + w.emitter.clock }

func (w *word) seen() bool { return w != nil && !w.lost && !w.silent }

// seen reports whether no word of the run was lost.
func (r *run) seen() bool { return !slices.ContainsFunc(r.words, func(w *word) bool { return w.lost }) }

func (r *run) first() *word { return r.words[0] }
func (r *run) latest() *word {
	return slices.MaxFunc(r.words, func(a, b *word) int { return cmp.Compare(a.at, b.at) })
}

// unclear reports whether the clocks of two words differ by more than what separates them.
func unclear(a, b *word) bool {
	return a.emitter.clock != b.emitter.clock && (a.told()-b.told()).Abs() <= skew
}

// succeeded reports whether the run is said to have succeeded.
func (r *run) succeeded() bool { return r.ended(event.Succeeded) != nil }

func (r *run) ended(t event.Type) *word {
	for _, w := range r.ends {
		if w.event.Type == t {
			return w
		}
	}
	return nil
}

func (r *run) aside() bool { return r.ended(event.Skipped) != nil || r.ended(event.Revoked) != nil }

// happening is an effect that happened, or the success of a run of a task that has none.
type happening struct {
	run  *run
	word *word
}

// causes of a repeated effect, the first that fits wins.
var causes = []string{"redelivered_while_running", "worker_lost", "redelivered_after_success", "retried_after_effect", "published_twice", "unknown"}

func (s *story) repeatedEffects() []trouble {
	type deedOf struct{ name, target string }
	happened := map[deedOf][]happening{}
	var order []deedOf
	add := func(of deedOf, h happening) {
		if happened[of] == nil {
			order = append(order, of)
		}
		happened[of] = append(happened[of], h)
	}
	for _, r := range s.runs {
		for _, d := range r.effects {
			if !d.dropped {
				add(deedOf{d.name, d.target}, happening{r, d.word})
			}
		}
		if w := r.ended(event.Succeeded); w != nil && len(r.task.effects) == 0 {
			add(deedOf{r.task.name, ""}, happening{r, w})
		}
	}
	var all []trouble
	for _, of := range order {
		if h := happened[of]; len(h) > 1 {
			slices.SortStableFunc(h, func(a, b happening) int { return cmp.Compare(a.word.at, b.word.at) })
			t := repeated(h)
			if t.kind == "retried_after_effect" {
				t.root = s.failingStep(h[0].run)
			}
			t.about = about{rule: repeatedEffect, subject: h[0].run.subject(), detail: of.name + " " + of.target}
			all = append(all, t)
		}
	}
	return all
}

// failingStep is what all keys have in common of which a task's effect is done again because a step behind it fails: one day's.
func (s *story) failingStep(r *run) root {
	name := r.task.name
	if err := r.ends[0].event.Error; err != nil {
		name += ", " + err.Type
	}
	return root{"retry", name + " " + s.moment(r.until).Format(time.DateOnly)}
}

// repeated says why something happened more than once.
func repeated(all []happening) trouble {
	t := trouble{task: all[0].run.task.name}
	possible := []string{"unknown"}
	for i, h := range all {
		if h.word.seen() {
			t.count++
		}
		if !h.run.seen() {
			t.evidence = hidden
		}
		if i == 0 {
			continue
		}
		var next []string
		for _, a := range possible {
			for _, b := range causesOf(all[:i], h) {
				if c := causes[min(slices.Index(causes, a), slices.Index(causes, b))]; !slices.Contains(next, c) {
					next = append(next, c)
				}
			}
		}
		possible = next
	}
	t.kind, t.also = possible[0], possible[1:]
	return t
}

// causesOf gives why something happened again: first the true cause, and then what it may look like as well.
func causesOf(earlier []happening, again happening) []string {
	before := -1
	for i, h := range earlier {
		if h.run.job == again.run.job {
			before = i
		}
	}
	if before < 0 {
		return []string{"published_twice"}
	}
	first, next := earlier[before].run, again.run
	if first == next {
		return []string{"unknown"}
	}
	if next.number < first.number { // the run that began later was done earlier
		first, next = next, first
	}
	for next.from != nil && next.from != first {
		next = next.from
	}
	switch cause := string(next.via); {
	case next.via == retried || next.via == requeued:
		return []string{"retried_after_effect"}
	case first.ended(event.WorkerLost) != nil || !unclear(first.latest(), next.first()):
		return []string{cause}
	case next.via == lostWorker:
		return []string{cause, "redelivered_while_running"}
	case next.via == whileRunning:
		return []string{cause, "redelivered_after_success"}
	default:
		return []string{cause, "redelivered_while_running"}
	}
}

func (s *story) concurrentRuns() []trouble {
	type overlap struct {
		a, b    *run
		length  time.Duration // as it is told
		evident bool
	}
	longest := map[string]overlap{}
	for i, b := range s.runs {
		for _, a := range append(slices.Clone(s.runs[:i]), s.runs[i+1:]...) {
			if a.task.name != b.task.name || a.started == nil || b.started == nil || a.aside() || b.aside() || a.started.at > b.started.at || a.until <= b.started.at {
				continue
			}
			last := a.latest()
			o := overlap{a, b, min(last.told(), b.latest().told()) - b.started.told(), false}
			o.evident = o.length > skew || o.length > 0 && last.emitter.clock == b.started.emitter.clock
			if known, any := longest[b.task.name]; !any || o.evident && !known.evident || o.evident == known.evident && o.length > known.length {
				longest[b.task.name] = o
			}
		}
	}
	var all []trouble
	for name, o := range longest {
		t := trouble{about: about{rule: concurrentRuns, subject: o.a.subject(), detail: name}, kind: "published_twice", task: name}
		if o.a.job == o.b.job {
			t.kind = "redelivered_while_running"
		}
		switch {
		case !o.a.seen() || !o.b.seen():
			t.evidence = hidden
		case !o.evident:
			t.evidence = undecidable
		}
		all = append(all, t)
	}
	return all
}

// jobTroubles gives what went wrong with one message.
func (s *story) jobTroubles(j *job, end time.Duration) []trouble {
	var all []trouble
	add := func(rule, kind string, ok bool, words ...*word) *trouble {
		if !ok {
			return nil
		}
		t := trouble{about: about{rule: rule, subject: j.subject(), detail: j.id}, kind: kind, task: j.task.name}
		if slices.ContainsFunc(words, func(w *word) bool { return w.lost }) {
			t.evidence = hidden
		}
		all = append(all, t)
		return &all[len(all)-1]
	}
	runs := slices.DeleteFunc(slices.Clone(s.runs), func(r *run) bool { return r.job != j })
	var words []*word
	for _, r := range runs {
		words = append(words, r.words...)
	}
	add(retryStorm, "loop", j.task.name != polled && densest(runs) >= 10, words...)
	if t := add(redeliveryLoop, "", deliveries(runs) >= 5, words...); t != nil {
		t.count = len(runs)
	}
	if t := add(stuckPending, string(j.state), j.stuck(end)); t != nil {
		t.last, t.due = j.last, max(j.since+j.wait, j.eta)
	}
	s.drift(j, runs, add)
	for _, r := range runs {
		if a, b := r.ended(event.Succeeded), r.ended(event.Failed); a != nil && b != nil {
			kind := "succeeded, failed"
			if b.at < a.at {
				kind = "failed, succeeded"
			}
			add(terminalConflict, kind, true, r.words...)
		}
	}
	s.late(j, runs, add)
	return all
}

type adder func(rule, kind string, ok bool, words ...*word) *trouble

// densest is how many retries of a job came within a minute.
func densest(runs []*run) int {
	var at []time.Duration
	for _, r := range runs {
		if w := r.ended(event.Retried); w != nil {
			at = append(at, w.at)
		}
	}
	return most(at, time.Minute)
}

// deliveries is how often one attempt was delivered within an hour, at most.
func deliveries(runs []*run) int {
	byAttempt := map[int][]time.Duration{}
	best := 0
	for _, r := range runs {
		byAttempt[r.attempt] = append(byAttempt[r.attempt], r.first().at)
		best = max(best, most(byAttempt[r.attempt], time.Hour))
	}
	return best
}

// most is how many moments lie within one span at most.
func most(at []time.Duration, within time.Duration) int {
	slices.Sort(at)
	best, from := 0, 0
	for to := range at {
		for at[to]-at[from] > within {
			from++
		}
		best = max(best, to-from+1)
	}
	return best
}

// stuck reports whether a job waits for longer than it should.
func (j *job) stuck(end time.Duration) bool {
	switch j.state {
	case isOver, "":
		return false
	case isStarted:
		return j.since+stuckAfter < end
	}
	if j.expires > 0 && j.expires < end {
		return false
	}
	return max(j.since+j.wait, j.eta)+stuckAfter < end
}

func (s *story) drift(j *job, runs []*run, add adder) {
	keys := map[string]bool{}
	idems := map[string]map[string]bool{}
	var words []*word
	for _, w := range s.words {
		if w.event.TaskID == j.id && !w.silent {
			keys[w.event.BusinessKey] = true
		}
	}
	for _, r := range runs {
		for _, d := range r.effects {
			of := d.name + " " + d.target
			if idems[of] == nil {
				idems[of] = map[string]bool{}
			}
			idems[of][d.idem] = true
			words = append(words, d.word)
		}
	}
	if t := add(keyDrift, "business_key", len(keys) > 1); t != nil {
		t.subject = ""
	}
	for _, of := range idems {
		if len(of) > 1 {
			if t := add(keyDrift, "idempotency_key", true, words...); t != nil {
				t.subject = ""
			}
			return
		}
	}
}

// late finds the runs that started or went on too late. The limits were set by the first publisher's clock.
func (s *story) late(j *job, runs []*run, add adder) {
	clock := s.fleet.web[0].clock
	for _, r := range runs {
		if r.started == nil || r.aside() {
			continue
		}
		w, limit := r.started, j.expires
		if limit == 0 || w.at <= limit {
			w, limit = r.latest(), j.deadline
		}
		if limit == 0 || w.at <= limit {
			continue
		}
		if t := add(deadlineMissed, "", true, r.words...); w.told()-(limit+clock) <= skew {
			t.evidence = undecidable
		}
		return
	}
}

// swallowed finds the work that was left to a run that never did it.
func (s *story) swallowed(end time.Duration) []trouble {
	byTask := map[string][]*run{}
	for _, r := range s.runs {
		byTask[r.task.name] = append(byTask[r.task.name], r)
	}
	var all []trouble
	for name, runs := range byTask {
		first := slices.IndexFunc(runs, func(r *run) bool { return r.ended(event.Skipped) != nil })
		if first < 0 || !swallowedAmong(runs, end) {
			continue
		}
		t := trouble{about: about{rule: swallowedWork, subject: runs[first].subject(), detail: name}, task: name}
		if slices.ContainsFunc(runs, func(r *run) bool { return !r.seen() }) {
			t.evidence = hidden
		}
		all = append(all, t)
	}
	return all
}

const swallowedAfter = 15 * time.Minute

// swallowedAmong reports whether a run stood aside, and the work was never done, or not soon although whoever held it was
// dead.
func swallowedAmong(runs []*run, end time.Duration) bool {
	done := never
	dead := never
	for _, r := range runs {
		if r.succeeded() && (done == never || r.until < done) {
			done = r.until
		}
		if r.until != never && !r.aside() && !r.succeeded() && r.ended(event.Retried) == nil || r.ended(event.Revoked) != nil {
			dead = r.until
		}
	}
	for _, r := range runs {
		skip := r.ended(event.Skipped)
		switch {
		case skip == nil || skip.at+swallowedAfter > end:
		case done == never, dead != never && skip.at > dead && done > skip.at+swallowedAfter:
			return true
		}
	}
	return false
}

// partial finds the tasks that ended for good with some of their effects done, and not all.
func (s *story) partial() []trouble {
	var all []trouble
	for _, j := range s.jobs {
		targets := s.targetsOf(j.task)
		want := len(j.task.effects) * len(targets)
		var last *run
		done := map[string]bool{}
		var words []*word
		for _, r := range s.runs {
			if r.job != j {
				continue
			}
			last = r
			words = append(words, r.words...)
			for _, d := range r.effects {
				done[d.name+" "+d.target] = true
			}
		}
		if last == nil || last.until == never || last.succeeded() || j.state == isRetry || len(done) == 0 || len(done) == want && len(targets) == 1 {
			continue
		}
		t := trouble{about: about{rule: partialEffects, subject: j.subject(), detail: j.task.name}, task: j.task.name}
		switch {
		case slices.ContainsFunc(words, func(w *word) bool { return w.lost }):
			t.evidence = hidden
		case len(targets) > 1 && (len(done) == 1 || len(done) == want): // nobody told how many targets there were to be
			t.evidence = undecidable
		}
		all = append(all, t)
	}
	return all
}
