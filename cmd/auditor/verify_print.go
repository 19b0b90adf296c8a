package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"auditor/event/proof"
)

// kindWords is how a person is told of each kind of trouble.
var kindWords = map[proof.Kind]string{
	proof.Missing: "missing",
	proof.Doubled: "stored twice",
	proof.Hole:    "not in the ledger",
	proof.Lost:    "lost to Kafka's retention",
}

// verdicts of a partition, or of all, in JSON.
const (
	complete   = "complete"
	incomplete = "incomplete"
	unchecked  = "unchecked"
)

func (r account) verdict() string {
	switch {
	case !r.complete():
		return incomplete
	case r.why != "":
		return unchecked
	}
	return complete
}

func (v verifyCommand) print(w io.Writer, accounts []account) error {
	if v.JSON {
		return printAccountsJSON(w, accounts)
	}
	return printAccounts(w, accounts)
}

// printAccounts tells a person, a line a partition, and below which offsets are meant.
func printAccounts(w io.Writer, accounts []account) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PARTITION\tOFFSETS\tRECORDS\tEVENTS\tREJECTS\tNOT READ YET\tVERDICT")
	for _, r := range accounts {
		offsets, lag := "-", "not known"
		if r.Len() > 0 {
			offsets = spanText(r.Span)
		}
		if r.kafka != nil {
			lag = grouped(r.lag)
		}
		fmt.Fprintf(table, "%s/%d\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(r.Topic), r.Partition, offsets, grouped(r.Records), grouped(r.Events),
			grouped(r.Rejects), lag, r.words())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range accounts {
		var details []string
		for _, k := range proof.Kinds {
			if places := placesOf(r.Troubles, k); places != "" {
				details = append(details, fmt.Sprintf("%s: %s", kindWords[k], places))
			}
		}
		if r.why != "" {
			details = append(details, "not known: "+printable(r.why))
		}
		if r.Expired > 0 {
			details = append(details, fmt.Sprintf("expired: %s may have left the tables for their age", count(int(r.Expired), "record")))
		}
		if len(details) > 0 {
			fmt.Fprintf(w, "\n%s/%d\n  %s\n", printable(r.Topic), r.Partition, strings.Join(details, "\n  "))
		}
	}
	return nil
}

// words is the verdict for a person.
func (r account) words() string {
	var wrong []string
	for _, k := range proof.Kinds {
		if n := proof.Count(r.Troubles, k); n > 0 {
			wrong = append(wrong, grouped(n)+" "+kindWords[k])
		}
	}
	switch {
	case len(wrong) > 0:
		return strings.Join(wrong, ", ")
	case r.why != "":
		return "not compared in full"
	case r.Ranges == 0:
		return "nothing to compare"
	}
	return "complete"
}

// mostPlaces is how many places of one kind a person is told; --json prints more.
const mostPlaces = 20

// placesOf lists the offsets of one kind of trouble, empty when there are none.
func placesOf(troubles []proof.Trouble, k proof.Kind) string {
	head, more, last := proof.Head(troubles, k, mostPlaces)
	var places []string
	for _, t := range head {
		places = append(places, placeText(t))
	}
	text := strings.Join(places, ", ")
	if more > 0 {
		text += fmt.Sprintf(" ... and %s more up to offset %d", grouped(more), last)
	}
	return text
}

// placeText is where a trouble is: 12, 40-41, 77 (3 times), 3 of 100-105 110.
func placeText(t proof.Trouble) string {
	where := spanText(t.Span)
	if len(t.Among) > 0 {
		var spans []string
		for _, s := range t.Among {
			spans = append(spans, spanText(s))
		}
		where = strings.Join(spans, " ")
	}
	switch {
	case !t.Exact:
		return fmt.Sprintf("%s of %s", grouped(t.Count), where)
	case t.Count != t.Len():
		return fmt.Sprintf("%s (%s)", where, grouped(t.Count))
	}
	return where
}

