package kafka

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const transactionsTimeout = time.Minute

// endTransactions rolls back what was open when the broker was killed. kfake lists such a transaction as rolled back, but
// writes no marker at its end, by which every client tells where that is: without one, clients take the producer's next
// transactions for a part of it, and so some lose records that were committed, and others see records that were not. Which
// partitions lack a marker kfake does not tell, so each gets one; where nothing was open a marker means nothing.
//
// It has to be done before producers go on.
func endTransactions(ctx context.Context, cluster *kfake.Cluster, inside *gate) error {
	ctx, cancel := context.WithTimeout(ctx, transactionsTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(inside.dial))
	if err != nil {
		return fmt.Errorf("embedded kafka: end transactions: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	known, err := admin.DescribeTransactions(ctx) // all that there are
	if err != nil {
		return fmt.Errorf("embedded kafka: end transactions: %w", err)
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("embedded kafka: end transactions: %w", err)
	}
	var markers []kadm.TxnMarkers
	for _, t := range known {
		markers = append(markers, kadm.TxnMarkers{ProducerID: t.ProducerID, ProducerEpoch: t.ProducerEpoch, Topics: topics.TopicsSet()})
	}
	if len(markers) == 0 {
		return nil
	}
	written, err := admin.WriteTxnMarkers(ctx, markers...)
	if err != nil {
		return fmt.Errorf("embedded kafka: end transactions: %w", err)
	}
	written.EachPartition(func(p kadm.TxnMarkersPartitionResponse) {
		if p.Err != nil && err == nil {
			err = fmt.Errorf("embedded kafka: end transactions in %s/%d: %w", p.Topic, p.Partition, p.Err)
		}
	})
	return err
}

// gate is a listener whose clients wait outside until it is opened, save those that dial from inside.
type gate struct {
	net.Listener
	inside chan net.Conn
	opened chan struct{}
	closed chan struct{}
	close  func()
}

func newGate(l net.Listener) *gate {
	g := &gate{Listener: l, inside: make(chan net.Conn), opened: make(chan struct{}), closed: make(chan struct{})}
	g.close = sync.OnceFunc(func() { close(g.closed) })
	return g
}

// open lets everybody in. It may be called once.
func (g *gate) open() { close(g.opened) }

// Accept waits for the next client.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case c := <-g.inside:
		return c, nil
	case <-g.opened:
		return g.Listener.Accept()
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the waiting, too.
func (g *gate) Close() error {
	g.close()
	return g.Listener.Close()
}

func (g *gate) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case g.inside <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.closed:
		return nil, net.ErrClosed
	}
}
