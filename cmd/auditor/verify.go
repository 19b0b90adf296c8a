package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event"
	"auditor/event/proof"
	"auditor/ingest"
	"auditor/queries"
)

type verifyCommand struct {
	storeAccess
	Topic     string `placeholder:"TOPIC" help:"Compare this topic only."`
	Partition int32  `default:"-1" placeholder:"N" help:"Compare this partition only."`
	From      string `placeholder:"WHEN" help:"Compare from here on: a time (RFC 3339), an age such as 24h, or an offset of the one partition."`
	To        string `placeholder:"WHEN" help:"Compare up to here."`
	JSON      bool   `name:"json" help:"Print one JSON object a partition, and one of them all."`
}

// uncheckedError says that it is not known whether everything is stored once.
type uncheckedError struct{ error }

// Run compares Kafka, the ledger and the tables, and says what is missing or double.
func (v verifyCommand) Run(env *environment) error {
	accounts, err := v.verify(env)
	switch {
	case errors.As(err, new(usageError)):
		return err
	case err != nil:
		return uncheckedError{err}
	}
	if err := v.print(env.stdout, accounts); err != nil {
		return uncheckedError{err}
	}
	return outcome(accounts)
}

func (v verifyCommand) verify(env *environment) ([]account, error) {
	from, err := v.when("--from", v.From, time.Now())
	if err != nil {
		return nil, err
	}
	to, err := v.when("--to", v.To, time.Now())
	switch {
	case err != nil:
		return nil, err
	case v.Partition < -1:
		return nil, usageError{fmt.Errorf("--partition: must be 0 or more, not %d", v.Partition)}
	case from.offset && to.offset && to.at < from.at, !from.time.IsZero() && !to.time.IsZero() && to.time.Before(from.time):
		return nil, usageError{fmt.Errorf("--to: %s is before --from, %s", v.To, v.From)}
	}
	a, err := v.open(env)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	if (from.offset || to.offset) && v.Topic == "" && len(a.config.Kafka.Topics) > 1 {
		return nil, usageError{errors.New("--from, --to: an offset is one of a topic: give --topic, or a time")}
	}
	if err := a.reachBroker(env.ctx); err != nil {
		return nil, err
	}
	w, err := newWitness(env.ctx, a.config, a.store, v.chosen)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	var accounts []account
	for _, of := range w.partitions {
		r, err := w.account(env.ctx, of, from, to)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, r)
	}
	return accounts, nil
}

// chosen accounts whether a partition is to be compared.
func (v verifyCommand) chosen(of event.PartitionID) bool {
	return (v.Topic == "" || v.Topic == of.Topic) && (v.Partition < 0 || v.Partition == of.Partition)
}

// when is an end of what is compared. The zero value is no limit.
type when struct {
	offset bool
	at     int64     // where offset
	time   time.Time // where not
}

