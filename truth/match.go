package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// found is a finding as the API tells it.
type found struct {
	ID          string   `json:"id"`
	Rule        string   `json:"rule"`
	Severity    string   `json:"severity"`
	State       string   `json:"state"`
	Namespace   string   `json:"namespace"`
	Task        string   `json:"task"`
	BusinessKey string   `json:"business_key"`
	TaskIDs     []string `json:"task_ids"`
	Cause       string   `json:"cause"`
	Effects     int      `json:"effects"`
	Title       string   `json:"title"`
	Explanation string   `json:"explanation"`

	Certainty  string   `json:"certainty"`
	Kind       string   `json:"kind"`
	Phase      string   `json:"phase"`
	Effect     string   `json:"effect"`
	Target     string   `json:"target"`
	ErrorType  string   `json:"error_type"`
	Emitter    string   `json:"emitter"`
	FirstEnd   string   `json:"first_end"`
	SecondEnd  string   `json:"second_end"`
	Deliveries int      `json:"deliveries"`
	Lost       int      `json:"lost"`
	Keys       []string `json:"keys"`
}

func parseFound(text []byte) (found, error) {
	var f found
	err := json.Unmarshal(text, &f)
	return f, err
}

// about says what the finding is about, as a trouble would.
func (f *found) about() about {
	id := strings.Join(f.TaskIDs, " ")
	a := about{rule: f.Rule, namespace: f.Namespace, subject: f.BusinessKey}
	if a.subject == "" {
		a.subject = id
	}
	switch f.Rule {
	case repeatedEffect:
		a.detail = cmp.Or(f.Effect, f.Task) + " " + f.Target
	case retryStorm:
		if a.detail = id; f.Kind != "loop" {
			a.subject, a.detail = f.Task, f.Kind
		}
	case stuckPending, redeliveryLoop, terminalConflict, deadlineMissed:
		a.detail = id
	case keyDrift:
		a.subject, a.detail = "", id
	case concurrentRuns, swallowedWork, partialEffects:
		a.detail = f.Task
	case permanentErrorRetried:
		a.subject, a.detail = f.Task, f.ErrorType
	case eventsLost:
		a = about{rule: f.Rule, subject: f.Emitter} // an emitter may speak for any namespace
	}
	return a
}

// kind is the cause, kind or phase that the finding names.
func (f *found) kind() string {
	if f.Rule == terminalConflict {
		return f.FirstEnd + ", " + f.SecondEnd
	}
	return cmp.Or(f.Cause, f.Kind, f.Phase)
}

// count is how many effects, deliveries or lost events it counts.
func (f *found) count() int { return max(f.Effects, f.Deliveries, f.Lost) }

// informs reports whether it is no alarm, for evidence is missing or the clocks may be wrong.
func (f *found) informs() bool { return f.Severity == "info" }

// tally counts how a kind of trouble came out.
type tally struct {
	Expected    int `json:"expected"` // that the events show
	Found       int `json:"found"`
	Missed      int `json:"missed"`
	False       int `json:"false"`
	Hidden      int `json:"hidden"`       // that lost events hide
	HiddenFound int `json:"hidden_found"` // and that were found all the same
	Undecidable int `json:"undecidable"`
	Misled      int `json:"misled"` // findings of what is not so, of keys whose events were lost without a trace
	Info        int `json:"info"`   // findings that only inform
}

// class is what troubles and findings are counted by.
type class struct{ rule, kind string }

// verdict is what the findings come to beside the truth.
type verdict struct {
	tallies   map[class]*tally
	missed    []missing
	wrong     []mistake
	withdrawn int // findings that the auditor itself took back when more was known
}

// missing is a trouble that was not found, with what was found in its place, if anything.
type missing struct {
	trouble trouble
	instead *found
}

// mistake is a finding of what is not so, with what it should have been, if anything.
type mistake struct {
	found  found
	truth  *trouble
	script string
}

func (v *verdict) tally(rule, kind string) *tally {
	c := class{rule, kind}
	if v.tallies[c] == nil {
		v.tallies[c] = new(tally)
	}
	return v.tallies[c]
}