func spanText(s proof.Span) string {
	if s.First == s.Last {
		return fmt.Sprint(s.First)
	}
	return fmt.Sprintf("%d-%d", s.First, s.Last)
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	text, _, _ := strings.Cut(count(int(n), "x"), " ")
	return text
}

// accountJSON is a partition as --json prints it.
type accountJSON struct {
	Topic     string          `json:"topic"`
	Partition int32           `json:"partition"`
	Verdict   string          `json:"verdict"`
	First     *int64          `json:"first"` // null, as the next, when there was nothing to compare
	Last      *int64          `json:"last"`
	Ranges    int             `json:"ranges"`
	Records   int64           `json:"records"`
	Events    int64           `json:"events"`
	Rejects   int64           `json:"rejects"`
	Missing   int64           `json:"missing"`
	Doubled   int64           `json:"doubled"`
	Holes     int64           `json:"holes"`
	Lost      int64           `json:"lost"`
	Expired   int64           `json:"expired"`
	Newest    *time.Time      `json:"newest"`
	Lag       *int64          `json:"lag"` // null, as kafka, when Kafka could not be asked
	Kafka     *kafkaJSON      `json:"kafka"`
	Troubles  []proof.Trouble `json:"troubles"`
	Why       string          `json:"why,omitempty"`
}

type kafkaJSON struct {
	Start     int64       `json:"log_start"`
	End       int64       `json:"end"`
	Committed int64       `json:"committed"` // -1 when there is none
	Intent    *proof.Span `json:"intent"`    // null when no batch is in flight
}

func (r account) json() accountJSON {
	j := accountJSON{Topic: r.Topic, Partition: r.Partition, Verdict: r.verdict(), Ranges: r.Ranges, Records: r.Records, Events: r.Events,
		Rejects: r.Rejects, Missing: proof.Count(r.Troubles, proof.Missing), Doubled: proof.Count(r.Troubles, proof.Doubled),
		Holes: proof.Count(r.Troubles, proof.Hole), Lost: proof.Count(r.Troubles, proof.Lost), Expired: r.Expired,
		Troubles: append([]proof.Trouble{}, r.Troubles...), Why: r.why}
	if r.Len() > 0 {
		j.First, j.Last = &r.First, &r.Last
	}
	if !r.Newest.IsZero() {
		j.Newest = &r.Newest
	}
	if k := r.kafka; k != nil {
		j.Lag = &r.lag
		j.Kafka = &kafkaJSON{Start: k.Start, End: k.End, Committed: k.Committed}
		if k.Intent.Len() > 0 {
			j.Kafka.Intent = &k.Intent
		}
	}
	return j
}

// summaryJSON is the last object that --json prints.
type summaryJSON struct {
	Verdict    string `json:"verdict"`
	Partitions int    `json:"partitions"`
	Records    int64  `json:"records"`
	Missing    int64  `json:"missing"`
	Doubled    int64  `json:"doubled"`
	Holes      int64  `json:"holes"`
	Lost       int64  `json:"lost"`
	Expired    int64  `json:"expired"`
	Lag        int64  `json:"lag"`
}

func printAccountsJSON(w io.Writer, accounts []account) error {
	all := summaryJSON{Verdict: complete, Partitions: len(accounts)}
	encoder := json.NewEncoder(w)
	for _, r := range accounts {
		j := r.json()
		all.Records, all.Missing, all.Doubled = all.Records+j.Records, all.Missing+j.Missing, all.Doubled+j.Doubled
		all.Holes, all.Lost, all.Expired, all.Lag = all.Holes+j.Holes, all.Lost+j.Lost, all.Expired+j.Expired, all.Lag+r.lag
		if j.Verdict == incomplete || j.Verdict == unchecked && all.Verdict == complete {
			all.Verdict = j.Verdict
		}
		if err := encoder.Encode(j); err != nil {
			return err
		}
	}
	return encoder.Encode(all)
}
