package review

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// What it takes to say something of retries.
const (
	fewGaps       = 20  // of fewer gaps nothing is said
	fewOfAttempt  = 5   // an attempt that fewer gaps lead to is left out
	spreadAtLeast = 0.1 // between the tenth and the ninetieth percentile, of the median: otherwise there is no jitter
	growthAtLeast = 1.2 // from one attempt to the next: otherwise there is no back-off
	fewAttempts   = 3   // numbers of attempts that must be seen before missing growth is held against a task
	atOnce        = 1.0 // seconds; retries that come sooner come at once
	tooMany       = 25  // retries of one id, without a known bound
	fewExhausted  = 3   // ids that gave up, for a bound that is not told
	fewOfError    = 5   // ids that gave up on an error that no retry healed
	fewRetried    = 10  // ids that were retried, to say that retries heal
)

// backOff asks whether retries are spread over time or come back together.
func backOff(m *Measure) Answer {
	gaps, all := seenEnough(m.Gaps)
	spread, growth := spreadOf(gaps), growthOf(gaps)
	a := Answer{Numbers: Numbers{{"gaps", float64(all)}, {"attempts_seen", float64(len(gaps))}, {"spread", rounded(spread)}, {"growth", rounded(growth)},
		{"within_one_second", float64(m.Together)}}}
	for _, g := range gaps {
		a.Numbers = append(a.Numbers, Number{fmt.Sprintf("gap_%d_seconds", g.Attempt), rounded(g.Median)})
	}
	if all < fewGaps || len(gaps) == 0 {
		a.Verdict, a.Says = NotSeen, only(all, "attempt after a retry", "attempts after a retry")+" seen."
		return a
	}
	medians := "Attempts follow after " + mediansOf(gaps)
	crowd := ""
	if m.Together > 1 {
		crowd = fmt.Sprintf("; up to %s came within one second", count(m.Together, "attempt"))
	}
	jitter, grows, fewSeen := spread >= spreadAtLeast, growth >= growthAtLeast, len(gaps) < fewAttempts
	switch {
	case gaps[len(gaps)-1].Median < atOnce:
		a.Verdict, a.Says = Bad, medians+": at once, without back-off"+crowd+"."
	case !jitter && !grows:
		a.Verdict, a.Says = Bad, medians+": fixed, without jitter, so that what fails together comes back together"+crowd+"."
	case !jitter:
		a.Verdict, a.Says = Bad, medians+": they back off, but without jitter, so that what fails together comes back together"+crowd+"."
	case !grows && !fewSeen:
		a.Verdict, a.Says = Bad, medians+fmt.Sprintf(": spread by %s, but they do not back off.", percent(spread))
	case !grows:
		a.Verdict, a.Says = Good, medians+fmt.Sprintf(", spread by %s. Whether they back off further cannot be told from so few attempts.", percent(spread))
	default:
		a.Verdict, a.Says = Good, medians+fmt.Sprintf(": they back off, spread by %s.", percent(spread))
	}
	return a
}

// seenEnough leaves out the attempts that few gaps lead to, and counts the gaps of all.
func seenEnough(gaps []Gap) (kept []Gap, all int) {
	for _, g := range gaps {
		all += g.Count
		if g.Count >= fewOfAttempt {
			kept = append(kept, g)
		}
	}
	return kept, all
}

// spreadOf is how far gaps of the same attempt lie apart, as a share of their median: in the middle over all gaps, for a
// part of them may follow another plan.
func spreadOf(gaps []Gap) float64 {
	sorted := slices.DeleteFunc(slices.Clone(gaps), func(g Gap) bool { return g.Median <= 0 })
	slices.SortFunc(sorted, func(a, b Gap) int { return cmp.Compare(a.spread(), b.spread()) })
	all, sum := 0, 0
	for _, g := range sorted {
		all += g.Count
	}
	for _, g := range sorted {
		if sum += g.Count; 2*sum >= all {
			return g.spread()
		}
	}
	return 0
}

func (g Gap) spread() float64 { return (g.High - g.Low) / g.Median }

// growthOf is by what factor gaps grow from one attempt to the next, on the whole; 1 where only one attempt was seen.
func growthOf(gaps []Gap) float64 {
	if len(gaps) < 2 {
		return 1
	}
	first, last := gaps[0], gaps[0]
	for _, g := range gaps[1:] {
		if g.Median > last.Median { // up to the longest, for back-off has an end
			last = g
		}
	}
	if first.Median <= 0 || last.Attempt == first.Attempt {
		return 1
	}
	return math.Pow(last.Median/first.Median, 1/float64(last.Attempt-first.Attempt))
}

