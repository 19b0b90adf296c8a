package kafka

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	transactionsTimeout = time.Minute
	scanBytes           = 8 << 20 // of one fetch
	batchHead           = 12      // a batch's first offset and its length
	transactional       = 0x10    // attributes of a batch
	controlBatch        = 0x20
)

// endTransactions rolls back what was open when the broker was killed. kfake lists such a transaction as rolled back, but
// writes no marker at its end, by which every client tells where that is: without one, clients take the producer's next
// transactions for a part of it, and so some lose records that were committed, and others see records that were not.
//
// It has to be done before producers go on. Where there are transactional producers it reads the heads of all batches.
func endTransactions(ctx context.Context, cluster *kfake.Cluster, inside *gate) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("embedded kafka: end transactions: %w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, transactionsTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.Dialer(inside.dial), kgo.MaxVersions(kversion.V3_0_0())) // which names topics
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	producers, err := admin.DescribeTransactions(ctx) // all that there are
	if err != nil || len(producers) == 0 {
		return err
	}
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	open := make(map[int64]kadm.TopicsSet) // by producer
	for _, t := range topics.Sorted() {
		for _, info := range cluster.PartitionInfos(t.Topic) {
			ids, err := openIn(ctx, client, t.Topic, info.Partition, info.LogStartOffset, info.HighWatermark)
			if err != nil {
				return err
			}
			for id := range ids {
				set := open[id]
				set.Add(t.Topic, info.Partition)
				open[id] = set
			}
		}
	}
	var markers []kadm.TxnMarkers
	for _, p := range producers {
		if open[p.ProducerID] != nil {
			markers = append(markers, kadm.TxnMarkers{ProducerID: p.ProducerID, ProducerEpoch: p.ProducerEpoch, Topics: open[p.ProducerID]})
		}
	}
	if len(markers) == 0 {
		return nil
	}
	written, err := admin.WriteTxnMarkers(ctx, markers...)
	written.EachPartition(func(p kadm.TxnMarkersPartitionResponse) {
		err = cmp.Or(err, p.Err)
	})
	return err
}

// openIn gives the producers whose last batch in a partition is not a marker, but one of a transaction.
func openIn(ctx context.Context, client *kgo.Client, topic string, partition int32, from, end int64) (map[int64]bool, error) {
	open := make(map[int64]bool)
	for from < end {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, from, scanBytes
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.Partitions = topic, append(t.Partitions, p)
		request := kmsg.NewPtrFetchRequest()
		request.MaxBytes, request.Topics = scanBytes, append(request.Topics, t)
		response, err := request.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return nil, fmt.Errorf("%s/%d is not told of", topic, partition)
		}
		read := response.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(read.ErrorCode); err != nil {
			return nil, fmt.Errorf("%s/%d: %w", topic, partition, err)
		}
		before := from
		for rest := read.RecordBatches; len(rest) >= batchHead; {
			size := batchHead + int(int32(binary.BigEndian.Uint32(rest[8:])))
			if size > len(rest) {
				break
			}
			var b kmsg.RecordBatch
			if err := b.ReadFrom(rest[:size]); err != nil {
				return nil, fmt.Errorf("%s/%d: %w", topic, partition, err)
			}
			switch {
			case b.Attributes&controlBatch != 0:
				delete(open, b.ProducerID)
			case b.Attributes&transactional != 0:
				open[b.ProducerID] = true
			}
			from, rest = b.FirstOffset+int64(b.LastOffsetDelta)+1, rest[size:]
		}
		if from == before {
			return nil, fmt.Errorf("%s/%d cannot be read at offset %d", topic, partition, from)
		}
	}
	return open, nil
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