// when reads --from or --to.
func (v verifyCommand) when(flag, text string, now time.Time) (when, error) {
	if text == "" {
		return when{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < math.MaxInt64 {
		if v.Partition < 0 {
			return when{}, usageError{fmt.Errorf("%s: %d is an offset, and needs --partition", flag, n)}
		}
		return when{offset: true, at: n}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return when{time: now.Add(-d).UTC()}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil && !t.IsZero() {
		return when{time: t.UTC()}, nil
	}
	return when{}, usageError{fmt.Errorf("%s: must be a time such as 2026-03-04T05:06:07Z, an age such as 24h, or an offset, not %q", flag, text)}
}

// account is what is known of one partition.
type account struct {
	proof.Verdict
	kafka *ingest.Standing // nil: it could not be asked
	lag   int64            // records that are not read yet
	why   string           // why it is not known whether all is there; empty when it is
}

// complete accounts whether nothing is wrong, as far as is known.
func (r account) complete() bool { return len(r.Troubles) == 0 }

// witness asks the three that have to agree.
type witness struct {
	*ingest.Verifier
	store      *queries.Store
	partitions []event.PartitionID
	counts     map[string]int // partitions that Kafka has, by topic
	configured []string       // topics
	away       error          // why Kafka can't be asked
}

// newWitness lists the partitions that are read or were ever. It must be closed.
func newWitness(ctx context.Context, c config.Config, store *queries.Store, chosen func(event.PartitionID) bool) (*witness, error) {
	ends, err := store.LedgerEnds(ctx)
	if err != nil {
		return nil, err
	}
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		return nil, err
	}
	w := &witness{store: store, configured: slices.Clone(c.Kafka.Topics)}
	settings := c.IngestConfig()
	for of := range ends {
		if !slices.Contains(settings.Kafka.Topics, of.Topic) {
			settings.Kafka.Topics = append(settings.Kafka.Topics, of.Topic)
		}
	}
	if w.Verifier, err = ingest.NewVerifier(settings, store, decoder, discardLog); err != nil {
		return nil, err
	}
	w.counts, w.away = w.Partitions(ctx)
	for topic, n := range w.counts {
		for p := range n {
			ends[event.PartitionID{Topic: topic, Partition: int32(p)}] = 0
		}
	}
	w.partitions = slices.SortedFunc(maps.Keys(ends), func(a, b event.PartitionID) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	w.partitions = slices.DeleteFunc(w.partitions, func(of event.PartitionID) bool { return !chosen(of) })
	if len(w.partitions) == 0 {
		w.Close()
		return nil, cmp.Or(w.away, errors.New("neither Kafka nor the ledger knows a partition that was asked for"))
	}
	return w, nil
}

func (w *witness) account(ctx context.Context, of event.PartitionID, from, to when) (account, error) {
	span, any, err := w.span(ctx, of, from, to)
	if err != nil {
		return account{}, err
	}
	r := account{Verdict: proof.Verdict{PartitionID: of, Span: proof.Span{Last: -1}}}
	// How far Kafka's retention is has to be asked before how far ingest is, and how far Kafka goes after it: both move on.
	before, err := w.standing(ctx, of)
	if any {
		if r.Verdict, err = w.Verify(ctx, of, span); err != nil {
			return r, err
		}
		r.why = r.Unread
	}
	after, asked := w.standing(ctx, of)
	extent, err := w.store.LedgerExtent(ctx, of)
	if err != nil {
		return r, err
	}
	switch {
	case asked != nil && w.counts[of.Topic] == 0 && w.away == nil && !slices.Contains(w.configured, of.Topic):
		// The topic is gone, and nobody reads it any more: there is nothing but ledger and tables to compare.
		r.why = ""
	case asked != nil:
		r.why = asked.Error()
	default:
		r.kafka = &after
		r.behind(before.Start, extent, span)
	}
	return r, nil
}

func (w *witness) standing(ctx context.Context, of event.PartitionID) (ingest.Standing, error) {
	if w.away != nil {
		return ingest.Standing{}, w.away
	}
	if w.counts[of.Topic] <= int(of.Partition) {
		return ingest.Standing{}, fmt.Errorf("kafka has no partition %s/%d", of.Topic, of.Partition)
	}
	return w.Standing(ctx, of)
}

// span is the offsets that are compared; false when there are none.
func (w *witness) span(ctx context.Context, of event.PartitionID, from, to when) (proof.Span, bool, error) {
	span := proof.Span{Last: math.MaxInt64 - 1}
	if !from.time.IsZero() || !to.time.IsZero() {
		latest := to.time
		if latest.IsZero() {
			latest = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		first, last, any, err := w.store.LedgerAt(ctx, of, from.time, latest)
		if err != nil || !any {
			return span, false, err
		}
		if !from.time.IsZero() {
			span.First = first
		}
		if !to.time.IsZero() {
			span.Last = last
		}
	}
	if from.offset {
		span.First = from.at
	}
	if to.offset {
		span.Last = to.at
	}
	return span, span.Len() > 0, nil
}

// behind says what Kafka has that is not read yet, and what it had: start is where its log began before the ledger was
// asked how far it reaches.
func (r *account) behind(start int64, ledger event.Extent, compared proof.Span) {
	next := ledger.Next
	if ledger.Ranges == 0 {
		next = start
	}
	if r.kafka.End < next {
		r.why = fmt.Sprintf("the partition ends at offset %d, and the ledger at %d: the topic was made anew, or brokers lost records", r.kafka.End, next)
		return
	}
	unread := next
	if in := r.kafka.Intent; in.Len() > 0 && in.First <= next { // it may be in hand
		unread = max(next, in.Last+1)
	}
	if start > unread && compared.Last >= start-1 {
		lost := proof.Trouble{Kind: proof.Lost, Span: proof.Span{First: unread, Last: start - 1}, Count: start - unread, Exact: true}
		r.Troubles = append(r.Troubles, lost)
		next = start
	}
	r.lag = r.kafka.End - next
}

// outcome is what the command ends with: nothing when all is complete.
func outcome(accounts []account) error {
	incomplete, unknown := 0, 0
	for _, r := range accounts {
		switch {
		case !r.complete():
			incomplete++
		case r.why != "":
			unknown++
		}
	}
	switch {
	case incomplete > 0:
		return fmt.Errorf("%s of %d not complete", count(incomplete, "partition"), len(accounts))
	case unknown > 0:
		return uncheckedError{fmt.Errorf("%s of %d could not be compared in full", count(unknown, "partition"), len(accounts))}
	}
	return nil
}
