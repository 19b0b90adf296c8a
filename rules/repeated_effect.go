package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// done is one happening of an effect: an effect event, or the success of a task that emits none.
type done struct {
	event *event.Event
	run   *history.Run
}

// deed is what an effect is the same by.
type deed struct {
	effect string // effect name, or "" for a task's own success
	task   string // set for a task's own success
	target string
}

func (d deed) name() string { return cmp.Or(d.effect, d.task) }

// repeatedEffects finds the effects that happened more than once for the history's subject within the look-back.
//
// An effect whose receiver dropped the copy and a run that stood aside count for nothing. A task's success counts only
// where the task emits no effects, and only once a run.
func (j *judge) repeatedEffects() []finding.Finding {
	var found []finding.Finding
	deeds := deedsOf(j.history)
	for _, d := range sortedDeeds(deeds) {
		for _, group := range within(deeds[d], j.config.lookBack(taskOf(deeds[d][0]))) {
			if len(group) > 1 && j.config.on(RepeatedEffect, taskOf(group[0])) {
				found = append(found, j.repeatedEffect(d, group))
			}
		}
	}
	return mergeSame(found)
}

func deedsOf(h *history.History) map[deed][]done {
	deeds := map[deed][]done{}
	emits := map[string]bool{}
	for _, r := range h.Runs {
		for _, e := range r.Effects {
			emits[r.Task] = true
			if !e.Effect.Deduplicated {
				d := deed{effect: e.Effect.Name, target: e.Effect.Target}
				deeds[d] = append(deeds[d], done{e, r})
			}
		}
	}
	for _, r := range h.Runs {
		if r.Succeeded() && !emits[r.Task] {
			d := deed{task: r.Task}
			deeds[d] = append(deeds[d], done{r.End, r})
		}
	}
	for _, of := range deeds {
		slices.SortStableFunc(of, func(a, b done) int { return a.event.Time.Compare(b.event.Time) })
	}
	return deeds
}

// within cuts the happenings where more than lookBack lies between two.
func within(of []done, lookBack time.Duration) [][]done {
	var groups [][]done
	for i, d := range of {
		if i == 0 || d.event.Time.Sub(of[i-1].event.Time) >= lookBack {
			groups = append(groups, nil)
		}
		last := len(groups) - 1
		groups[last] = append(groups[last], d)
	}
	return groups
}

func (j *judge) repeatedEffect(d deed, of []done) finding.Finding {
	copies := make([]copyOf, 0, len(of)-1)
	for i := 1; i < len(of); i++ {
		copies = append(copies, j.copyOf(of[:i], of[i]))
	}
	main := slices.MinFunc(copies, func(a, b copyOf) int { return cmp.Compare(a.cause.rank(), b.cause.rank()) })
	first, last := of[0], of[len(of)-1]
	subject := j.history.Subject

	f := finding.Finding{
		ID:          finding.ID(RepeatedEffect, subject.Namespace, d.name(), subject.String()+"\x00"+d.target),
		Rule:        RepeatedEffect,
		Severity:    finding.Critical,
		Namespace:   subject.Namespace,
		Task:        taskOf(first),
		BusinessKey: subject.BusinessKey,
		TaskIDs:     idsOf(of),
		Cause:       string(main.cause),
		Effects:     len(of),
		FirstSeen:   first.event.Time,
		LastSeen:    last.event.Time,
		Fields: map[string]any{
			"effect": d.effect, "target": d.target, "gap_seconds": main.gap.Seconds(), "timeout": main.timeout,
			"causes": causesOf(copies), "workers": workersOf(of),
		},
	}
	keys, sameKey := idempotencyKeys(of)
	f.Fields["idempotency_keys"] = keys
	if sameKey {
		f.Severity = finding.Warning
	}
	if amount, currency := lastAmount(of); amount != "" {
		f.Fields["amount"], f.Fields["currency"] = amount, currency
	}
	f.Title = fmt.Sprintf("%s %s for %s", cmp.Or(d.name(), "work done"), times(len(of)), subject)
	if d.target != "" {
		f.Title = fmt.Sprintf("%s to %s %s for %s", d.name(), d.target, times(len(of)), subject)
	}
	f.Explanation = j.explainRepeat(d, of, main, copies, keys, sameKey)
	f.Remedy = main.cause.remedy(sameKey)
	f.Evidence = repeatEvidence(of, main)
	main.doubt.into(&f)
	if r, ok := j.root(main.cause, main.earlier.run, main.later.run); ok {
		r.into(&f)
	}
	return f
}