// compare holds what was found against the truth.
func compare(t *truth, all []found) *verdict {
	v := &verdict{tallies: make(map[class]*tally)}
	byAbout := make(map[about][]found)
	var incidents []found
	for _, f := range all {
		switch a := f.about(); {
		case f.Rule == incident && f.State != "resolved":
			incidents = append(incidents, f)
		case f.State == "resolved":
			v.withdrawn++
		case f.informs():
			v.tally(f.Rule, f.kind()).Info++
			byAbout[a] = append(byAbout[a], f)
		default:
			byAbout[a] = append(byAbout[a], f)
		}
	}
	for _, trouble := range t.sorted() {
		v.judge(t, trouble, byAbout[trouble.about])
		delete(byAbout, trouble.about)
	}
	for _, rest := range byAbout {
		for _, f := range rest {
			if !f.informs() {
				v.mistake(t, f, nil)
			}
		}
	}
	v.incidents(t, incidents)
	slices.SortStableFunc(v.wrong, func(a, b mistake) int { return cmp.Compare(a.found.ID, b.found.ID) })
	return v
}

// judge counts a trouble, and what was found about the same.
func (v *verdict) judge(of *truth, t trouble, about []found) {
	n := v.tally(t.rule, t.kind)
	alarms := slices.DeleteFunc(slices.Clone(about), func(f found) bool { return f.informs() })
	right := slices.IndexFunc(alarms, func(f found) bool { return f.kind() == t.kind && (t.count == 0 || f.count() == t.count) })
	plausible := slices.ContainsFunc(alarms, func(f found) bool { return slices.Contains(t.also, f.kind()) })
	switch {
	case t.evidence == undecidable:
		n.Undecidable++
		return
	case t.evidence == hidden:
		if n.Hidden++; right >= 0 {
			n.HiddenFound++
		}
		// What claims to be certain though events are missing is false all the same.
		alarms = slices.DeleteFunc(alarms, func(f found) bool { return f.kind() == t.kind || f.Certainty != "certain" && f.Certainty != "" })
	case len(t.also) > 0 && (plausible || right >= 0):
		n.Undecidable++ // that it happened is found; why is not to be known
		return
	default:
		n.Expected++
		if right >= 0 {
			n.Found++
			alarms = slices.Delete(alarms, right, right+1)
			break
		}
		n.Missed++
		m := missing{trouble: t}
		if len(about) > 0 {
			m.instead = &about[0]
		}
		v.missed = append(v.missed, m)
	}
	for _, f := range alarms {
		v.mistake(of, f, &t)
	}
}

// mistake counts a finding of what is not so, and what it should have been, if anything.
func (v *verdict) mistake(of *truth, f found, should *trouble) {
	names := append([]string{f.BusinessKey}, f.TaskIDs...)
	if slices.ContainsFunc(names, func(name string) bool { return name != "" && of.dark[subject{f.Namespace, name}] }) {
		v.tally(f.Rule, f.kind()).Misled++
		return
	}
	v.tally(f.Rule, f.kind()).False++
	m := mistake{found: f, truth: should, script: of.scriptOf(f.Namespace, f.BusinessKey)}
	if should != nil {
		m.script = should.script
	}
	v.wrong = append(v.wrong, m)
}

// scriptOf names the story that a business key was in.
func (t *truth) scriptOf(namespace, key string) string {
	n, ok := numberOf(namespace, key)
	if !ok || n >= len(t.byNumber) || t.byNumber[n] == nil {
		return "?"
	}
	return t.byNumber[n].name
}

// numberOf reads the number of a story from its key.
func numberOf(namespace, key string) (int, bool) {
	_, rest, ok := strings.Cut(key, ":")
	var n int
	if _, err := fmt.Sscanf(rest, "%d", &n); !ok || err != nil {
		return 0, false
	}
	if n *= 2; namespace != "" {
		n++
	}
	return n, true
}

// sum is what all rules come to together.
func (v *verdict) sum() tally {
	var sum tally
	for _, n := range v.tallies {
		sum.Expected += n.Expected
		sum.Found += n.Found
		sum.Missed += n.Missed
		sum.False += n.False
		sum.Hidden += n.Hidden
		sum.HiddenFound += n.HiddenFound
		sum.Undecidable += n.Undecidable
		sum.Misled += n.Misled
		sum.Info += n.Info
	}
	return sum
}

func (n tally) precision() float64 { return share(n.Found, n.Found+n.False) }
func (n tally) recall() float64    { return share(n.Found, n.Expected) }

func share(part, whole int) float64 {
	if whole == 0 {
		return 1
	}
	return float64(part) / float64(whole)
}
