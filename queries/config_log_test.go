package queries

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event/view"
)

func TestConfigLog(t *testing.T) {
	s := newStore(t)
	if all, err := s.ConfigLog(t.Context(), 10); err != nil || len(all) != 0 {
		t.Fatalf("before: %v, %v", all, err)
	}
	first := view.ConfigChange{Time: noon, Digest: "a", Section: "rules:\n  'x' \\ \x00", Program: "1"}
	second := view.ConfigChange{Time: noon.Add(time.Hour), Digest: "b", Section: "rules:", Changed: "- rules.x: 1\n+ rules.x: 2", Program: "2"}
	for _, c := range []view.ConfigChange{first, second, first} { // the same again changes nothing
		if err := s.LogConfig(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.ConfigLog(t.Context(), 10)
	if diff := gocmp.Diff([]view.ConfigChange{second, first}, all); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if last, err := s.ConfigLog(t.Context(), 1); err != nil || len(last) != 1 || last[0].Digest != "b" {
		t.Errorf("the last: %v, %v", last, err)
	}
}
