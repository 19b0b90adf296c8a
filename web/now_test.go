package web

import "testing"

// The sentence on the first page names the tasks that did most, and counts what the rest did.
func TestTopTasks(t *testing.T) {
	for _, test := range []struct {
		counts map[string]int
		want   string
	}{
		{map[string]int{"mail.send": 2}, "2 by mail.send"},
		{map[string]int{"mail.send": 2, "pay.charge": 3}, "3 by pay.charge, 2 by mail.send"},
		{map[string]int{"a": 5, "b": 4, "c": 2}, "5 by a, 4 by b, 2 by c"},
		{map[string]int{"a": 5, "b": 4, "c": 2, "d": 1, "e": 0}, "5 by a, 4 by b, 3 by 2 other tasks"},
		{map[string]int{"": 1}, "1 by tasks without a name"},
	} {
		if got := topTasks(test.counts, 2); got != test.want {
			t.Errorf("%v: %q, want %q", test.counts, got, test.want)
		}
	}
}
