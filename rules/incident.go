package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"auditor/event/finding"
)

const (
	incidentBack = 6 * time.Hour    // how far findings of one root are looked for around one that is new
	incidentSlot = 10 * time.Minute // to which the beginning of an incident is rounded in its id
	maxMembers   = 1000             // keys and findings that an incident lists
)

// judgeIncidents brings together the findings that come from one root, around those that changed since a time.
func (e *Engine) judgeIncidents(ctx context.Context, since time.Time, at moment) error {
	first, last, any, err := e.store.FreshRoots(ctx, since)
	if err != nil || !any {
		return wrap("find what changed findings come from", err)
	}
	all, err := e.store.Rooted(ctx, first.Add(-incidentBack), last.Add(incidentBack))
	if err != nil {
		return fmt.Errorf("read findings by what they come from: %w", err)
	}
	var found []finding.Finding
	marks := map[string]string{} // the incident that a finding is to belong to, where it does not yet
	holds := map[string]bool{}
	for _, group := range groups(&e.config, all) {
		f := incident(group)
		if e.config.leftOut(f) != "" {
			continue
		}
		f.Severity = e.config.severityOf(f)
		found, holds[f.ID] = append(found, f), true
		for _, m := range group.members {
			if m.Fields["incident"] != f.ID {
				marks[m.ID] = f.ID
			}
		}
	}
	var gone []string
	for _, f := range all {
		if id, ok := f.Fields["incident"].(string); ok && !holds[id] && !slices.Contains(gone, id) {
			gone = append(gone, id)
		}
	}
	marked := slices.Sorted(maps.Keys(marks))
	known, err := e.members(ctx, found, marked[:min(len(marked), maxMembers)])
	if err != nil {
		return err
	}
	prove(found, known)
	if err := e.settle(ctx, judgement{found: found, gone: gone, now: at.now}); err != nil {
		return err
	}
	return e.mark(ctx, marked, marks, known, at)
}

// proofs is of how many of its findings an incident has the evidence.
const proofs = 10

// members reads the first findings of incidents, and others.
func (e *Engine) members(ctx context.Context, incidents []finding.Finding, others []string) (map[string]finding.Finding, error) {
	ids := slices.Clone(others)
	for _, f := range incidents {
		all := f.Fields["findings"].([]string)
		ids = append(ids, all[:min(len(all), proofs)]...)
	}
	slices.Sort(ids)
	known, err := e.store.Findings(ctx, slices.Compact(ids))
	return known, wrap("read the findings of an incident", err)
}

// prove gives incidents the evidence of their first findings.
func prove(incidents []finding.Finding, known map[string]finding.Finding) {
	for i := range incidents {
		ids := incidents[i].Fields["findings"].([]string)
		for _, id := range ids[:min(len(ids), proofs)] {
			if proof := known[id].Evidence; len(proof) > 0 {
				incidents[i].Evidence = append(incidents[i].Evidence, proof[len(proof)-1])
			}
		}
	}
}

// mark tells findings which incident they belong to, of which some are known.
func (e *Engine) mark(ctx context.Context, ids []string, incidents map[string]string, known map[string]finding.Finding, at moment) error {
	for some := range slices.Chunk(ids, maxMembers) {
		if _, read := known[some[0]]; !read {
			var err error
			if known, err = e.members(ctx, nil, some); err != nil {
				return err
			}
		}
		var marked []finding.Finding
		for _, id := range some {
			if f, ok := known[id]; ok {
				f.Fields["incident"], f.UpdatedAt = incidents[id], at.now
				marked = append(marked, f)
			}
		}
		if err := e.store.SaveFindings(ctx, marked, nil); err != nil {
			return fmt.Errorf("store which incident findings belong to: %w", err)
		}
	}
	return nil
}

// rooted is findings with one root.
type rooted struct {
	root    root // of the first of them
	id      string
	members []member // in order of their roots' time
}

// member is a finding with what it comes from.
type member struct {
	finding.Finding
	root root
}

