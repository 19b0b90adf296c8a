package web

import (
	"context"
	"fmt"
	"strings"
	"time"

	"auditor/event/proof"
	"auditor/event/view"
)

// proofSum is what the comparisons of all partitions come to.
type proofSum struct {
	missing, doubled, holes int64
	lost                    int64     // within ledgerSpan
	upTo                    time.Time // everything that reached Kafka before is compared; zero when that is not known
	compared                int       // partitions
}

func (p proofSum) wrong() bool { return p.missing+p.doubled+p.holes > 0 }

func (s *Server) proofs(ctx context.Context) ([]proof.Proof, error) {
	return ask(ctx, s.cache, "proofs", ledgerShared, s.store.Proofs)
}

// proofOf sums up what is known of the partitions that are read. Of a topic that is not read any more the last word counts
// as long as it says that something is wrong.
func (s *Server) proofOf(proofs []proof.Proof, partitions []view.Partition) proofSum {
	sum := proofSum{compared: len(proofs)}
	type id struct {
		topic     string
		partition int32
	}
	by := make(map[id]proof.Proof, len(proofs))
	for _, p := range proofs {
		by[id{p.Topic, p.Partition}] = p
		sum.missing += proof.Count(p.Troubles, proof.Missing)
		sum.doubled += proof.Count(p.Troubles, proof.Doubled)
		sum.holes += proof.Count(p.Troubles, proof.Hole)
		for _, t := range p.Troubles {
			if t.Kind == proof.Lost && (t.Time.IsZero() || s.now().Sub(t.Time) < ledgerSpan) {
				sum.lost += t.Count
			}
		}
	}
	for i, r := range partitions {
		p, ok := by[id{r.Topic, r.Partition}]
		upTo := p.Newest
		if r.Next >= 0 && r.End >= 0 && p.Next >= r.End { // all that Kafka had then
			upTo = r.Checked
		}
		if !ok || upTo.IsZero() {
			sum.upTo = time.Time{}
			break
		}
		if i == 0 || upTo.Before(sum.upTo) {
			sum.upTo = upTo
		}
	}
	return sum
}

// proofPhrases is the verdict in a few words, quiet where all is well.
func (s *Server) proofPhrases(sum proofSum) []phrase {
	const href = "/evidence#proof"
	var out []phrase
	wrong := func(n int64, text string) {
		if n > 0 {
			out = append(out, phrase{Text: text, Tone: "warn", Href: href})
		}
	}
	wrong(sum.missing, plural(int(sum.missing), "record")+" missing")
	wrong(sum.doubled, plural(int(sum.doubled), "row")+" stored twice")
	wrong(sum.holes, plural(int(sum.holes), "offset")+" not in the ledger")
	wrong(sum.lost, plural(int(sum.lost), "record")+" deleted by Kafka before they were read")
	switch {
	case sum.wrong():
	case sum.compared == 0:
		out = append(out, phrase{Text: "not compared yet", Tone: "quiet", Href: href})
	case sum.upTo.IsZero():
		out = append(out, phrase{Text: "not all partitions are compared yet", Tone: "quiet", Href: href})
	default:
		every := "every event up to "
		if sum.lost > 0 {
			every = "every other event up to "
		}
		out = append(out, phrase{Text: every + s.clock(sum.upTo), Href: href})
	}
	return out
}

// proofSentence is the same as a sentence, on the page that the phrases lead to.
func (s *Server) proofSentence(sum proofSum) phrase {
	var parts []string
	tone := ""
	for _, p := range s.proofPhrases(sum) {
		parts = append(parts, p.Text)
		if p.Tone == "warn" {
			tone = p.Tone
		}
	}
	text := strings.Join(parts, ", ")
	if sum.compared > 0 && !sum.wrong() && !sum.upTo.IsZero() {
		text += " is stored exactly once"
	}
	return phrase{Text: strings.ToUpper(text[:1]) + text[1:] + ".", Tone: tone}
}

func (s *Server) proofFigure(ctx context.Context) figure {
	fig := figure{Name: "stored exactly once", Href: "/evidence#proof"}
	proofs, err := s.proofs(ctx)
	if err != nil {
		fig.Says = []phrase{{Text: "not known", Tone: "quiet"}}
		return fig
	}
	partitions, err := s.partitions(ctx)
	if err != nil {
		partitions = nil
	}
	sum := s.proofOf(proofs, partitions)
	fig.Says = s.proofPhrases(sum)
	if sum.wrong() {
		fig.Says = append(fig.Says, phrase{Text: visible(firstPlaces(proofs, 3)), Tone: "quiet", Href: "/evidence#proof"})
	}
	return fig
}

// firstPlaces names the first places where something is wrong.
func firstPlaces(proofs []proof.Proof, most int) string {
	var partitions []string
	named := 0
	for _, p := range proofs {
		var places []string
		for _, t := range p.Troubles {
			if t.Kind == proof.Lost {
				continue
			}
			if named == most {
				places = append(places, "...")
				break
			}
			places = append(places, spanText(t.Span))
			named++
		}
		if len(places) > 0 {
			partitions = append(partitions, fmt.Sprintf("%s/%d @ %s", p.Topic, p.Partition, strings.Join(places, "; ")))
		}
		if named == most {
			break
		}
	}
	return strings.Join(partitions, ", ")
}

func spanText(s proof.Span) string {
	if s.First == s.Last {
		return number(s.First)
	}
	return number(s.First) + " – " + number(s.Last)
}

// proofRow is what is known of one partition.
type proofRow struct {
	Name     string
	Offsets  string
	Checked  when
	Passed   when
	Counts   []phrase // missing, stored twice, not in the ledger, deleted before they were read
	Troubles []string
}

// kindWords is what stands before the places of each kind of trouble.
var kindWords = map[proof.Kind]string{
	proof.Missing: "missing", proof.Doubled: "stored twice", proof.Hole: "not in the ledger", proof.Lost: "deleted by Kafka before they were read",
}

func (s *Server) proofRows(proofs []proof.Proof) []proofRow {
	var rows []proofRow
	for _, p := range proofs {
		row := proofRow{Name: fmt.Sprintf("%s/%d", p.Topic, p.Partition), Checked: s.when(p.Checked), Passed: s.when(p.Passed)}
		if p.Next > p.First {
			row.Offsets = spanText(proof.Span{First: p.First, Last: p.Next - 1})
		}
		for _, k := range proof.Kinds {
			n := phrase{Text: number(proof.Count(p.Troubles, k))}
			if n.Text != "0" {
				n.Tone = "warn"
			}
			row.Counts = append(row.Counts, n)
			if places := placesOf(p.Troubles, k); places != "" {
				row.Troubles = append(row.Troubles, kindWords[k]+": "+places)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// placesOf lists the offsets of one kind of trouble, the first of them.
func placesOf(troubles []proof.Trouble, k proof.Kind) string {
	const most = 20
	head, more, last := proof.Head(troubles, k, most)
	var places []string
	for _, t := range head {
		places = append(places, placeText(t))
	}
	text := strings.Join(places, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %s more up to offset %s", number(more), number(last))
	}
	return text
}

// placeText is where a trouble is: one offset, a range, or so many within a range.
func placeText(t proof.Trouble) string {
	where := spanText(t.Span)
	if len(t.Among) > 0 {
		var spans []string
		for _, s := range t.Among {
			spans = append(spans, spanText(s))
		}
		where = strings.Join(spans, ", ")
	}
	switch {
	case !t.Exact:
		return number(t.Count) + " of " + where
	case t.Count != t.Len():
		return fmt.Sprintf("%s (%s)", where, number(t.Count))
	}
	return where
}
