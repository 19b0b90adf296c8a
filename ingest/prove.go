package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"auditor/event"
	"auditor/event/proof"
)

// Proofs is where the background comparison keeps what it knows, so that every process can show it, and the next one that
// reads a partition goes on from there.
type Proofs interface {
	Evidence
	// Proof gives what is known of a partition; false when nothing is.
	Proof(ctx context.Context, of event.PartitionID) (proof.Proof, bool, error)
	// SaveProofs stores what is known of partitions, in one block. Of two calls for a partition the later one counts.
	SaveProofs(ctx context.Context, proofs []proof.Proof) error
	// JoinLedger puts rows in place of those rows of the partition's ledger that lie within them.
	JoinLedger(ctx context.Context, of event.PartitionID, rows []event.Covered) error
}

// Prove has ingest compare its own partitions in the background, as the configuration says. It must be called before Run.
func (i *Ingester) Prove(p Proofs) {
	i.prover.Verifier, i.prover.proofs = i.verifier(p), p
}

const (
	firstProof      = 10 * time.Second // after the start, at most
	longestRecheck  = time.Hour        // how long known trouble is left alone, at most
	troubleWindows  = 20               // places of known trouble that are looked at again in one round
	provedTroubles  = 50               // of one kind that are known of a partition
	joinEvery       = 24 * time.Hour
	joinAfterDays   = 8 // the ledger's rows of that age are joined: the pages look at the last seven days
	joinedOffsets   = 1 << 24
	joinedRows      = 1 << 30 // the ledger counts with 32 bits
	joinedExtra     = 1 << 20
	joinedAtOneTime = 100
)

// prover compares the partitions of this process in the background: what is new since the last time; once more what is
// known to be wrong, for it may have been mended; and little by little all that is older. One partition at a time, so that
// the store and Kafka are asked one question at a time, whatever there is to compare.
type prover struct {
	*Verifier // nil: nothing is compared
	proofs    Proofs

	mu    sync.Mutex
	known map[place]*known
}

// known is what is known of a partition.
type known struct {
	proof.Proof
	recheck time.Time     // when known trouble is looked at again
	wait    time.Duration // until the time after that
	wrong   int64         // how much was wrong when it was last told
	joined  time.Time     // when the ledger's old rows were last joined
}

// prove compares until ctx ends.
func (i *Ingester) prove(ctx context.Context) {
	failing := false
	for wait := min(firstProof, i.config.VerifyEvery); pause(ctx, wait); wait = i.config.VerifyEvery {
		err := i.proveAll(ctx, time.Now())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			i.log.Error("ingest can't compare what it stored, trying again", "error", err)
		case err == nil && failing:
			i.log.Info("ingest compares what it stored again")
		}
		failing = err != nil
	}
}

// proveAll compares each partition of this process, and stores what came of it. The first error counts; a partition with
// one does not keep the others from being compared.
func (i *Ingester) proveAll(ctx context.Context, now time.Time) error {
	var own []place
	for _, p := range i.Status().Partitions {
		if p.Next >= 0 {
			own = append(own, place{p.Topic, p.Partition})
		}
	}
	i.prover.keep(own)
	var first error
	for _, at := range own {
		outcome := checkComplete
		p, err := i.proveOne(ctx, at, now)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			outcome = checkFailed
			if first == nil {
				first = fmt.Errorf("%s/%d: %w", at.topic, at.partition, err)
			}
		case p.wrongs() > 0:
			outcome = checkIncomplete
		}
		i.metrics.checks.WithLabelValues(outcome).Inc()
	}
	if all := i.prover.snapshot(); len(all) > 0 {
		if err := i.prover.proofs.SaveProofs(ctx, all); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// keep forgets the partitions that are another process's by now.
func (p *prover) keep(own []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.known {
		if !slices.Contains(own, at) {
			delete(p.known, at)
		}
	}
}

// snapshot gives what is known of each partition.
func (p *prover) snapshot() []proof.Proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []proof.Proof
	for _, k := range p.known {
		all = append(all, k.Proof)
	}
	return all
}

func (i *Ingester) proveOne(ctx context.Context, at place, now time.Time) (known, error) {
	k, err := i.prover.recall(ctx, at, now)
	if err != nil {
		return k, err
	}
	err = i.prover.advance(ctx, &k, i.config.VerifyAgain, now)
	i.prover.note(at, k)
	if err != nil {
		return k, err
	}
	i.tellWrong(&k)
	if now.Sub(k.joined) >= joinEvery {
		if err := i.prover.join(ctx, k.Proof, now); err != nil {
			return k, err
		}
		k.joined = now
	}
	i.prover.note(at, k)
	return k, nil
}

// recall gives what is known of a partition: by this process or, where it was only just given to it, by the store.
func (p *prover) recall(ctx context.Context, at place, now time.Time) (known, error) {
	p.mu.Lock()
	k, ok := p.known[at]
	p.mu.Unlock()
	if ok {
		return *k, nil
	}
	of := event.PartitionID{Topic: at.topic, Partition: at.partition}
	stored, ok, err := p.proofs.Proof(ctx, of)
	if !ok {
		stored = proof.Proof{PartitionID: of, Passed: now}
	}
	return known{Proof: stored}, err
}

func (p *prover) note(at place, k known) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = make(map[place]*known)
	}
	p.known[at] = &k
}

