package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const topicTimeout = 30 * time.Second

// ensureTopics creates the topics that are missing and adds the partitions that are.
func ensureTopics(ctx context.Context, cluster *kfake.Cluster, addr string, cfg Config) error {
	grow := kmsg.NewPtrCreatePartitionsRequest()
	for _, name := range cfg.Topics {
		err := cluster.CreateTopic(name, int32(cfg.Partitions), nil)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("embedded kafka: create topic %q: %w", name, err)
		}
		if len(cluster.PartitionInfos(name)) < cfg.Partitions {
			t := kmsg.NewCreatePartitionsRequestTopic()
			t.Topic, t.Count = name, int32(cfg.Partitions)
			grow.Topics = append(grow.Topics, t)
		}
	}
	if len(grow.Topics) == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return fmt.Errorf("embedded kafka: add partitions: %w", err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	resp, err := grow.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("embedded kafka: add partitions: %w", err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("embedded kafka: add partitions to topic %q: %w", t.Topic, err)
		}
	}
	return nil
}
