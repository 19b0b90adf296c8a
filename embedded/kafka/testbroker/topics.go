package testbroker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic makes a topic. Configs are Kafka's topic configs.
func (b *Broker) CreateTopic(ctx context.Context, name string, partitions int, configs map[string]string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.AddrOf(Plaintext)))
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), -1
	for key, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		topic.Configs = append(topic.Configs, c)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", name, err)
		}
	}
	return nil
}
