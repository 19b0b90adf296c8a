package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// requestTimeout bounds one request to a broker, beside what the broker is asked to wait.
const requestTimeout = 10 * time.Second

const dialTimeout = 5 * time.Second

// metadataTTL bounds how long a new leader, topic or partition goes unnoticed.
const metadataTTL = 2 * time.Second

// client is the connections to the brokers.
type client struct {
	kafka.Client
	transport *kafka.Transport
	config    Kafka
	stop      context.CancelFunc

	mu     sync.Mutex
	open   map[*trackedConn]struct{}
	closed bool
}

// newClient reads the files that c names. It connects to nothing.
func newClient(c Kafka) (*client, error) {
	tls, mechanism, err := c.Security()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	cl := &client{config: c, stop: stop, open: make(map[*trackedConn]struct{})}
	cl.transport = &kafka.Transport{
		Dial:           cl.dial,
		DialTimeout:    dialTimeout,
		ClientID:       c.ClientID,
		MetadataTopics: c.Topics,
		MetadataTTL:    metadataTTL,
		TLS:            tls,
		SASL:           mechanism,
		Context:        ctx,
	}
	cl.Client = kafka.Client{Addr: kafka.TCP(c.Brokers...), Timeout: requestTimeout, Transport: cl.transport}
	return cl, nil
}

// close ends every connection, whatever waits on it.
func (c *client) close() {
	c.stop()
	c.transport.CloseIdleConnections()
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		conn.Conn.Close()
	}
}

// trackedConn is a connection that close knows of.
type trackedConn struct {
	net.Conn
	client *client
}

func (t *trackedConn) Close() error {
	t.client.mu.Lock()
	delete(t.client.open, t)
	t.client.mu.Unlock()
	return t.Conn.Close()
}

func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t := &trackedConn{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	c.open[t] = struct{}{}
	return t, nil
}

// partitions counts the partitions of each configured topic. A topic that does not exist is missing from the map.
func (c *client) partitions(ctx context.Context) (map[string]int, error) {
	meta, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: c.config.Topics})
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	counts := make(map[string]int)
	for _, t := range meta.Topics {
		switch {
		case t.Error == nil:
			counts[t.Name] = len(t.Partitions)
		case !errors.Is(t.Error, kafka.UnknownTopicOrPartition):
			return nil, fmt.Errorf("list partitions of %s: %w", t.Name, t.Error)
		}
	}
	return counts, nil
}

// bounds gives the first offset that the partition still holds, and the one after its last.
func (c *client) bounds(ctx context.Context, topic string, partition int32) (start, end int64, err error) {
	resp, err := c.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		topic: {kafka.FirstOffsetOf(int(partition)), kafka.LastOffsetOf(int(partition))},
	}})
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the ends of the log: %w", err)
	}
	i := slices.IndexFunc(resp.Topics[topic], func(p kafka.PartitionOffsets) bool { return p.Partition == int(partition) })
	if i < 0 {
		return 0, 0, errors.New("ask for the ends of the log: the answer lacks the partition")
	}
	p := resp.Topics[topic][i]
	if p.Error != nil {
		return 0, 0, fmt.Errorf("ask for the ends of the log: %w", p.Error)
	}
	if p.FirstOffset < 0 || p.LastOffset < p.FirstOffset {
		return 0, 0, fmt.Errorf("ask for the ends of the log: impossible answer %d to %d", p.FirstOffset, p.LastOffset)
	}
	return p.FirstOffset, p.LastOffset, nil
}

// committed gives the group's offset of a partition, -1 when there is none, and the metadata beside it.
func (c *client) committed(ctx context.Context, topic string, partition int32) (int64, string, error) {
	resp, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: c.config.Group,
		Topics:  map[string][]int{topic: {int(partition)}},
	})
	if err != nil {
		return 0, "", fmt.Errorf("read the committed offset: %w", err)
	}
	if resp.Error != nil {
		return 0, "", fmt.Errorf("read the committed offset: %w", resp.Error)
	}
	for _, p := range resp.Topics[topic] {
		if p.Partition != int(partition) {
			continue
		}
		if p.Error != nil {
			return 0, "", fmt.Errorf("read the committed offset: %w", p.Error)
		}
		return p.CommittedOffset, p.Metadata, nil
	}
	return 0, "", errors.New("read the committed offset: the answer lacks the partition")
}

// commit commits offset with metadata, as a member of a generation. Once it succeeds no member of a later generation has
// committed for the partition.
func (c *client) commit(ctx context.Context, g generation, topic string, partition int32, offset int64, metadata string) error {
	resp, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID:      c.config.Group,
		GenerationID: int(g.id),
		MemberID:     g.member,
		Topics:       map[string][]kafka.OffsetCommit{topic: {{Partition: int(partition), Offset: offset, Metadata: metadata}}},
	})
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	for _, p := range resp.Topics[topic] {
		if p.Partition == int(partition) {
			if p.Error != nil {
				return fmt.Errorf("commit: %w", p.Error)
			}
			return nil
		}
	}
	return errors.New("commit: the answer lacks the partition")
}

// compacted reports whether the topic deletes records that a newer one with the same key replaces. Where the brokers do not
// let this client know, it gives the error.
func (c *client) compacted(ctx context.Context, topic string) (bool, error) {
	resp, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic,
		ResourceName: topic,
		ConfigNames:  []string{"cleanup.policy"},
	}}})
	if err != nil {
		return false, fmt.Errorf("ask for the cleanup policy: %w", err)
	}
	for _, r := range resp.Resources {
		if r.Error != nil {
			return false, fmt.Errorf("ask for the cleanup policy: %w", r.Error)
		}
		for _, e := range r.ConfigEntries {
			if e.ConfigName == "cleanup.policy" {
				return slices.Contains(splitList(e.ConfigValue), "compact"), nil
			}
		}
	}
	return false, errors.New("ask for the cleanup policy: the answer lacks it")
}