// advance brings k up to date.
func (p *prover) advance(ctx context.Context, k *known, again time.Duration, now time.Time) error {
	extent, err := p.evidence.LedgerExtent(ctx, k.PartitionID)
	if err != nil {
		return err
	}
	if extent.Ranges == 0 || extent.Next < k.Next { // the store was emptied, or is older than it was
		k.Proof = proof.Proof{PartitionID: k.PartitionID, Passed: now}
	}
	if !now.Before(k.recheck) {
		if err := p.recheck(ctx, k, now); err != nil {
			return err
		}
	}
	for k.Next < extent.Next {
		v, err := p.Verify(ctx, k.PartitionID, proof.Span{First: k.Next, Last: min(max(k.Next, extent.Start)+laneOffsets, extent.Next) - 1})
		if err != nil {
			return err
		}
		if v.Last < k.Next {
			return fmt.Errorf("the ledger was to reach to offset %d, and ends before %d", extent.Next, k.Next)
		}
		if k.Next == 0 {
			k.First, k.Again = v.First, v.First
		}
		k.take(v)
		k.Next, k.Newest = max(k.Next, v.Last+1), later(k.Newest, v.Newest)
	}
	if last := min(k.Again+laneOffsets, k.Next) - 1; again > 0 && last >= k.Again && k.due(last, again, now) {
		v, err := p.Verify(ctx, k.PartitionID, proof.Span{First: k.Again, Last: last})
		if err != nil {
			return err
		}
		k.take(v)
		if k.Again = max(last, v.Last) + 1; k.Again >= k.Next {
			k.Again, k.Passed = k.First, now
		}
	}
	k.Checked = now
	return nil
}

// due reports whether it is time to compare the offsets up to last once more, so that all of them are in the time again.
func (k *known) due(last int64, again time.Duration, now time.Time) bool {
	share := float64(last+1-k.First) / float64(k.Next-k.First)
	return now.Sub(k.Passed) >= time.Duration(share*float64(again))
}

// recheck looks once more where something is wrong. The longer it stays so, the more seldom.
func (p *prover) recheck(ctx context.Context, k *known, now time.Time) error {
	before := k.wrongs()
	for _, w := range windows(k.Troubles) {
		v, err := p.Verify(ctx, k.PartitionID, w)
		if err != nil {
			return err
		}
		k.take(v)
	}
	if k.wrongs() != before {
		k.wait = 0
	}
	k.wait = min(max(2*k.wait, time.Minute), longestRecheck)
	k.recheck = now.Add(k.wait)
	return nil
}

// windows are the spans in which something is wrong that may be mended, those that adjoin in one.
func windows(troubles []proof.Trouble) []proof.Span {
	var all []proof.Span
	for _, t := range troubles {
		if t.Kind != proof.Lost {
			all = append(all, t.Span)
		}
	}
	slices.SortFunc(all, func(a, b proof.Span) int { return int(a.First - b.First) })
	var joined []proof.Span
	for _, s := range all {
		if n := len(joined); n > 0 && s.First <= joined[n-1].Last+1 {
			joined[n-1].Last = max(joined[n-1].Last, s.Last)
		} else {
			joined = append(joined, s)
		}
	}
	return joined[:min(len(joined), troubleWindows)]
}

// take puts what a comparison found in place of what was known of the same offsets. Of trouble that reaches further it knows
// only a part, so that what was known stands.
func (k *known) take(v proof.Verdict) {
	all := slices.DeleteFunc(slices.Clone(k.Troubles), func(t proof.Trouble) bool { return v.Contains(t.Span) })
	for _, t := range v.Troubles {
		within := func(o proof.Trouble) bool { return o.Kind == t.Kind && o.Contains(t.Span) }
		if !slices.ContainsFunc(all, within) {
			all = append(all, t)
		}
	}
	k.Troubles = proof.Bound(all, provedTroubles)
}

// wrongs is how much is wrong that is not so by design: what retention deleted was told when it happened.
func (k *known) wrongs() int64 {
	return proof.Count(k.Troubles, proof.Missing) + proof.Count(k.Troubles, proof.Doubled) + proof.Count(k.Troubles, proof.Hole)
}

// tellWrong logs that something is wrong when that is new, and when it is over.
func (i *Ingester) tellWrong(k *known) {
	wrong := k.wrongs()
	log := i.log.With("topic", k.Topic, "partition", k.Partition)
	switch {
	case wrong > k.wrong:
		log.Error("not every event is stored once", "missing", proof.Count(k.Troubles, proof.Missing), "doubled", proof.Count(k.Troubles, proof.Doubled),
			"holes", proof.Count(k.Troubles, proof.Hole), "offsets", places(k.Troubles))
	case wrong == 0 && k.wrong > 0:
		log.Info("every event is stored once again")
	}
	k.wrong = wrong
}

// places names the first offsets of what is wrong, for the log.
func places(troubles []proof.Trouble) string {
	const most = 10
	var all []string
	for _, t := range troubles {
		switch {
		case t.Kind == proof.Lost || len(all) > most:
		case len(all) == most:
			all = append(all, "...")
		case t.First == t.Last:
			all = append(all, fmt.Sprint(t.First))
		default:
			all = append(all, fmt.Sprintf("%d-%d", t.First, t.Last))
		}
	}
	return strings.Join(all, " ")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