func (j *judge) explainRepeat(d deed, of []done, main copyOf, copies []copyOf, keys []string, sameKey bool) string {
	var b strings.Builder
	did, again := "did "+d.effect, "did it again"
	if d.effect == "" {
		did, again = "ran it to success", "ran it to success again"
	}
	first := main.earlier
	b.WriteString(workerOf(first.run))
	if begin := first.run.Begin(); begin.Before(first.event.Time) {
		fmt.Fprintf(&b, ", which had the task from %s,", clock(begin))
	}
	fmt.Fprintf(&b, " first %s at %s. %s %s %s at %s. ", did, clock(first.event.Time), main.why,
		cmp.Or(main.later.run.Worker, "a worker"), again, clock(main.later.event.Time))
	if n := len(copies) - 1; n > 0 {
		fmt.Fprintf(&b, "In all it happened %s between %s and %s", times(len(of)), clock(of[0].event.Time), clock(of[len(of)-1].event.Time))
		if all := causesOf(copies); len(all) > 1 {
			fmt.Fprintf(&b, ", also by %s", strings.Join(all[1:], ", "))
		}
		b.WriteString(". ")
	}
	switch {
	case d.effect == "":
		b.WriteString("The task emits no effects, so its success is counted.")
	case sameKey:
		fmt.Fprintf(&b, "Every copy carried the idempotency key %s, so the receiver may have dropped the copies, though it did not say so.", keys[0])
	case len(keys) == 0:
		b.WriteString("No idempotency key was used.")
	case len(keys) == 1:
		b.WriteString("Not every copy carried an idempotency key.")
	default:
		fmt.Fprintf(&b, "The copies carried %d different idempotency keys, so no receiver could tell that they were copies.", len(keys))
	}
	return sameDay(b.String())
}

const firstTime = "the first time" // what the first effect shows

func repeatEvidence(of []done, main copyOf) []finding.Evidence {
	proof := append([]finding.Evidence(nil), main.evidence...)
	for i, d := range of {
		says := "effect " + fmt.Sprint(i+1)
		if i == 0 {
			says = firstTime
		}
		if !slices.ContainsFunc(proof, func(p finding.Evidence) bool { return p.EventID == d.event.ID }) {
			proof = append(proof, quote(d.event, says))
		}
		if i >= 50 {
			break
		}
	}
	slices.SortStableFunc(proof, func(a, b finding.Evidence) int { return a.Time.Compare(b.Time) })
	return proof
}

// mergeSame folds findings of the same id, which arise when the same effect repeats again long after, into one.
func mergeSame(found []finding.Finding) []finding.Finding {
	byID := map[string]int{}
	var out []finding.Finding
	for _, f := range found {
		at, seen := byID[f.ID]
		if !seen {
			byID[f.ID] = len(out)
			out = append(out, f)
			continue
		}
		g := &out[at]
		f.FirstSeen, f.Effects = g.FirstSeen, f.Effects+g.Effects
		for _, id := range g.TaskIDs {
			if !slices.Contains(f.TaskIDs, id) {
				f.TaskIDs = append(f.TaskIDs, id)
			}
		}
		*g = f
	}
	return out
}

func sortedDeeds(deeds map[deed][]done) []deed {
	var all []deed
	for d := range deeds {
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b deed) int {
		return cmp.Or(cmp.Compare(a.effect, b.effect), cmp.Compare(a.task, b.task), cmp.Compare(a.target, b.target))
	})
	return all
}

func taskOf(d done) string { return d.run.Task }

func idsOf(of []done) []string {
	var ids []string
	for _, d := range of {
		if !slices.Contains(ids, d.run.TaskID) {
			ids = append(ids, d.run.TaskID)
		}
	}
	return ids
}

func workersOf(of []done) []string {
	workers := []string{}
	for _, d := range of {
		if d.run.Worker != "" && !slices.Contains(workers, d.run.Worker) {
			workers = append(workers, d.run.Worker)
		}
	}
	return workers
}

// idempotencyKeys lists the distinct keys that the copies carried, and whether all carried the same one.
func idempotencyKeys(of []done) (keys []string, same bool) {
	keys, bare := []string{}, false
	for _, d := range of {
		key := ""
		if d.event.Effect != nil {
			key = d.event.Effect.IdempotencyKey
		}
		if key == "" {
			bare = true
		} else if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, len(keys) == 1 && !bare
}

func lastAmount(of []done) (amount, currency string) {
	e := of[len(of)-1].event.Effect
	if e == nil {
		return "", ""
	}
	return e.Amount, e.Currency
}
