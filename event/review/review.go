// Package review answers, of one task, the questions that a reviewer asks before production, from what was measured of its
// events: a verdict, a sentence, and the numbers behind it.
//
// It is pure, like all below event: the same measure always gets the same answers. What measures is the store; docs/review.md
// tells people what each verdict takes, and this package is held to it by its tests.
package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// Query says what is to be measured.
type Query struct {
	Settings
	Task      *string   // nil: every task
	Namespace *string   // nil: every namespace
	Since     time.Time // events that reached Kafka before count for nothing; zero: all count
}

// Settings are what a review takes from the configuration.
type Settings struct {
	Timeouts []Timeout                // all that are known, of all tasks and of some
	Of       func(task string) OfTask // what holds for a task; nil: all time-outs, and no look-back
}

// OfTask is what holds for one task.
type OfTask struct {
	LookBack time.Duration // how far apart two effects of one key may be and still count as one repeated
	Timeouts []Timeout     // what may make the broker deliver the task again
}

// For gives what holds for a task.
func (s Settings) For(task string) OfTask {
	if s.Of == nil {
		return OfTask{Timeouts: s.Timeouts}
	}
	return s.Of(task)
}

// Timeout is a time-out of a broker, a lease or a lock.
type Timeout struct {
	Name  string
	After time.Duration
}

// Sample is what a measure rests on.
type Sample struct {
	Since  time.Time `json:"since,omitzero"` // zero: everything that is stored
	OneIn  int64     `json:"one_in"`         // one key in so many was measured; 1: every key
	Events int       `json:"events"`         // that were measured, of all tasks that were asked for
}

// Verdict is what an answer comes to.
type Verdict string

// The verdicts.
const (
	Good    Verdict = "good"
	Bad     Verdict = "bad"
	NotSeen Verdict = "not_seen" // not seen enough to say
)

// Verdicts lists the verdicts, the worst first.
var Verdicts = []Verdict{Bad, NotSeen, Good}

// Question names what is asked.
type Question string

// The questions, in the order in which they are asked.
const (
	BusinessKey     Question = "business_key"
	StableKeys      Question = "stable_keys"
	CopiesSkipped   Question = "copies_skipped"
	BackOff         Question = "back_off"
	Bounded         Question = "bounded"
	PermanentErrors Question = "permanent_errors"
	Timeouts        Question = "timeouts"
	EffectsLast     Question = "effects_last"
	Acknowledgement Question = "acknowledgement"
	Repeats         Question = "repeats"
)

// questions hold what each question asks in words, and what answers it.
var questions = []struct {
	question Question
	asks     string
	answer   func(*Measure) Answer
}{
	{BusinessKey, "Does it carry a business key?", businessKey},
	{StableKeys, "Are its keys stable over retries and redeliveries?", stableKeys},
	{CopiesSkipped, "Are copies skipped?", copiesSkipped},
	{BackOff, "Do its retries back off, with jitter?", backOff},
	{Bounded, "Are its retries bounded?", bounded},
	{PermanentErrors, "Does it give up at once where no retry can heal?", permanentErrors},
	{Timeouts, "Do its runs end well before the time-outs?", timeouts},
	{EffectsLast, "Do its effects come after the steps that fail?", effectsLast},
	{Acknowledgement, "Does it bear the way it acknowledges?", acknowledgement},
	{Repeats, "Is its work done once?", repeats},
}

// Answer is the answer to one question.
type Answer struct {
	Question Question `json:"question"`
	Asks     string   `json:"asks"`
	Verdict  Verdict  `json:"verdict"`
	Says     string   `json:"says"`
	Numbers  Numbers  `json:"numbers"`
}

// Numbers are what an answer rests on, in the order in which a person reads them.
type Numbers []Number

// Number is one of them. Lengths of time are in seconds, and their names end so.
type Number struct {
	Name  string
	Value float64
}

// MarshalJSON writes one object, in order.
func (n Numbers) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, one := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(one.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.Value)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// Review is all answers about one task, and the measure that they were drawn from.
type Review struct {
	Measure
	Answers []Answer
}

// Of answers every question from a measure.
func Of(m Measure) Review {
	r := Review{Measure: m}
	for _, q := range questions {
		a := q.answer(&m)
		a.Question, a.Asks = q.question, q.asks
		r.Answers = append(r.Answers, a)
	}
	return r
}

// Count is how many answers have a verdict.
func (r *Review) Count(v Verdict) (n int) {
	for _, a := range r.Answers {
		if a.Verdict == v {
			n++
		}
	}
	return n
}

// Compare orders reviews, the worst first: by how many answers are bad, by how much was seen, by name.
func Compare(a, b Review) int {
	return cmp.Or(cmp.Compare(b.Count(Bad), a.Count(Bad)), cmp.Compare(b.IDs, a.IDs),
		strings.Compare(a.Task, b.Task), strings.Compare(a.Namespace, b.Namespace))
}
