package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
)

// evidenceView is what the verdicts rest on.
type evidenceView struct {
	Sentence   []phrase
	Partitions []partitionRow
	Proof      phrase
	Proofs     []proofRow
	Reasons    []phrase
	Rejects    []rejectRow
	More       string
	Unheard    bool // no process has told how far it has read
}

type partitionRow struct {
	Name     string
	Next     string
	End      string
	Lag      string
	Stored   string // offsets that the ledger covers
	Records  int
	Events   int
	Rejects  int
	Missing  int64
	Unjudged string // stored, but not read by the rules yet
	Newest   when
	Problem  string
}

type rejectRow struct {
	Place  string
	When   when
	Reason string
	Detail string
	Raw    string
	Size   string
}

func (s *Server) evidencePage(ctx context.Context, r request) (document, error) {
	ledger, err := s.ledger(ctx)
	if err != nil {
		return document{}, err
	}
	filter, err := rejectFilter(r.query, s.config.PageSize)
	if err != nil {
		return document{}, err
	}
	filter.RawLimit = rawShown
	rejects, err := s.store.Rejects(ctx, filter)
	if err != nil {
		return document{}, err
	}
	counts, err := s.store.RejectCounts(ctx, view.RejectFilter{})
	if err != nil {
		return document{}, err
	}
	partitions, err := s.partitions(ctx)
	if err != nil {
		return document{}, err
	}
	proofs, err := s.proofs(ctx)
	if err != nil {
		return document{}, err
	}
	sum := s.proofOf(proofs, partitions)
	v := evidenceView{Unheard: len(partitions) == 0, Partitions: s.partitionRows(ledger, partitions), Proof: s.proofSentence(sum), Proofs: s.proofRows(proofs)}
	rejected := 0
	byReason := map[event.Reason]int{}
	for _, c := range counts {
		rejected += c.Count
		byReason[c.Reason] += c.Count
	}
	for _, reason := range slices.SortedFunc(maps.Keys(byReason), func(a, b event.Reason) int {
		return cmp.Or(cmp.Compare(byReason[b], byReason[a]), cmp.Compare(a, b))
	}) {
		v.Reasons = append(v.Reasons, phrase{Text: plain(string(reason)) + " " + number(byReason[reason]), Href: "/evidence?" + url.Values{"reason": {string(reason)}}.Encode()})
	}
	for _, reject := range rejects {
		v.Rejects = append(v.Rejects, s.rejectRow(reject))
	}
	if len(rejects) == filter.Limit {
		v.More = with(r.query, "/evidence", "cursor", rejectCursor(rejects[len(rejects)-1].Reject))
	}
	v.Sentence = s.evidenceSentence(ledger, partitions, sum, rejected)
	return document{Title: "Evidence", Section: "evidence", Page: "evidence", View: v}, nil
}

// evidenceSentence says whether all that Kafka holds is in the store.
func (s *Server) evidenceSentence(ledger []view.Ledger, partitions []view.Partition, proof proofSum, rejected int) []phrase {
	var missing, lag int64
	for _, l := range ledger {
		missing += l.Missing
	}
	unread := phrase{Text: plural(rejected, "record") + " could not be read as an event.", Href: "#rejects"}
	for _, p := range partitions {
		lag += p.Lag
		if p.Problem != "" {
			return []phrase{{Text: fmt.Sprintf("%s/%d stands still: %s.", visible(p.Topic), p.Partition, visible(p.Problem)), Tone: "warn"}}
		}
	}
	var out []phrase
	switch {
	case missing+proof.missing > 0:
		out = []phrase{{Text: plural(int(max(missing, proof.missing)), "record") + " of Kafka are not in the store.", Tone: "warn", Href: "#proof"}}
	case proof.holes > 0:
		out = []phrase{{Text: "The ledger does not cover " + plural(int(proof.holes), "offset") + ".", Tone: "warn", Href: "#proof"}}
	case proof.doubled > 0:
		out = []phrase{{Text: "Everything that was read is in the store, but " + plural(int(proof.doubled), "row") + " of it twice.", Tone: "warn", Href: "#proof"}}
	case len(ledger) == 0:
		out = []phrase{{Text: "Nothing has been read from Kafka yet."}}
	case lag > 0:
		out = []phrase{{Text: "Everything that was read from Kafka is in the store, once; " + plural(int(lag), "record") + " are still to be read."}}
	case len(partitions) == 0:
		out = []phrase{{Text: "Everything that was read from Kafka is in the store, once."}}
	default:
		out = []phrase{s.allStored(partitions)}
	}
	if rejected > 0 {
		out = append(out, phrase{Text: " "}, unread)
	}
	return out
}

