package main

import "testing"

// What is found beside the truth counts as it should, each way in which the two can differ.
func TestCompare(t *testing.T) {
	twice := trouble{about: about{repeatedEffect, "", "receipt:1", "email.send "}, kind: "worker_lost", count: 2, evidence: evident}
	with := func(change func(*trouble)) trouble {
		t := twice
		change(&t)
		return t
	}
	right := found{ID: "1", Rule: repeatedEffect, Severity: "critical", State: "open", BusinessKey: "receipt:1", Effect: "email.send",
		Cause: "worker_lost", Effects: 2, Certainty: "certain"}
	as := func(change func(*found)) []found {
		f := right
		change(&f)
		return []found{f}
	}
	for _, test := range []struct {
		name  string
		truth []trouble
		found []found
		want  tally
	}{
		{"found", []trouble{twice}, []found{right}, tally{Expected: 1, Found: 1}},
		{"not found", []trouble{twice}, nil, tally{Expected: 1, Missed: 1}},
		{"found where nothing is wrong", nil, []found{right}, tally{False: 1}},
		{"another cause", []trouble{twice}, as(func(f *found) { f.Cause = "unknown" }), tally{Expected: 1, Missed: 1, False: 1}},
		{"another count", []trouble{twice}, as(func(f *found) { f.Effects = 3 }), tally{Expected: 1, Missed: 1, False: 1}},
		{"another key", []trouble{twice}, as(func(f *found) { f.BusinessKey = "receipt:2" }), tally{Expected: 1, Missed: 1, False: 1}},
		{"another namespace", []trouble{twice}, as(func(f *found) { f.Namespace = "eu" }), tally{Expected: 1, Missed: 1, False: 1}},
		{"informs only", []trouble{twice}, as(func(f *found) { f.Severity = "info" }), tally{Expected: 1, Missed: 1, Info: 1}},
		{"informs where nothing is wrong", nil, as(func(f *found) { f.Severity = "info" }), tally{Info: 1}},
		{"taken back", nil, as(func(f *found) { f.State = "resolved" }), tally{}},
		{"hidden", []trouble{with(func(t *trouble) { t.evidence = hidden })}, nil, tally{Hidden: 1}},
		{"hidden, and found", []trouble{with(func(t *trouble) { t.evidence = hidden })}, []found{right}, tally{Hidden: 1, HiddenFound: 1}},
		{"hidden, and mistaken with doubt", []trouble{with(func(t *trouble) { t.evidence = hidden })},
			as(func(f *found) { f.Cause, f.Certainty = "unknown", "unsure" }), tally{Hidden: 1}},
		{"hidden, and mistaken without doubt", []trouble{with(func(t *trouble) { t.evidence = hidden })},
			as(func(f *found) { f.Cause = "unknown" }), tally{Hidden: 1, False: 1}},
		{"undecidable", []trouble{with(func(t *trouble) { t.evidence = undecidable })}, nil, tally{Undecidable: 1}},
		{"one of two causes", []trouble{with(func(t *trouble) { t.also = []string{"redelivered_while_running"} })},
			as(func(f *found) { f.Cause = "redelivered_while_running" }), tally{Undecidable: 1}},
		{"neither of two causes", []trouble{with(func(t *trouble) { t.also = []string{"redelivered_while_running"} })},
			as(func(f *found) { f.Cause = "published_twice" }), tally{Expected: 1, Missed: 1, False: 1}},
		{"two causes, and not found", []trouble{with(func(t *trouble) { t.also = []string{"redelivered_while_running"} })}, nil, tally{Expected: 1, Missed: 1}},
		{"found twice", []trouble{twice}, []found{right, right}, tally{Expected: 1, Found: 1, False: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := compare(&truth{troubles: test.truth}, test.found).sum(); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
