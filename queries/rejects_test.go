package queries

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
)

const hostileBytes = "<script>alert(1)</script>\x00\xff\x1b[2J\u202e'\\\n\t"

// rejectBatch is a batch of n rejects, of two reasons in turn.
func rejectBatch(partition int32, first, n int64) event.Batch {
	b := event.Batch{Topic: "task-events", Partition: partition, First: first, Last: first + n - 1, Records: int(n), Time: noon}
	for i := range n {
		reason := event.ReasonNotJSON
		if i%2 == 1 {
			reason = event.ReasonNoTime
		}
		b.Rejects = append(b.Rejects, event.Reject{
			Position: event.Position{Topic: b.Topic, Partition: partition, Offset: first + i}, KafkaTime: noon.Add(time.Duration(first+i) * time.Second),
			Reason: reason, Detail: "secret detail", Key: []byte("secret key"), Raw: []byte("secret " + hostileBytes),
			Headers: []event.Header{{Key: "secret", Value: []byte(hostileBytes)}, {Key: "empty"}},
		})
	}
	return b
}

func insertBatch(t testing.TB, s *Store, b event.Batch) {
	t.Helper()
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func oneReject(t testing.TB, s *Store, at event.Position) reject.Reject {
	t.Helper()
	r, err := s.Pages().Reject(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func listed(t testing.TB, s *Store, f view.RejectFilter) map[int64]reject.State {
	t.Helper()
	list, err := s.Pages().Rejects(t.Context(), view.RejectList{RejectFilter: f, Limit: 1000, RawLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	states := map[int64]reject.State{}
	for _, r := range list {
		states[r.Offset] = r.State
	}
	return states
}

func TestRejectIsGivenAsItCame(t *testing.T) {
	s, b := newStore(t), rejectBatch(0, 7, 1)
	b.Rejects[0].Raw = []byte(strings.Repeat(hostileBytes, 1<<20/len(hostileBytes)))
	insertBatch(t, s, b)
	want := reject.Reject{Reject: b.Rejects[0], Size: len(b.Rejects[0].Raw), State: reject.Open}
	want.Headers[1].Value = []byte{} // the store does not tell none from empty
	if diff := gocmp.Diff(want, oneReject(t, s, b.Rejects[0].Position)); diff != "" {
		t.Errorf("stored (-), given (+): %.2000s", diff)
	}
	if _, err := s.Pages().Reject(t.Context(), event.Position{Topic: "task-events", Offset: 8}); err != view.ErrNotFound {
		t.Errorf("of none: %v", err)
	}
}

func TestRejectsOfOneRecordAreGivenTogether(t *testing.T) {
	s, b := newStore(t), rejectBatch(0, 7, 3)
	for i := range b.Rejects {
		b.Rejects[i].Offset, b.Rejects[i].Index = 7, int32(4-i)
	}
	insertBatch(t, s, b)
	all, err := s.RejectsAt(t.Context(), event.Position{Topic: "task-events", Offset: 7, Index: event.AnyIndex})
	if err != nil || len(all) != 3 || all[0].Index != 2 || all[2].Index != 4 {
		t.Errorf("%v, %v", all, err)
	}
}

// What lists say of a reject and what its page says of it follow from the same log by two ways, which must agree.
func TestStatesAgree(t *testing.T) {
	s := newStore(t)
	logs := [][]string{
		{}, {"intended 1"}, {"intended 1", "sent 1"}, {"intended 1", "not_sent 1"}, {"intended 1", "unclear 1"},
		{"intended 1", "not_sent 1", "intended 2"}, {"intended 1", "not_sent 1", "intended 2", "sent 2"}, {"intended 1", "sent 1", "intended 2"},
		{"intended 1", "intended 2", "not_sent 2"}, {"intended 1", "intended 1"}, {"intended 1", "sent 1", "sent 1"}, {"purge 1"}, {"not_sent 1"},
	}
	want := []reject.State{
		reject.Open, reject.Unknown, reject.Replayed, reject.Open, reject.Unknown, reject.Unknown, reject.Replayed, reject.Replayed,
		reject.Unknown, reject.Unknown, reject.Replayed, reject.Open, reject.Open,
	}
	b := rejectBatch(0, 0, int64(len(logs)))
	insertBatch(t, s, b)
	for i, log := range logs {
		for j, line := range log {
			action, attempt, _ := strings.Cut(line, " ")
			e := reject.Entry{Position: b.Rejects[i].Position, KafkaTime: b.Rejects[i].KafkaTime, Time: noon.Add(time.Duration(j) * time.Second), Action: reject.Action(action), Attempt: attempt}
			if err := s.LogRejects(t.Context(), []reject.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
	}
	states := listed(t, s, view.RejectFilter{})
	for i, log := range logs {
		if one := oneReject(t, s, b.Rejects[i].Position); one.State != want[i] || states[int64(i)] != want[i] {
			t.Errorf("%v: %s by itself, %s in the list, want %s", log, one.State, states[int64(i)], want[i])
		}
	}
	for _, state := range reject.States {
		for offset, got := range listed(t, s, view.RejectFilter{States: []reject.State{state}}) {
			if want[offset] != state || got != state {
				t.Errorf("%v is among the %s", logs[offset], state)
			}
		}
	}
}

func TestLogKeepsEverything(t *testing.T) {
	s := newStore(t)
	want := reject.Entry{
		Position: event.Position{Topic: "task-events", Partition: 3, Offset: 1 << 40, Index: 9}, KafkaTime: noon, Time: noon.Add(time.Microsecond),
		Action: reject.Sent, Attempt: "a", By: hostileBytes, Note: hostileBytes, To: event.Position{Topic: "other", Partition: 1, Offset: 5},
		Mended: true, Digest: "sha256:00", EventIDs: []string{hostileBytes, "b"},
	}
	other := want
	other.Index = 8
	if err := s.LogRejects(t.Context(), []reject.Entry{want, other}); err != nil {
		t.Fatal(err)
	}
	got, err := s.RejectLogs(t.Context(), []event.Position{want.Position})
	if diff := gocmp.Diff(map[event.Position][]reject.Entry{want.Position: {want}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// secrets counts the rows of rejects that hold a byte of what came.
func secrets(t testing.TB, s *Store) uint64 {
	t.Helper()
	return number(t, s, "SELECT count() FROM rejects WHERE raw != '' OR key != '' OR detail != '' OR notEmpty(header_names) OR notEmpty(header_values)")
}

// A purge takes the bytes, from every copy of the row, and nothing that the ledger counts.
func TestPurgeLeavesATombstone(t *testing.T) {
	s := newStore(t)
	b := rejectBatch(0, 0, 6)
	insertBatch(t, s, b)
	if err := s.insert(t.Context(), "rejects", "", rejectBlock(b.Rejects)); err != nil { // a second copy, not merged yet
		t.Fatal(err)
	}
	before, err := s.Pages().Ledger(t.Context(), noon.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	at := []event.Position{b.Rejects[2].Position, b.Rejects[3].Position, {Topic: "task-events", Offset: 99}}
	for range 2 {
		if err := s.PurgeRejectsAt(t.Context(), at, "ada", "GDPR"); err != nil {
			t.Fatal(err)
		}
	}
	r := oneReject(t, s, b.Rejects[2].Position)
	want := reject.Reject{State: reject.Purged, Reject: event.Reject{Position: at[0], KafkaTime: b.Rejects[2].KafkaTime, Reason: b.Rejects[2].Reason, Key: []byte{}, Raw: []byte{}}}
	if len(r.Log) != 1 || r.Log[0].Action != reject.Purge || r.Log[0].By != "ada" || r.Log[0].Note != "GDPR" {
		t.Errorf("the log says %+v", r.Log)
	}
	r.Log = nil
	if diff := gocmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	after, err := s.Pages().Ledger(t.Context(), noon.Add(-time.Hour))
	if diff := gocmp.Diff(before, after); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if n := number(t, s, "SELECT count() FROM rejects FINAL"); n != 6 {
		t.Errorf("%d rejects are left, want 6", n)
	}
	if n := secrets(t, s); n > 2*4 {
		t.Errorf("%d rows hold bytes, and 4 rejects do", n)
	}
	if err := s.execText(t.Context(), "OPTIMIZE TABLE rejects FINAL"); err != nil {
		t.Fatal(err)
	}
	if n := secrets(t, s); n != 4 {
		t.Errorf("%d rows hold bytes after a merge, want 4", n)
	}
}

// Whatever ingest sends again, and whatever ClickHouse has forgotten of what it was sent: what was purged stays so.
func TestPurgedIsNotBroughtBack(t *testing.T) {
	s, b := newStore(t), rejectBatch(0, 0, 4)
	insertBatch(t, s, b)
	if err := s.PurgeRejects(t.Context(), view.RejectFilter{}, "ada", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.execText(t.Context(), "ALTER TABLE rejects MODIFY SETTING non_replicated_deduplication_window = 1"); err != nil {
		t.Fatal(err)
	}
	insertBatch(t, s, rejectBatch(1, 0, 1))
	insertBatch(t, s, rejectBatch(2, 0, 1))
	for name, again := range map[string]event.Batch{
		"the same batch": b,
		"supplement":     {Topic: b.Topic, First: b.First, Last: b.Last, Records: b.Records, Time: b.Time, Rejects: b.Rejects, Supplement: true},
		"unconfirmed":    {Topic: b.Topic, First: b.First, Last: b.Last, Records: b.Records, Time: b.Time, Rejects: b.Rejects, Unconfirmed: true},
	} {
		next := &Store{config: s.config, options: s.options, conn: s.conn, log: s.log, statements: s.statements} // another process
		insertBatch(t, next, again)
		if n := secrets(t, s); n != 2 {
			t.Errorf("%s: %d rows hold bytes, want the 2 of the other partitions", name, n)
		}
	}
	if n := number(t, s, "SELECT countIf(purged) FROM rejects FINAL"); n != 4 {
		t.Errorf("%d rejects are purged, want 4", n)
	}
}

func TestPurgeByFilter(t *testing.T) {
	seeded := func(t *testing.T) *Store {
		s := newStore(t)
		insertBatch(t, s, rejectBatch(0, 0, 10))
		insertBatch(t, s, rejectBatch(1, 0, 4))
		e := reject.Entry{Position: event.Position{Topic: "task-events", Offset: 3}, KafkaTime: noon.Add(3 * time.Second), Time: noon, Action: reject.Sent, Attempt: "a"}
		if err := s.LogRejects(t.Context(), []reject.Entry{e}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		name   string
		filter view.RejectFilter
		want   string // how many are purged of each partition
	}{
		{"all", view.RejectFilter{}, "[10 4]"},
		{"topic", view.RejectFilter{Topic: "task-events"}, "[10 4]"},
		{"another topic", view.RejectFilter{Topic: "other"}, "[0 0]"},
		{"partition", view.RejectFilter{Partition: new(int32(1))}, "[0 4]"},
		{"reason", view.RejectFilter{Reasons: []event.Reason{event.ReasonNoTime, event.ReasonEmpty}}, "[5 2]"},
		{"before", view.RejectFilter{Until: noon.Add(2 * time.Second)}, "[2 2]"},
		{"before, to the microsecond", view.RejectFilter{Until: noon.Add(2*time.Second + time.Microsecond)}, "[3 3]"},
		{"since", view.RejectFilter{Since: noon.Add(8 * time.Second)}, "[2 0]"},
		{"since, to the microsecond", view.RejectFilter{Since: noon.Add(8*time.Second + time.Microsecond)}, "[1 0]"},
		{"state", view.RejectFilter{States: []reject.State{reject.Replayed}}, "[1 0]"},
		{"state and reason", view.RejectFilter{States: []reject.State{reject.Open}, Reasons: []event.Reason{event.ReasonNoTime}}, "[4 2]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := seeded(t)
			if err := s.PurgeRejects(t.Context(), c.filter, "ada", "why"); err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for partition := range 2 {
				got = append(got, number(t, s, fmt.Sprintf("SELECT countIf(purged) FROM rejects FINAL WHERE kafka_partition = %d", partition)))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("purged are %v, want %s", got, c.want)
			}
			if n := number(t, s, "SELECT count() FROM reject_log WHERE action = 'purge' AND by = 'ada' AND note = 'why'"); n != got[0]+got[1] {
				t.Errorf("%d purges are logged of %v", n, got)
			}
			if n := secrets(t, s); n != 14-got[0]-got[1] {
				t.Errorf("%d rows hold bytes, purged are %v", n, got)
			}
		})
	}
}

// What ingest has not confirmed yet is no part of a purge by filter, or it would be purged and not logged.
func TestPurgeLeavesWhatIsNotConfirmed(t *testing.T) {
	s, b := newStore(t), rejectBatch(0, 0, 4)
	b.Unconfirmed = true
	insertBatch(t, s, b)
	if err := s.PurgeRejects(t.Context(), view.RejectFilter{}, "ada", ""); err != nil {
		t.Fatal(err)
	}
	if n := number(t, s, "SELECT countIf(purged) FROM rejects FINAL"); n != 0 {
		t.Errorf("%d are purged", n)
	}
}

func TestRejectFilters(t *testing.T) {
	s := newStore(t)
	insertBatch(t, s, rejectBatch(0, 0, 10))
	insertBatch(t, s, rejectBatch(1, 0, 4))
	pages := s.Pages()
	for _, c := range []struct {
		name   string
		filter view.RejectFilter
		want   int
	}{
		{"all", view.RejectFilter{}, 14},
		{"topic", view.RejectFilter{Topic: "other"}, 0},
		{"partition", view.RejectFilter{Partition: new(int32(1))}, 4},
		{"reasons", view.RejectFilter{Reasons: []event.Reason{event.ReasonNoTime, event.ReasonNotJSON}}, 14},
		{"reason", view.RejectFilter{Reasons: []event.Reason{event.ReasonNoTime}}, 7},
		{"since", view.RejectFilter{Since: noon.Add(3 * time.Second)}, 8},
		{"until", view.RejectFilter{Until: noon.Add(3 * time.Second)}, 6},
		{"open", view.RejectFilter{States: []reject.State{reject.Open, reject.Purged}}, 14},
		{"purged", view.RejectFilter{States: []reject.State{reject.Purged}}, 0},
	} {
		list, err := pages.Rejects(t.Context(), view.RejectList{RejectFilter: c.filter, Limit: 100})
		if err != nil || len(list) != c.want {
			t.Errorf("%s: %d listed, want %d (%v)", c.name, len(list), c.want, err)
		}
		counts, err := pages.RejectCounts(t.Context(), c.filter)
		sum := 0
		for _, n := range counts {
			sum += n.Count
		}
		if err != nil || sum != c.want {
			t.Errorf("%s: %d counted, want %d (%v)", c.name, sum, c.want, err)
		}
		chosen, err := s.ChooseRejects(t.Context(), c.filter, 100)
		if err != nil || len(chosen) != c.want {
			t.Errorf("%s: %d chosen, want %d (%v)", c.name, len(chosen), c.want, err)
		}
	}
	// Page by page every reject comes once, the newest first; chosen are the oldest first.
	var before view.Position
	var paged []event.Position
	for {
		list, err := pages.Rejects(t.Context(), view.RejectList{Limit: 3, Before: before})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			break
		}
		for _, r := range list {
			paged = append([]event.Position{r.Position}, paged...)
			before = view.Position{KafkaTime: r.KafkaTime, Position: r.Position}
		}
	}
	chosen, err := s.ChooseRejects(t.Context(), view.RejectFilter{}, 1000)
	if diff := gocmp.Diff(chosen, paged); diff != "" || err != nil || len(chosen) != 14 {
		t.Error(diff, err)
	}
	rates, err := pages.RejectRates(t.Context(), noon.Add(-time.Hour), 5*time.Second)
	var got []string
	for _, r := range rates {
		got = append(got, fmt.Sprintf("%d %s %d", int(r.Slot.Sub(noon).Seconds()), r.Reason, r.Count))
	}
	if diff := gocmp.Diff([]string{"0 no_time 4", "0 not_json 5", "5 no_time 3", "5 not_json 2"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestArrived(t *testing.T) {
	s := newStore(t)
	insertBatch(t, s, aBatch(anEvent(10), anEvent(11), anEvent(12)))
	for _, c := range []struct {
		from int64
		ids  []string
		want int64
		ok   bool
	}{
		{10, []string{"e12", "e11"}, 11, true}, {12, []string{"e12"}, 12, true}, {12, []string{"e11"}, 0, false}, {0, []string{hostileBytes}, 0, false}, {0, nil, 0, false},
	} {
		got, ok, err := s.Arrived(t.Context(), event.Position{Topic: "task-events", Offset: c.from}, c.ids)
		if got != c.want || ok != c.ok || err != nil {
			t.Errorf("%v from %d on: %d, %t, %v", c.ids, c.from, got, ok, err)
		}
	}
	if _, ok, _ := s.Arrived(t.Context(), event.Position{Topic: "other", Offset: 0}, []string{"e10"}); ok {
		t.Error("it arrived in another topic")
	}
}

// A purge that ClickHouse takes longer for than a request may last is waited for, and is not taken for a failure.
func TestLongPurgeIsWaitedFor(t *testing.T) {
	s, b := newStore(t), rejectBatch(0, 0, 4)
	insertBatch(t, s, b)
	impatient := &Store{config: s.config, options: s.options, conn: s.conn, log: s.log, statements: map[string]*statement{}}
	for name, st := range s.statements {
		impatient.statements[name] = st
	}
	slow := *s.statements["store/purge_rejects"]
	slow.text = strings.Replace(slow.text, "raw = ''", "raw = if(sleepEachRow(0.5) = 0, '', '')", 1)
	impatient.statements[slow.name] = &slow
	impatient.config.QueryTimeout = 500 * time.Millisecond
	if err := impatient.PurgeRejects(t.Context(), view.RejectFilter{}, "ada", ""); err != nil {
		t.Fatal(err)
	}
	if n := secrets(t, s); n != 0 {
		t.Errorf("%d rows hold bytes", n)
	}
	insertBatch(t, s, rejectBatch(0, 4, 4))
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if err := impatient.PurgeRejects(ctx, view.RejectFilter{}, "ada", ""); err == nil || !strings.Contains(err.Error(), "has not deleted all bytes yet") {
		t.Errorf("a purge that takes longer than anybody waits: %v", err)
	}
}

func TestRejectFates(t *testing.T) {
	s := newStore(t)
	insertBatch(t, s, aBatch(anEvent(10), anEvent(11)))
	b := rejectBatch(0, 12, 1)
	insertBatch(t, s, b)
	entry := func(attempt string, action reject.Action, offset int64, ids ...string) reject.Entry {
		return reject.Entry{Attempt: attempt, Action: action, To: event.Position{Topic: "task-events", Offset: offset}, EventIDs: ids}
	}
	fates, err := s.Pages().RejectFates(t.Context(), reject.Reject{Log: []reject.Entry{
		entry("stored", reject.Sent, 10), entry("again", reject.Sent, 12), entry("not yet", reject.Sent, 13), entry("failed", reject.Intended, 0, "e10"), entry("failed", reject.NotSent, 0),
		entry("arrived", reject.Intended, 5, "e11"), entry("lost", reject.Intended, 11, "e10"),
	}})
	var got []string
	for _, f := range fates {
		line := f.Attempt
		if f.Event != nil {
			line += fmt.Sprint(" event ", f.Event.Offset)
		}
		if f.Reject != nil {
			line += fmt.Sprint(" reject ", f.Reject.Offset)
		}
		got = append(got, line)
	}
	if diff := gocmp.Diff([]string{"stored event 10", "again reject 12", "not yet", "arrived event 11", "lost"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
