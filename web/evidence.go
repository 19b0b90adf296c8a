package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"auditor/event/view"
)

// evidenceView is what the verdicts rest on.
type evidenceView struct {
	Sentence   []phrase
	Partitions []partitionRow
	Proof      phrase
	Proofs     []proofRow
	Rejects    []rejectFigure // by reason
	Unheard    bool           // no process has told how far it has read
	Config     []configRow    // what the rules went by, the newest first
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

func (s *Server) evidencePage(ctx context.Context, _ request) (document, error) {
	ledger, err := s.ledger(ctx)
	if err != nil {
		return document{}, err
	}
	rejects, rejected, err := s.rejectFigures(ctx)
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
	configs, err := s.store.ConfigLog(ctx, mostConfigs)
	if err != nil {
		return document{}, err
	}
	sum := s.proofOf(proofs, partitions)
	v := evidenceView{Config: s.configRows(configs), Unheard: len(partitions) == 0, Partitions: s.partitionRows(ledger, partitions), Proof: s.proofSentence(sum), Proofs: s.proofRows(proofs), Rejects: rejects}
	v.Sentence = s.evidenceSentence(ledger, partitions, sum, rejected)
	return document{Title: "Evidence", Section: "evidence", Page: "evidence", View: v}, nil
}

// evidenceSentence says whether all that Kafka holds is in the store.
func (s *Server) evidenceSentence(ledger []view.Ledger, partitions []view.Partition, proof proofSum, rejected int) []phrase {
	var missing, lag int64
	for _, l := range ledger {
		missing += l.Missing
	}
	unread := phrase{Text: plural(rejected, "record") + " could not be read as an event.", Href: "/rejects?state=any"}
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
