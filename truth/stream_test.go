package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"auditor/event"
)

// read reads a whole stream.
func read(s *stream) []record {
	var all []record
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		all = append(all, r)
	}
	return all
}

func small(seed uint64) *stream { return newStream(seed, opening, 5*time.Hour, 5000) }

func TestSameSeedSameTruth(t *testing.T) {
	a, b, other := small(1), small(1), small(2)
	first, again := read(a), read(b)
	abouts := func(s *stream) (all []about) {
		for _, t := range s.truth.sorted() {
			all = append(all, t.about)
		}
		return all
	}
	if !reflect.DeepEqual(first, again) || !slices.Equal(abouts(a), abouts(b)) {
		t.Error("the same seed told other events, or knows of other troubles")
	}
	if reflect.DeepEqual(first, read(other)) {
		t.Error("another seed told the same events")
	}
}

// Records come in the order of their arrival, each event under one id, and what an emitter's numbers lack is known.
func TestStreamIsAsItSaysOfItself(t *testing.T) {
	s := small(3)
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	last := time.Duration(0)
	contents := make(map[string]string)
	numbers := make(map[string]map[int64]bool)
	tasks := make(map[string]bool)
	for _, r := range read(s) {
		if r.at < last {
			t.Fatalf("%s arrives after %s", r.at, last)
		}
		last = r.at
		events, rejects := decoder.Decode(event.Record{Value: r.value, Time: s.moment(r.at)})
		if len(rejects) > 0 || len(events) != 1 {
			t.Fatalf("%s: %+v", r.value, rejects)
		}
		e := events[0]
		if before, again := contents[e.ID]; again && before != string(r.value) {
			t.Fatalf("%s is told in two ways", e.ID)
		}
		contents[e.ID] = string(r.value)
		if numbers[e.Emitter] == nil {
			numbers[e.Emitter] = make(map[int64]bool)
		}
		numbers[e.Emitter][e.Seq] = true
		tasks[e.TaskID] = true
		if off := e.Time.Sub(s.moment(r.at)); off > skew/2 || off < -skew/2-margin {
			t.Fatalf("%s arrives %s after its time", e.ID, -off)
		}
	}
	lost := 0
	for _, e := range s.emitters {
		for _, w := range e.lost {
			if lost++; numbers[e.name][w.seq] {
				t.Errorf("%d of %s was not lost", w.seq, e.name)
			}
		}
		if e.seq != int64(len(numbers[e.name])+len(e.lost)) {
			t.Errorf("%s told %d events: %d arrived and %d were lost", e.name, e.seq, len(numbers[e.name]), len(e.lost))
		}
	}
	if len(contents) != s.events || lost == 0 || s.twice == 0 || s.late == 0 {
		t.Errorf("%d events of %d, %d lost, %d twice, %d late", len(contents), s.events, lost, s.twice, s.late)
	}
	if len(tasks) < s.tasks*99/100 {
		t.Errorf("%d tasks, want %d", len(tasks), s.tasks)
	}
}

// A script that only looks like trouble makes none, and one that goes wrong makes some.
func TestScriptsAreWhatTheySay(t *testing.T) {
	for seed := range uint64(4) {
		s := small(seed)
		read(s)
		amiss := make(map[string]bool)
		for _, script := range s.truth.byNumber {
			if script != nil {
				amiss[script.name] = script.amiss
			}
		}
		for _, trouble := range s.truth.troubles {
			if calm, known := amiss[trouble.script]; known && !calm && trouble.rule != permanentErrorRetried {
				t.Errorf("seed %d: %s makes trouble: %+v", seed, trouble.script, trouble)
			}
		}
	}
}

// Each kind of trouble happens, whatever the seed.
func TestWholeCatalogue(t *testing.T) {
	s := newStream(1, opening, 5*time.Hour, 40_000)
	read(s)
	happened := make(map[class]int)
	for _, t := range s.truth.troubles {
		happened[class{t.rule, t.kind}]++
	}
	for _, c := range []class{
		{repeatedEffect, "redelivered_while_running"}, {repeatedEffect, "worker_lost"}, {repeatedEffect, "redelivered_after_success"},
		{repeatedEffect, "retried_after_effect"}, {repeatedEffect, "published_twice"}, {repeatedEffect, "unknown"},
		{concurrentRuns, "published_twice"}, {concurrentRuns, "redelivered_while_running"},
		{retryStorm, "loop"}, {retryStorm, "synchronised"}, {retryStorm, "surge"}, {redeliveryLoop, ""},
		{stuckPending, "sent"}, {stuckPending, "received"}, {stuckPending, "started"}, {stuckPending, "retry"},
		{swallowedWork, ""}, {keyDrift, "business_key"}, {keyDrift, "idempotency_key"},
		{permanentErrorRetried, "declared"}, {permanentErrorRetried, "exhausted"}, {deadlineMissed, ""}, {partialEffects, ""},
		{terminalConflict, "succeeded, failed"}, {terminalConflict, "failed, succeeded"}, {eventsLost, ""},
	} {
		if happened[c] == 0 {
			t.Errorf("no trouble of %s %s", c.rule, c.kind)
		}
	}
	troubled, stories := 0, 0
	for _, script := range s.truth.byNumber {
		if script != nil {
			if stories++; script.amiss {
				troubled++
			}
		}
	}
	if troubled*20 > stories {
		t.Errorf("%d of %d stories go wrong, want less than one in twenty", troubled, stories)
	}
}

func TestFindingsAreReadAsTheyAreTold(t *testing.T) {
	text, err := json.Marshal(map[string]any{"rule": repeatedEffect, "namespace": "eu", "business_key": "receipt:9", "task_ids": []string{"a"},
		"task": "mail.send_receipt", "cause": "worker_lost", "effects": 2, "effect": "email.send", "target": "ada"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFound(text)
	want := about{repeatedEffect, "eu", "receipt:9", "email.send ada"}
	if err != nil || f.about() != want || f.kind() != "worker_lost" || f.count() != 2 {
		t.Errorf("%+v, %v: it is about %+v", f, err, f.about())
	}
}
