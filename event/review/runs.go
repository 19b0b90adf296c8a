package review

import (
	"fmt"
	"time"
)

// What it takes to say something of runs.
const (
	fewRuns      = 20  // of fewer runs nothing is said of their length
	nearTimeout  = 0.8 // of a time-out: a run that takes as long comes near it
	fewOver      = 3   // ids that outlast a time-out and are never delivered again: it does not hold for this task
	fewFailures  = 20  // of fewer failed or retried runs nothing is said of what came before
	fewEffects   = 20  // the same for effects
	fewForOnce   = 100 // of fewer ids nothing good is said of work being done once
	fewAnswering = 10  // of fewer ids nothing is said of how they are acknowledged
)

// timeouts asks whether the longest run comes near a time-out that makes the broker deliver it again.
func timeouts(m *Measure) Answer {
	longest := m.Longest()
	a := Answer{Numbers: Numbers{{"runs", float64(m.Took.Count)}, {"p50_seconds", rounded(m.Took.P50)}, {"p95_seconds", rounded(m.Took.P95)},
		{"p99_seconds", rounded(m.Took.P99)}, {"longest_run_seconds", rounded(m.Took.Max)}, {"longest_held_seconds", rounded(m.Held.Max)}}}
	nearest := m.Nearest()
	if m.Took.Count < fewRuns && (nearest == nil || nearest.Again == 0) {
		a.Verdict, a.Says = NotSeen, only(m.Took.Count, "run")+" seen from start to end."
		return a
	}
	took := fmt.Sprintf("The longest run took %s (p99 %s)", Length(m.Took.Max), Length(m.Took.P99))
	if m.Held.Max > m.Took.Max+1 {
		took = fmt.Sprintf("The longest delivery was held for %s (its run and the wait before it; runs take %s at p99)", Length(m.Held.Max), Length(m.Took.P99))
	}
	if nearest == nil {
		a.Verdict, a.Says = NotSeen, took+", and no time-out is known that it could come near."
		return a
	}
	share := longest.Seconds() / nearest.After.Seconds()
	a.Numbers = append(a.Numbers, Number{"timeout_seconds", nearest.After.Seconds()}, Number{"of_timeout", rounded(share)},
		Number{"ids_over", float64(nearest.Over)}, Number{"ids_over_delivered_again", float64(nearest.Again)})
	switch {
	case nearest.Over > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s: %s longer than %s allows, and %s delivered again.", took, was(nearest.Over, "task id"), nearest.text(), was(nearest.Again, "of them", "of them"))
	case Near(longest, nearest.After):
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s: %s of %s.", took, percent(share), nearest.text())
	default:
		a.Verdict, a.Says = Good, fmt.Sprintf("%s: %s of %s.", took, percent(share), nearest.text())
	}
	return a
}

// Nearest is the shortest time-out that may hold for the task; nil where there is none.
func (m *Measure) Nearest() *Against {
	var nearest *Against
	for i := range m.Timeouts {
		t := &m.Timeouts[i]
		if t.Holds() && t.After > 0 && (nearest == nil || t.After < nearest.After) {
			nearest = t
		}
	}
	return nearest
}

// Holds reports whether the time-out may hold for the task: one that several ids outlasted while none of them was
// delivered again does not.
func (t *Against) Holds() bool { return t.Over < fewOver || t.Again > 0 }

// Near reports whether something that takes so long comes near a time-out.
func Near(longest, timeout time.Duration) bool {
	return longest.Seconds() >= nearTimeout*timeout.Seconds()
}

func (t *Against) text() string {
	if t.Name == "" {
		return "the time-out of " + length(t.After)
	}
	return t.Name
}

