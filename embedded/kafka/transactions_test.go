package kafka

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestEndsTransactionsAfterAKill kills the broker in the middle of a transaction. What its producer commits afterwards is there for
// every reader, wherever it begins, and what it rolls back is not.
func TestEndsTransactionsAfterAKill(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir)
	open := newClient(t, c.addr, kgo.TransactionalID("shop"), kgo.DefaultProduceTopic(topic))
	send := func(p *kgo.Client, values ...string) {
		t.Helper()
		if err := p.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := p.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(open, "lost 1", "lost 2")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	open.Close()

	b := startBroker(t, Config{Data: dir})
	shop := newClient(t, b.Addr(), kgo.TransactionalID("shop"), kgo.DefaultProduceTopic(topic))
	defer shop.Close()
	var want []string
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} {
		values := []string{fmt.Sprint(i, " 1"), fmt.Sprint(i, " 2")}
		send(shop, values...)
		if err := shop.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if end == kgo.TryCommit {
			want = append(want, values...)
		}
	}
	for _, start := range []kgo.Offset{kgo.NewOffset().AtStart(), kgo.NewOffset().At(1)} {
		if diff := gocmp.Diff(want, committed(t, b, start)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// committed reads what is committed from an offset on.
func committed(t *testing.T, b *Broker, start kgo.Offset) (values []string) {
	t.Helper()
	reader := newClient(t, b.Addr(), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: start}}))
	defer reader.Close()
	end := b.cluster.PartitionInfos(topic)[0].HighWatermark
	for next := int64(0); next < end; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err0(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if next = r.Offset + 1; !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}
