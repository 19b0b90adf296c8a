package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
)

// pace is how long to wait between attempts.
type pace struct {
	heartbeat   time.Duration
	joinBackoff time.Duration // before the group is joined again after that failed
	topics      time.Duration // how often new partitions are looked for
	missing     time.Duration // how often topics that are missing are
	firstRetry  time.Duration // pauses before a request is made again grow from here
	lastRetry   time.Duration // to here
	stopped     time.Duration // how often a partition that stands still is looked at
	owned       time.Duration // for how long after a commit rows are sent without another; less than a session
	progress    time.Duration // how often the other processes are told how far this one is
}

var defaultPace = pace{
	heartbeat:   3 * time.Second,
	joinBackoff: time.Second,
	topics:      10 * time.Second,
	missing:     time.Second,
	firstRetry:  100 * time.Millisecond,
	lastRetry:   10 * time.Second,
	stopped:     time.Minute,
	owned:       5 * time.Second,
	progress:    5 * time.Second,
}

// Ingester reads the topics of a configuration into a store.
type Ingester struct {
	config  Config
	store   Store
	decoder Decoder
	log     *slog.Logger
	metrics *metrics
	board   *board
	budget  *budget
	kafka   *troubles
	stored  *troubles
	client  *client
	journal Journal // nil: nobody is told
	prover  *prover
	running atomic.Bool
	pace    pace

	decoderFailed sync.Once // the first failure is logged
	saidRefused   seldom
	accepted      atomic.Int64 // batches with events that the store took
}

// New checks c, reads the files that it names, and wires an Ingester. It starts and connects nothing.
func New(c Config, store Store, decoder Decoder, log *slog.Logger, r prometheus.Registerer) (*Ingester, error) {
	if err := c.Kafka.Validate(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	cl, err := newClient(c.Kafka)
	if err != nil {
		return nil, err
	}
	i := &Ingester{
		client:  cl,
		config:  c,
		store:   store,
		decoder: decoder,
		log:     log,
		board:   &board{},
		budget:  newBudget(c.Memory, footprintOf(store)),
		kafka:   newTroubles(log, sideKafka),
		stored:  newTroubles(log, sideStore),
		pace:    defaultPace,
		prover:  &prover{},
	}
	i.metrics = newMetrics(r, c.Kafka.Topics, i.budget, i.Status, i.prover.snapshot)
	return i, nil
}

// Status tells where ingest stands. It is safe to call at any time.
func (i *Ingester) Status() Status {
	s := i.board.status()
	s.Topics = i.config.Kafka.Topics
	s.Trouble = strings.Join(slices.DeleteFunc([]string{i.kafka.String(), i.stored.String()}, func(t string) bool { return t == "" }), "; ")
	return s
}

// Run reads until ctx ends, and then ends itself within the configuration's InsertTimeout and a few seconds: batches in
// flight are finished and confirmed. Kafka or the store being away is no reason to return: it waits for them. After a clean
// end the error is nil. It may be called once.
func (i *Ingester) Run(ctx context.Context) error {
	if i.running.Swap(true) {
		return errors.New("ingest: Run was called twice")
	}
	defer i.client.close()
	defer i.beside(ctx)()
	counts, ok := i.awaitTopics(ctx)
	if !ok {
		return nil
	}
	group := newMembership(i)
	defer group.leave()
	for {
		gen, places, err := group.join(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if !errors.Is(err, kafka.RebalanceInProgress) { // it only says that a member came or went meanwhile
				i.kafka.begin(group, err)
				i.metrics.retries.WithLabelValues(sideKafka).Inc()
			}
			pause(ctx, i.pace.joinBackoff)
			continue
		}
		i.kafka.end(group)
		counts = i.serve(ctx, group, gen, places, counts)
	}
}

// beside starts what goes on beside the reading, and gives what ends it.
func (i *Ingester) beside(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	if i.journal != nil {
		all.Go(func() { i.tellProgress(ctx) })
	}
	if i.prover.Verifier != nil && i.config.VerifyEvery > 0 {
		all.Go(func() { i.prove(ctx) })
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// serve reads the partitions of a generation until it ends. It takes and gives the partition counts that the watcher compares
// with. They are those that this member dealt, if it did: a broker that is behind may have told it of fewer than another had
// before. If not, they were read before the partitions were dealt, so that one added meanwhile is noticed.
func (i *Ingester) serve(ctx context.Context, group *membership, g generation, places []place, counts map[string]int) map[string]int {
	i.log.Info("ingest has its partitions", "generation", g.id, "partitions", len(places))
	if g.dealt != nil {
		counts = g.dealt
	}
	i.board.begin(g.id, places, counts)
	seen := maps.Clone(counts)
	tasks := []func(context.Context){func(ctx context.Context) {
		defer i.board.end(g.id)
		i.watchTopics(ctx, seen)
	}}
	for _, p := range places {
		tasks = append(tasks, newPartition(i, g, p).run)
	}
	group.hold(ctx, g, tasks)
	return seen
}

// awaitTopics waits until all topics exist, for a group that is joined before has nothing to share out. It gives the number
// of partitions of each, and false when ctx ends first.
func (i *Ingester) awaitTopics(ctx context.Context) (map[string]int, bool) {
	for {
		counts, err := i.client.partitions(ctx)
		if err == nil {
			missing := slices.DeleteFunc(slices.Clone(i.config.Kafka.Topics), func(t string) bool { return counts[t] > 0 })
			if len(missing) == 0 {
				i.kafka.end(i)
				return counts, true
			}
			err = fmt.Errorf("no such topic: %s", strings.Join(missing, ", "))
		} else if ended(err) {
			err = hungUp{err}
		}
		if ctx.Err() != nil {
			return nil, false
		}
		i.kafka.begin(i, err)
		if !pause(ctx, i.pace.missing) {
			return nil, false
		}
	}
}

// watchTopics returns, which ends the generation, once a topic has gained partitions, so that the group shares them out.
func (i *Ingester) watchTopics(ctx context.Context, seen map[string]int) {
	for pause(ctx, i.pace.topics) {
		counts, err := i.client.partitions(ctx)
		if err != nil {
			continue // whoever needs the brokers reports that they are away
		}
		grown := false
		for topic, n := range counts {
			grown = grown || n > seen[topic]
			seen[topic] = max(n, seen[topic])
		}
		if grown {
			i.log.Info("ingest found new partitions")
			return
		}
	}
}

// pause waits for d and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