func mediansOf(gaps []Gap) string {
	const most = 6
	var parts []string
	for i, g := range gaps {
		if i == most {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, Length(g.Median))
	}
	return strings.Join(parts, ", ")
}

// bounded asks whether retries end.
func bounded(m *Measure) Answer {
	a := Answer{Numbers: Numbers{{"ids_with_max_retries", float64(m.BoundedIDs)}, {"highest_retry", float64(m.Highest)},
		{"ids_retried", float64(m.RetriedIDs)}, {"ids_exhausted", float64(m.Exhausted)}, {"ids_beyond_max_retries", float64(m.BeyondBound)}}}
	told := m.BoundedIDs > 0
	if told {
		a.Numbers = append(Numbers{{"max_retries", float64(m.MaxRetries)}}, a.Numbers...)
	}
	switch {
	case m.BeyondBound > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s retried more often than max_retries allows: up to %s.", was(m.BeyondBound, "task id"), count(m.Highest, "time"))
	case told:
		a.Verdict, a.Says = Good, fmt.Sprintf("max_retries is %d; the highest retry seen is number %d, and %s gave up.", m.MaxRetries, m.Highest, none(m.Exhausted, "task id"))
	case m.Highest >= tooMany && m.Exhausted == 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("No max_retries is told, one task id was retried %s, and none ever gave up.", count(m.Highest, "time"))
	case m.Exhausted >= fewExhausted:
		a.Verdict, a.Says = Good, fmt.Sprintf("No max_retries is told, but %s gave up, after %s at most.", count(m.Exhausted, "task id"), count(m.GaveUpAt, "retry", "retries"))
	case m.RetriedIDs == 0:
		a.Verdict, a.Says = NotSeen, "No max_retries is told, and no retry was seen."
	default:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("No max_retries is told; the highest retry seen is number %d, and %s gave up.", m.Highest, none(m.Exhausted, "task id"))
	}
	return a
}

// permanentErrors asks whether errors are retried that no retry heals.
func permanentErrors(m *Measure) Answer {
	var permanent, hopeless, worst Error
	seen := false // an error of which enough ids were retried, some of them with success
	for _, e := range m.Errors {
		seen = seen || e.IDs >= fewOfError && e.Healed > 0
		if e.Permanent > permanent.Permanent {
			permanent = e
		}
		if e.Healed == 0 && e.GaveUp > hopeless.GaveUp {
			hopeless = e
		}
	}
	worst = hopeless
	if permanent.Permanent > 0 {
		worst = permanent
	}
	a := Answer{Numbers: Numbers{{"ids_retried", float64(m.RetriedIDs)}, {"error_types", float64(len(m.Errors))}, {"ids_retried_though_permanent", float64(permanent.Permanent)},
		{"ids_never_healed", float64(hopeless.GaveUp)}}}
	switch {
	case permanent.Permanent > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s retried on %s, which it says is permanent.", was(permanent.Permanent, "task id"), worst.Type)
	case hopeless.GaveUp >= fewOfError:
		a.Verdict, a.Says = Bad, fmt.Sprintf("No retry ever healed %s: %s retried on it, and %s gave up.", worst.Type, was(worst.IDs, "task id"), grouped(worst.GaveUp))
	case m.RetriedIDs < fewRetried || !seen:
		a.Verdict, a.Says = NotSeen, only(m.RetriedIDs, "task id")+" retried."
		if m.RetriedIDs >= fewRetried {
			a.Says = fmt.Sprintf("%s retried, but of no type of error enough to tell whether a retry heals it.", was(m.RetriedIDs, "task id"))
		}
	default:
		a.Verdict, a.Says = Good, "Retries heal "+healedText(m.Errors)+"."
	}
	return a
}

// healedText says how often retries healed the most frequent errors.
func healedText(errors []Error) string {
	const most = 3
	var parts []string
	for _, e := range errors[:min(most, len(errors))] {
		parts = append(parts, fmt.Sprintf("%s %s of the time (%s of %s)", e.Type, percent(ratio(e.Healed, e.IDs)), grouped(e.Healed), grouped(e.IDs)))
	}
	return strings.Join(parts, ", ")
}

func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }
