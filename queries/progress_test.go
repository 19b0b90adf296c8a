package queries

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"auditor/event"
)

func TestProgressKeepsTheLaterWord(t *testing.T) {
	s := newStore(t)
	tell := func(topics []string, partitions int, at ...event.Progress) {
		t.Helper()
		for i := range at {
			at[i].Topics, at[i].Partitions = topics, partitions
		}
		if err := s.SaveProgress(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	of := func(topic string, partition int32, next int64) event.Progress {
		return event.Progress{PartitionID: event.PartitionID{Topic: topic, Partition: partition}, Next: next, End: next + 5,
			LogStart: 1, Newest: noon.Add(-time.Second), Checked: noon.Add(time.Duration(next) * time.Millisecond)}
	}
	want := func(want ...event.Progress) {
		t.Helper()
		got, err := s.Progress(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	as := func(topics []string, partitions int, p event.Progress) event.Progress {
		p.Topics, p.Partitions = topics, partitions
		return p
	}
	want()
	both := []string{"a", "b"}
	tell(both, 2, of("a", 1, 7), of("a", 0, 3), of("b", 0, 1))
	stopped := of("a", 0, 4)
	stopped.Newest, stopped.Problem = time.Time{}, "topic_shorter: it ends at offset 2"
	tell(both, 2, stopped)
	want(as(both, 2, stopped), as(both, 2, of("a", 1, 7)), as(both, 2, of("b", 0, 1)))
	// The topic a was made anew with one partition, and b is not read any more.
	one := []string{"a"}
	tell(one, 1, of("a", 0, 9))
	want(as(one, 1, of("a", 0, 9)))
}
