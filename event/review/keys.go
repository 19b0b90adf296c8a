package review

import "fmt"

// What it takes to say something of keys.
const (
	fewIDs    = 10   // of fewer task ids no share is told
	nearlyAll = 0.99 // of the task ids have a business key, for it to count as carried
	fewAgain  = 5    // of fewer ids that were tried again nothing is said of their keys
	fewCopies = 3    // of fewer copies nothing is said of whether they are skipped
)

// businessKey asks whether the work can be recognised under another task id.
func businessKey(m *Measure) Answer {
	a := Answer{Numbers: Numbers{{"task_ids", float64(m.IDs)}, {"with_key", float64(m.KeyedIDs)}}}
	share := ratio(m.KeyedIDs, m.IDs)
	switch {
	case m.IDs < fewIDs:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("%s seen, %s with a business key.", only(m.IDs, "task id"), grouped(m.KeyedIDs))
	case share >= nearlyAll:
		a.Verdict, a.Says = Good, fmt.Sprintf("%s of %s carry a business key.", percent(share), count(m.IDs, "task id"))
	case m.KeyedIDs == 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("None of %s carries a business key: a copy under another id cannot be recognised.", count(m.IDs, "task id"))
	default:
		a.Verdict, a.Says = Bad, fmt.Sprintf("Only %s of %s carry a business key: copies of the others cannot be recognised.", percent(share), count(m.IDs, "task id"))
	}
	return a
}

// stableKeys asks whether a key stays the same when the same task id is tried again.
func stableKeys(m *Measure) Answer {
	a := Answer{Numbers: Numbers{{"ids_tried_again", float64(m.TriedAgain)}, {"business_key_changed", float64(m.DriftedIDs)},
		{"ids_with_effect_again", float64(m.EffectAgain)}, {"idempotency_key_changed", float64(m.DriftedKeys)}}}
	switch {
	case m.DriftedIDs > 0 && m.DriftedKeys > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s came back under another business key, and %s did one effect under several idempotency keys.",
			outOf(m.DriftedIDs, m.TriedAgain, "task id"), outOf(m.DriftedKeys, m.EffectAgain, "task id"))
	case m.DriftedIDs > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s came back under another business key.", outOf(m.DriftedIDs, m.TriedAgain, "task id"))
	case m.DriftedKeys > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s did one effect under several idempotency keys: no receiver can drop the copy.", outOf(m.DriftedKeys, m.EffectAgain, "task id"))
	case m.TriedAgain+m.EffectAgain < fewAgain:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("%s tried or delivered again under a key.", only(m.TriedAgain, "task id"))
	default:
		a.Verdict, a.Says = Good, fmt.Sprintf("%s tried or delivered again, each under its first business key.", was(m.TriedAgain, "task id"))
		if m.EffectAgain > 0 {
			a.Says += fmt.Sprintf(" %s did an effect again, each under its first idempotency key.", count(m.EffectAgain, "id"))
		}
	}
	return a
}

// copiesSkipped asks what became of second runs and copies.
func copiesSkipped(m *Measure) Answer {
	stopped := m.Skips + m.DroppedEffects
	a := Answer{Numbers: Numbers{{"skipped", float64(m.Skips)}, {"deduplicated", float64(m.DroppedEffects)},
		{"did_it_again", float64(m.Extra())}, {"did_it_again_under_one_idempotency_key", float64(m.GuardedEffects)}}}
	switch {
	case m.Extra() == 1 && stopped+m.GuardedEffects == 0:
		a.Verdict, a.Says = Bad, "The one copy that was seen did the work again."
	case m.Extra() > 0 && stopped+m.GuardedEffects == 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("All %s did the work again.", count(m.Extra(), "copy", "copies"))
	case m.Extra() > 0:
		a.Verdict, a.Says = Bad, fmt.Sprintf("%s did the work again; %s skipped or dropped.",
			outOf(m.Extra(), m.Extra()+m.GuardedEffects+stopped, "copy", "copies"), was(stopped, "other"))
	case m.GuardedEffects > 0:
		a.Verdict, a.Says = NotSeen, fmt.Sprintf("%s did the effect again under the same idempotency key. Whether the receiver dropped them is not told.",
			outOf(m.GuardedEffects, m.GuardedEffects+stopped, "copy", "copies"))
	case stopped < fewCopies:
		a.Verdict, a.Says = NotSeen, only(stopped, "copy", "copies")+" seen to be skipped or dropped, and none did the work again."
	default:
		a.Verdict, a.Says = Good, fmt.Sprintf("All %s skipped or dropped.", was(stopped, "copy", "copies"))
	}
	return a
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