// groups brings together the findings with one root: of one kind, about the same, and so many at once that it is no chance
// beside the usual rate of such findings; where a step of a task fails, all of a day. What is resolved altogether is over.
func groups(config *Config, all []finding.Finding) []rooted {
	type place struct {
		namespace string
		kind      rootKind
		about     string
	}
	at := map[place][]member{}
	var places []place
	for _, f := range all {
		r, ok := rootOf(f)
		if !ok || f.State == finding.Resolved && f.Fields["incident"] == nil {
			continue
		}
		p := place{f.Namespace, r.Kind, r.About}
		if at[p] == nil {
			places = append(places, p)
		}
		at[p] = append(at[p], member{f, r})
	}
	var found []rooted
	for _, p := range places {
		slices.SortFunc(at[p], func(a, b member) int {
			return cmp.Or(a.root.At.Compare(b.root.At), cmp.Compare(a.ID, b.ID))
		})
		for _, members := range bursts(config, p.kind, at[p]) {
			if !slices.ContainsFunc(members, func(m member) bool { return m.State != finding.Resolved }) {
				continue
			}
			r := members[0].root
			slot := r.At.UTC().Truncate(incidentSlot)
			if p.kind == rootRetry {
				slot = r.At.UTC().Truncate(day)
			}
			id := finding.ID(Incident, p.namespace, string(p.kind)+"\x00"+p.about, slot.Format(time.RFC3339))
			found = append(found, rooted{r, id, members})
		}
	}
	return found
}

const (
	day         = 24 * time.Hour
	atOnce      = 5 * time.Second // within which a broker delivers again, or a publisher publishes again, what belongs together
	burstFactor = 5               // so many times the usual rate is no chance
)

// bursts cuts findings, in order of their roots' time, into those that came at once.
func bursts(config *Config, kind rootKind, of []member) [][]member {
	within := config.Incidents.Within
	if kind == rootRedelivery || kind == rootPublished {
		within = min(within, atOnce)
	}
	marked := make([]bool, len(of))
	for _, rule := range []string{RepeatedEffect, ConcurrentRuns, StuckPending} { // one trouble often shows by several rules
		var own []int
		for i, f := range of {
			if f.Rule == rule {
				own = append(own, i)
			}
		}
		last := 0
		for n, i := range own {
			last = max(last, n)
			for last+1 < len(own) && together(kind, within, of[i], of[own[last+1]]) {
				last++
			}
			if count := last - n + 1; count >= config.Incidents.Findings && (kind == rootRetry || float64(count) >= burstFactor*usualIn(within, of, own, i)) {
				for k := i; k <= own[last]; k++ {
					marked[k] = true
				}
			}
		}
	}
	var all [][]member
	previous := -1
	for i, f := range of {
		if !marked[i] {
			continue
		}
		if previous < 0 || !together(kind, within, of[previous], f) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], f)
		previous = i
	}
	return all
}

// together reports whether two findings lie close enough to come from one root: a step that fails does so all day long.
func together(kind rootKind, within time.Duration, a, b member) bool {
	if kind == rootRetry {
		return a.root.At.UTC().Truncate(day).Equal(b.root.At.UTC().Truncate(day))
	}
	return b.root.At.Sub(a.root.At) <= within
}

// usualIn is how many of the findings lie within such a span of time on average, some hours around the i-th.
func usualIn(within time.Duration, of []member, own []int, i int) float64 {
	middle := of[i].root.At
	from := sort.Search(len(own), func(k int) bool { return !of[own[k]].root.At.Before(middle.Add(-incidentBack)) })
	to := sort.Search(len(own), func(k int) bool { return of[own[k]].root.At.After(middle.Add(incidentBack)) })
	return float64(to-from) * float64(within) / float64(2*incidentBack)
}

