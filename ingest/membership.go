package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// membership is this process's place in the consumer group, by the classic protocol.
//
// kafka-go has a ConsumerGroup for this. It gives its place up at the first error, one failed heartbeat or a coordinator that
// is not up yet: the group then deals all partitions anew, and waits with that until the session of the member that is gone
// has ended, half a minute in which nobody reads. A membership keeps its place for as long as the coordinator does.
type membership struct {
	client   *client
	requests kafka.Client // with a limit that the coordinator's waiting for other members fits into
	config   Config
	member   string // as the coordinator named it; empty until then

	beatEvery, beatLimit time.Duration // so short that one heartbeat without an answer does not cost the place
}

const (
	protocolType = "consumer"
	leaveLimit   = 3 * time.Second
)

func newMembership(i *Ingester) *membership {
	m := &membership{client: i.client, requests: i.client.Client, config: i.config}
	m.beatEvery, m.beatLimit = min(i.pace.heartbeat, i.config.SessionTimeout/3), min(requestTimeout, i.config.SessionTimeout/3)
	m.requests.Timeout = i.config.RebalanceTimeout + requestTimeout
	return m
}

// generation is this process's membership in the group between two rebalances.
type generation struct {
	id     int32
	member string
	dealt  map[string]int // how many partitions of each topic were dealt; nil where another member dealt them
}

// join waits until the group has dealt its partitions, and gives the generation and this member's part. An error may be met by
// joining again.
func (m *membership) join(ctx context.Context) (generation, []place, error) {
	joined, err := m.requests.JoinGroup(ctx, &kafka.JoinGroupRequest{
		GroupID:          m.config.Kafka.Group,
		SessionTimeout:   m.config.SessionTimeout,
		RebalanceTimeout: m.config.RebalanceTimeout,
		MemberID:         m.member,
		ProtocolType:     protocolType,
		Protocols: []kafka.GroupProtocol{{
			Name:     kafka.RangeGroupBalancer{}.ProtocolName(),
			Metadata: kafka.GroupProtocolSubscription{Topics: m.config.Kafka.Topics},
		}},
	})
	if err == nil {
		err = joined.Error
	}
	switch {
	case errors.Is(err, kafka.MemberIDRequired):
		m.member = joined.MemberID
		return m.join(ctx)
	case err != nil:
		return generation{}, nil, m.lost(fmt.Errorf("join the consumer group: %w", err))
	}
	m.member = joined.MemberID
	g := generation{id: int32(joined.GenerationID), member: m.member}
	var parts kafka.GroupMemberAssignments
	if joined.LeaderID == m.member {
		if g.dealt, err = m.client.partitions(ctx); err != nil {
			return generation{}, nil, fmt.Errorf("deal the partitions: %w", err)
		}
		parts = deal(g.dealt, joined.Members)
	}
	places, err := m.sync(ctx, g, joined.ProtocolName, parts)
	if err != nil {
		return generation{}, nil, m.lost(fmt.Errorf("learn the partitions: %w", err))
	}
	return g, places, nil
}

// lost forgets the member's name where err says that the coordinator has.
func (m *membership) lost(err error) error {
	if errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.FencedInstanceID) {
		m.member = ""
	}
	return err
}

// hold runs the tasks of a generation, and returns when all have. The first that returns ends the generation, and so does the
// coordinator, by beginning another or by not answering for as long as a session lasts. The context of the tasks ends then, or
// with ctx. The place in the group is kept while the tasks come to their end.
func (m *membership) hold(ctx context.Context, g generation, tasks []func(context.Context)) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	var heart, work sync.WaitGroup
	heart.Go(func() { m.beat(beating, g, end) })
	for _, task := range tasks {
		work.Go(func() {
			defer end()
			task(ctx)
		})
	}
	work.Wait()
	stop()
	heart.Wait()
}

// beat tells the coordinator that the member lives, until ctx ends or the member's place is lost, and calls end once the
// generation is over.
func (m *membership) beat(ctx context.Context, g generation, end func()) {
	answered := time.Now()
	for pause(ctx, m.beatEvery) {
		limit, cancel := context.WithTimeout(ctx, m.beatLimit)
		err := m.client.heartbeat(limit, g)
		cancel()
		switch {
		case err == nil:
			answered = time.Now()
		case errors.Is(err, kafka.RebalanceInProgress):
			answered = time.Now()
			end()
		case fenced(err):
			_ = m.lost(err)
			end()
			return
		case time.Since(answered) > m.config.SessionTimeout:
			end()
		}
	}
}

// leave gives the place up, so that the others need not wait for the session's end. Whether it succeeds does not matter.
func (m *membership) leave() {
	if m.member == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	_, _ = m.requests.LeaveGroup(ctx, &kafka.LeaveGroupRequest{
		GroupID: m.config.Kafka.Group,
		Members: []kafka.LeaveGroupRequestMember{{ID: m.member}},
	})
}
