package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// entry is a record as the log holds it.
type entry struct {
	offset int64
	print  print
}

// truth is what the store must hold, and what must be found.
type truth struct {
	contents map[print]content
	log      map[int32][]entry // by partition, in the order of offsets
	ends     map[int32]int64   // offset after the last that can be read
	expected []expected
}

// readLog reads the topic from its beginning to its end, as of now, records of transactions that were rolled back aside.
func readLog(ctx context.Context, addr string) (log map[int32][]entry, ends map[int32]int64, err error) {
	if ends, err = logEnds(ctx, addr, true); err != nil {
		return nil, nil, err
	}
	from := make(map[int32]kgo.Offset)
	for partition := range ends {
		from[partition] = kgo.NewOffset().At(0)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addr), kgo.ClientID("reader"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}), kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	log, next := make(map[int32][]entry), make(map[int32]int64)
	for !reached(next, ends) {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, nil, fmt.Errorf("read the log back: at %v of %v: %w", next, ends, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next[r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() && r.Offset < ends[r.Partition] {
				log[r.Partition] = append(log[r.Partition], entry{r.Offset, printOf(r.Value)})
			}
		})
	}
	return log, ends, nil
}

func reached(next, ends map[int32]int64) bool {
	for partition, end := range ends {
		if next[partition] < end {
			return false
		}
	}
	return true
}

// logEnds gives the end of each partition or, where only what is committed counts, the offset up to which it can be read:
// that of the first transaction that is open, if there is one.
func logEnds(ctx context.Context, addr string, committed bool) (map[int32]int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	request := kmsg.NewPtrListOffsetsRequest()
	if committed {
		request.IsolationLevel = 1
	}
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for partition := range int32(partitions) {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, -1 // the latest
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of the log: %w", err)
	}
	ends := make(map[int32]int64)
	for _, t := range response.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("ask for the ends of the log: %w", err)
			}
			ends[p.Partition] = p.Offset
		}
	}
	if len(ends) != partitions {
		return nil, fmt.Errorf("ask for the ends of the log: %d partitions answer, of %d", len(ends), partitions)
	}
	return ends, nil
}

// lostByBroker counts the records that the broker acknowledged and does not have.
func lostByBroker(acked map[place]print, log map[int32][]entry) int {
	has := make(map[place]print)
	for partition, entries := range log {
		for _, e := range entries {
			has[place{partition, e.offset}] = e.print
		}
	}
	lost := 0
	for at, id := range acked {
		if has[at] != id {
			lost++
		}
	}
	return lost
}