// allStored says that everything is read, as of when Kafka was last asked, if that is a while ago.
func (s *Server) allStored(partitions []view.Partition) phrase {
	asked := s.now()
	for _, p := range partitions {
		if p.Checked.Before(asked) {
			asked = p.Checked
		}
	}
	switch {
	case asked.IsZero():
		return phrase{Text: "Everything that was read from Kafka is in the store, once."}
	case s.now().Sub(asked) > lateAfter:
		return phrase{Text: "Everything that Kafka held at " + s.clock(asked) + " is in the store, once; since then nobody has looked.", Tone: "warn"}
	}
	return phrase{Text: "Everything that Kafka holds is in the store, once."}
}

func (s *Server) partitionRows(ledger []view.Ledger, partitions []view.Partition) []partitionRow {
	type id struct {
		topic     string
		partition int32
	}
	status := map[id]view.Partition{}
	all := slices.Clone(ledger)
	for _, p := range partitions {
		status[id{p.Topic, p.Partition}] = p
		same := func(l view.Ledger) bool { return l.Topic == p.Topic && l.Partition == p.Partition }
		if !slices.ContainsFunc(ledger, same) { // read, but nothing stored yet
			all = append(all, view.Ledger{Topic: p.Topic, Partition: p.Partition, First: 0, Last: -1})
		}
	}
	slices.SortFunc(all, func(a, b view.Ledger) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	rows := make([]partitionRow, 0, len(all))
	for _, l := range all {
		row := partitionRow{Name: fmt.Sprintf("%s/%d", l.Topic, l.Partition), Records: l.Records, Events: l.Events,
			Rejects: l.Rejects, Missing: l.Missing, Newest: s.when(l.KafkaTime)}
		if l.Last >= l.First {
			row.Stored = number(l.First) + " – " + number(l.Last)
			row.Unjudged = number(max(l.Last+1-l.Judged, 0))
		}
		if p, ok := status[id{l.Topic, l.Partition}]; ok && p.Next >= 0 && p.End >= 0 {
			row.Next, row.End, row.Lag, row.Problem = number(p.Next), number(p.End), number(p.Lag), p.Problem
		}
		rows = append(rows, row)
	}
	return rows
}

// rawShown is how many bytes of a rejected record a page shows; the API gives all.
const rawShown = 4 << 10

func (s *Server) rejectRow(r reject.Reject) rejectRow {
	text := string(r.Raw)
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return rejectRow{
		Place: fmt.Sprintf("%s/%d @ %d", r.Topic, r.Partition, r.Offset), When: s.when(r.KafkaTime),
		Reason: plain(string(r.Reason)), Detail: r.Detail, Raw: visibleText(text), Size: plural(r.Size, "byte"),
	}
}

// visibleText is visible, but for line breaks and tabs, which a block of text shows by itself.
func visibleText(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j, part := range parts {
			parts[j] = visible(part)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// rejectCursor names a reject's place in the list of rejects.
func rejectCursor(r event.Reject) string {
	return rejectCursorAt(view.Position{KafkaTime: r.KafkaTime, Position: r.Position})
}

func rejectCursorAt(p view.Position) string {
	return fmt.Sprintf("%d.%d.%d.%d.%s", p.KafkaTime.UnixMilli(), p.Partition, p.Offset, p.Index, p.Topic)
}

func rejectFilter(q url.Values, limit int) (view.RejectList, error) {
	f := view.RejectList{Limit: limit}
	if reason := q.Get("reason"); reason != "" {
		f.Reasons = []event.Reason{event.Reason(reason)}
	}
	text := q.Get("cursor")
	if text == "" {
		return f, nil
	}
	parts := strings.SplitN(text, ".", 5)
	if len(parts) != 5 {
		return f, badRequest("cursor: not one that was given out for this list")
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || i != 0 && i != 2 && int64(int32(n)) != n {
			return f, badRequest("cursor: not one that was given out for this list")
		}
		numbers[i] = n
	}
	f.Before = view.Position{KafkaTime: time.UnixMilli(numbers[0]).UTC(),
		Position: event.Position{Topic: parts[4], Partition: int32(numbers[1]), Offset: numbers[2], Index: int32(numbers[3])}}
	return f, nil
}