// effectsLast asks whether a failing step can make an effect happen again.
func effectsLast(m *Measure) Answer {
	a := Answer{Numbers: Numbers{{"effects", float64(m.Effects)}, {"failed_or_retried_runs", float64(m.Failures)}, {"of_them_after_an_effect", float64(m.FailuresAfter)}}}
	switch {
	case m.FailuresAfter > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s came to it after an effect was done: a further attempt does the effect again.", outOf(m.FailuresAfter, m.Failures, "failed or retried run"))
	case m.Effects == 0:
		a.Verdict, a.Says = NotSeen, "It tells of no effects."
	case m.Effects < fewEffects || m.Failures < fewFailures:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("Only %s and %s seen, none of these after an effect.", count(m.Effects, "effect"), count(m.Failures, "failed or retried run"))
	default:
		a.Verdict, a.Says = Good, fmt.Sprintf("None of %s had done an effect before.", count(m.Failures, "failed or retried run"))
	}
	return a
}

// acknowledgement asks whether the task bears what its acknowledgements lead to: late ones to redelivery of work that may
// have been done, early ones to work that is lost with its worker.
func acknowledgement(m *Measure) Answer {
	a := Answer{Numbers: Numbers{{"ids_acknowledged_late", float64(m.LateIDs)}, {"ids_acknowledged_early", float64(m.EarlyIDs)},
		{"effects", float64(m.Effects)}, {"effects_with_idempotency_key", float64(m.KeyedEffects)}, {"ids_lost", float64(m.LostIDs)}}}
	bare := m.Effects - m.KeyedEffects
	switch {
	case m.LateIDs+m.EarlyIDs < fewAnswering:
		a.Verdict, a.Says = NotSeen, "Whether it acknowledges late or early is not told."
		if n := m.LateIDs + m.EarlyIDs; n > 0 {
			a.Says = fmt.Sprintf("Whether it acknowledges late or early is told of %s only.", count(n, "task id"))
		}
	case m.LateIDs > 0 && bare > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("It acknowledges late, so that what its worker leaves behind is delivered again, and %s no idempotency key.",
			outOf(bare, m.Effects, "effect")+" carry")
	case m.LateIDs > 0 && m.Effects == 0:
		a.Verdict, a.Says = NotSeen, "It acknowledges late, so that what its worker leaves behind is delivered again. It tells of no effects that could happen twice."
	case m.LateIDs > 0:
		a.Verdict, a.Says = Good, fmt.Sprintf("It acknowledges late, and all %s carry an idempotency key.", count(m.Effects, "effect"))
	case m.LostIDs > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("It acknowledges early, and %s lost with a worker: nothing delivers them again.", was(m.LostIDs, "task id"))
	default:
		a.Verdict, a.Says = Good, "It acknowledges early, and nothing was lost with a worker."
	}
	return a
}

// repeats asks how much was done again.
func repeats(m *Measure) Answer {
	again := m.Redeliveries + m.RepeatedIDs
	a := Answer{Numbers: Numbers{{"task_ids", float64(m.IDs)}, {"runs", float64(m.Runs)}, {"redeliveries", float64(m.Redeliveries)}, {"copies_that_ran", float64(m.RepeatedIDs)},
		{"effects", float64(m.Effects)}, {"effects_beyond_the_first", float64(m.ExtraEffects)}, {"of_them_under_one_idempotency_key", float64(m.GuardedEffects)},
		{"successes_beyond_the_first", float64(m.ExtraSuccesses)}}}
	what := "effect"
	if m.Effects == 0 {
		what = "success" // what stands for an effect where none are told
	}
	extra := fmt.Sprintf("%s repeated, without %s beyond the first.", was(again, "run"), article(what))
	if again == 0 {
		extra = fmt.Sprintf("No run of %s was repeated.", count(m.IDs, "task id"))
	}
	switch {
	case m.Extra() > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s repeated, with %s beyond the first.", was(again, "run"), count(m.Extra(), what, plurals[what]))
	case m.GuardedEffects > 0:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("%s repeated, with %s beyond the first, under one idempotency key each.", was(again, "run"), count(m.GuardedEffects, what))
	case m.IDs < fewForOnce:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("Only %s seen. %s", was(m.IDs, "task id"), extra)
	default:
		a.Verdict, a.Says = Good, extra
	}
	return a
}

var plurals = map[string]string{"effect": "effects", "success": "successes"}

func article(noun string) string {
	if noun == "effect" {
		return "an effect"
	}
	return "a " + noun
}