func incident(of rooted) finding.Finding {
	first, last := of.members[0], of.members[len(of.members)-1]
	end := last.root
	f := finding.Finding{
		ID:        of.id,
		Rule:      Incident,
		Severity:  finding.Info,
		Namespace: first.Namespace,
		FirstSeen: of.root.At,
		LastSeen:  end.At,
	}
	var keys, workers, tasks, causes, ids []string
	add := func(list *[]string, text string) {
		if text != "" && !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	extra, rules := 0, map[string]int{}
	seen := map[string]bool{}
	for _, m := range of.members {
		r := m.root
		if key := cmp.Or(m.BusinessKey, strings.Join(m.TaskIDs, " ")); !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
		add(&workers, r.Worker)
		add(&tasks, m.Task)
		if m.Rule == RepeatedEffect {
			add(&causes, m.Cause)
			extra += m.Effects - 1
		}
		rules[m.Rule]++
		ids = append(ids, m.ID)
		f.Severity = graver(f.Severity, m.Severity)
		f.LastSeen = later(f.LastSeen, m.LastSeen)
	}
	if len(tasks) == 1 {
		f.Task = tasks[0]
	}
	if len(causes) > 0 {
		f.Cause = causes[0]
	}
	f.Fields = map[string]any{"kind": of.root.Kind, "key_count": len(keys), "keys": keys[:min(len(keys), maxMembers)], "finding_count": len(ids),
		"findings": ids[:min(len(ids), maxMembers)], "rules": rules, "workers": listed(workers), "tasks": listed(tasks), "effects_beyond_first": extra, "began": of.root.At}
	doubt{}.into(&f)
	f.Title, f.Explanation = incidentWords(of.root, end, hit(keys, len(of.members)), workers, tasks)
	if extra > 0 {
		f.Explanation += fmt.Sprintf(" %d effects happened beyond the first.", extra)
	}
	f.Explanation = sameDay(f.Explanation)
	f.Remedy = cmp.Or(first.Remedy, "Mend the cause once: the findings have it in common.")
	return f
}

// incidentWords says in a line and in a sentence what happened.
func incidentWords(begin, end root, keys string, workers, tasks []string) (title, text string) {
	span := fmt.Sprintf("between %s and %s", clock(begin.At), clock(end.At))
	if begin.At.Equal(end.At) {
		span = "at " + clock(begin.At)
	}
	who := wordsOf(workers[:min(len(workers), 3)])
	if len(workers) > 3 {
		who = fmt.Sprintf("%d workers", len(workers))
	}
	work := wordsOf(tasks[:min(len(tasks), 3)])
	if len(tasks) > 3 {
		work = fmt.Sprintf("%d kinds of tasks", len(tasks))
	}
	switch begin.Kind {
	case rootWorkerLost:
		return fmt.Sprintf("%s gone: %s hit", who, keys),
			fmt.Sprintf("%s gone %s, as in a deploy, a kill or the loss of a host, while holding tasks that were not acknowledged (%s); what they had begun was done again elsewhere, or never ended: %s.", were(who, workers), span, work, keys)
	case rootRedelivery:
		return fmt.Sprintf("tasks were delivered again all at once: %s hit", keys),
			fmt.Sprintf("The broker delivered %s again (%s) %s, as after its restart, a lost connection, or the visibility time-out of a prefetched cohort (held by %s).", work, keys, span, cmp.Or(who, "unnamed workers"))
	case rootRetry:
		return fmt.Sprintf("%s fails after its effect: %s hit", begin.About, keys),
			fmt.Sprintf("A step of %s fails after the effect is done, and each retry does the effect again: %s %s.", begin.About, keys, span)
	case rootPublished:
		return fmt.Sprintf("%s was published twice: %s", begin.About, keys),
			fmt.Sprintf("%s was published again (%s) %s: the publisher ran twice, or sent its orders once more.", begin.About, keys, span)
	}
	return fmt.Sprintf("%s came to a halt: %s hit", begin.About, keys), fmt.Sprintf("%s came to a halt %s: %s.", begin.About, span, keys)
}

// hit says how many keys were hit or, where it is one, how often.
func hit(keys []string, findings int) string {
	if len(keys) == 1 {
		return fmt.Sprintf("%s %s", keys[0], times(findings))
	}
	return fmt.Sprintf("%d keys", len(keys))
}

func were(who string, workers []string) string {
	if len(workers) == 1 {
		return who + " was"
	}
	return cmp.Or(who, "Workers") + " were"
}

func listed(texts []string) []string {
	if texts == nil {
		return []string{}
	}
	return texts[:min(len(texts), maxMembers)]
}

// graver gives the graver of two severities.
func graver(a, b finding.Severity) finding.Severity {
	order := []finding.Severity{finding.Critical, finding.Warning, finding.Info}
	if slices.Index(order, a) < slices.Index(order, b) {
		return a
	}
	return b
}
