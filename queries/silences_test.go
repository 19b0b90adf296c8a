package queries

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/silence"
	"auditor/event/view"
)

// The server goes by its own clock. Silences of the tests end long after it, or before.
var (
	longAfter  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	longBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
)

func silenced(m silence.Matchers) silence.Silence {
	return silence.Silence{Matchers: m.Filled(), From: longAfter.Add(-time.Hour), Until: longAfter, By: "ada", Note: "known"}
}

func added(t *testing.T, s *Store, one silence.Silence) silence.Silence {
	t.Helper()
	one, err := s.Pages().AddSilence(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func TestSilencesFit(t *testing.T) {
	s := newStore(t)
	id := saved(t, s, "key", func(f *finding.Finding) {
		f.BusinessKey = `order:50%_\/€` + "\n'x"
		f.Evidence = []finding.Evidence{{Worker: ""}, {Worker: "w1@host-a"}}
	})
	saved(t, s, "keyless", func(f *finding.Finding) {
		f.BusinessKey, f.TaskIDs, f.Namespace, f.Evidence = "", []string{"t1"}, "", nil
	})
	over := saved(t, s, "over")
	if err := s.Act(t.Context(), act(over, finding.Resolve, "ada", "")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		m    silence.Matchers
		want []string
	}{
		{"rule", silence.Matchers{Rule: "repeated_effect", Namespace: "*"}, []string{"key", "keyless"}},
		{"another rule", silence.Matchers{Rule: "repeated", Namespace: "*"}, nil},
		{"a pattern of rules", silence.Matchers{Rule: "*_eff*", Namespace: "*"}, []string{"key", "keyless"}},
		{"task", silence.Matchers{Task: "shop.*", Namespace: "*"}, []string{"key", "keyless"}},
		{"a dot is a dot", silence.Matchers{Task: "shop.settle", Rule: "repeated.effect", Namespace: "*"}, nil},
		{"case counts", silence.Matchers{Task: "Shop.*", Namespace: "*"}, nil},
		{"namespace", silence.Matchers{Namespace: "prod"}, []string{"key"}},
		{"the default namespace", silence.Matchers{Namespace: ""}, []string{"keyless"}},
		{"key", silence.Matchers{BusinessKey: "order:*", Namespace: "*"}, []string{"key"}},
		{"the whole key", silence.Matchers{BusinessKey: `order:50%_\/€` + "\n'x", Namespace: "*"}, []string{"key"}},
		{"per cent is no wildcard", silence.Matchers{BusinessKey: "order:%", Namespace: "*"}, nil},
		{"underscore is no wildcard", silence.Matchers{BusinessKey: "order:50%__/*", Namespace: "*"}, nil},
		{"wildcards in the middle", silence.Matchers{BusinessKey: "*r:*0*x", Namespace: "*"}, []string{"key"}},
		{"not the beginning alone", silence.Matchers{BusinessKey: "order:5", Namespace: "*"}, nil},
		{"task id in place of a key", silence.Matchers{BusinessKey: "t*", Namespace: "*"}, []string{"keyless"}},
		{"worker", silence.Matchers{Worker: "*@host-a", Namespace: "*"}, []string{"key"}},
		{"another worker", silence.Matchers{Worker: "w2*", Namespace: "*"}, nil},
		{"severity", silence.Matchers{Severity: "critical", Namespace: "*"}, []string{"key", "keyless"}},
		{"another severity", silence.Matchers{Severity: "info", Namespace: "*"}, nil},
		{"all of them", silence.Matchers{Rule: "repeated_effect", Task: "*settle", Namespace: "pro*", BusinessKey: "order*", Worker: "w1@*", Severity: "critical"}, []string{"key"}},
		{"all but one", silence.Matchers{Rule: "repeated_effect", Task: "*settle", Namespace: "pro*", BusinessKey: "order*", Worker: "w1@*", Severity: "info"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := added(t, s, silenced(c.m))
			var got []string
			page, err := s.Pages().Findings(t.Context(), view.FindingFilter{Silence: one.ID, Limit: 10, Order: view.ByOldest})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Items {
				got = append(got, f.ID)
				if f.Silenced == nil || *f.Silenced != (finding.Silenced{ID: one.ID, Until: longAfter}) {
					t.Errorf("%s is silenced by %v", f.ID, f.Silenced)
				}
			}
			if diff := gocmp.Diff(c.want, slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			if all, err := s.Pages().Silences(t.Context(), []silence.State{silence.Active}, 10); err != nil || len(all) != 1 || all[0].Findings != len(c.want) {
				t.Errorf("listed as %+v, %v", all, err)
			}
			if _, err := s.Pages().EndSilence(t.Context(), one.ID, noon, "ada", "", ""); err != nil {
				t.Fatal(err)
			}
			if f, err := s.Pages().Finding(t.Context(), id); err != nil || f.Silenced != nil {
				t.Errorf("still silenced by %v, %v", f.Silenced, err)
			}
		})
	}
}

func TestSilencedIsLeftOutAndComesBack(t *testing.T) {
	s := newStore(t)
	pages := s.Pages()
	saved(t, s, "a")
	one := added(t, s, silenced(silence.Matchers{BusinessKey: "settle:*", Namespace: "*"}))
	lists := func(silent *bool) int {
		t.Helper()
		page, err := pages.Findings(t.Context(), view.FindingFilter{Silenced: silent, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return page.Total
	}
	counts, err := pages.FindingCounts(t.Context())
	if err != nil || len(counts) != 1 || !counts[0].Silenced || counts[0].Count != 1 {
		t.Errorf("counted as %+v, %v", counts, err)
	}
	if lists(nil) != 1 || lists(new(true)) != 1 || lists(new(false)) != 0 {
		t.Errorf("all %d, silenced %d, others %d", lists(nil), lists(new(true)), lists(new(false)))
	}
	if got := theFinding(t, s, "a"); got.State != finding.Open {
		t.Errorf("to the rules it is %s", got.State)
	}
	ended, err := pages.EndSilence(t.Context(), one.ID, longAfter.Add(-time.Minute), "bob", "mended", "")
	if err != nil || ended.State(longBefore) != silence.Ended || ended.EndedBy != "bob" || ended.EndedNote != "mended" {
		t.Errorf("ended as %+v, %v", ended, err)
	}
	if lists(new(false)) != 1 {
		t.Error("the finding is not back")
	}
	again, err := pages.EndSilence(t.Context(), one.ID, longAfter.Add(-time.Second), "eve", "", "")
	if diff := gocmp.Diff(ended, again); diff != "" || err != nil {
		t.Errorf("ended again: %s %v", diff, err)
	}
	if _, err := pages.EndSilence(t.Context(), "gone", noon, "eve", "", ""); !errors.Is(err, view.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	past := silenced(silence.Matchers{Rule: "*effect", Namespace: "*"})
	past.From, past.Until = longBefore, longBefore.Add(time.Hour)
	added(t, s, past)
	if lists(new(false)) != 1 {
		t.Error("a silence that is over still holds")
	}
	all, err := pages.Silences(t.Context(), nil, 10)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d silences, %v", len(all), err)
	}
	if got, err := pages.Silences(t.Context(), []silence.State{silence.Expired}, 10); err != nil || len(got) != 1 || got[0].Rule != "*effect" {
		t.Errorf("expired: %+v, %v", got, err)
	}
}

func TestSilenceOfTheSameRequest(t *testing.T) {
	s := newStore(t)
	one := silenced(silence.Matchers{Rule: "retry_storm", Namespace: "*"})
	first := added(t, s, one)
	if again := added(t, s, one); again.ID != first.ID {
		t.Error("the same was made twice")
	}
	one.Note = "another reason"
	if other := added(t, s, one); other.ID == first.ID {
		t.Error("another one was not made")
	}
	one.Request = "r1"
	var group sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		group.Go(func() {
			made, err := s.Pages().AddSilence(t.Context(), one)
			if err != nil {
				t.Error(err)
			}
			ids[i] = made.ID
		})
	}
	group.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("made %v", ids)
		}
	}
	one.Until = one.Until.Add(time.Second) // the same length of time, told a second later
	if again := added(t, s, one); again.ID != ids[0] || !again.Until.Equal(longAfter) {
		t.Errorf("the request again gives %+v", again)
	}
	one.Task = "mail.*"
	var refusal finding.Refusal
	if _, err := s.Pages().AddSilence(t.Context(), one); !errors.As(err, &refusal) {
		t.Errorf("another silence under the same id: %v", err)
	}
	one = silenced(silence.Matchers{Namespace: "*"})
	if _, err := s.Pages().AddSilence(t.Context(), one); err == nil {
		t.Error("a silence of everything was made")
	}
}
