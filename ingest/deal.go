package ingest

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/consumer"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
)

// deal shares the partitions out among the members, as their leader has to. Every member gets an answer, if only that it has
// none.
func deal(counts map[string]int, joined []kafka.JoinGroupResponseMember) kafka.GroupMemberAssignments {
	var partitions []kafka.Partition
	for topic, n := range counts {
		for id := range n {
			partitions = append(partitions, kafka.Partition{Topic: topic, ID: id})
		}
	}
	members := make([]kafka.GroupMember, len(joined))
	for i, j := range joined {
		members[i] = kafka.GroupMember{ID: j.ID, Topics: j.Metadata.Topics}
	}
	parts := kafka.RangeGroupBalancer{}.AssignGroups(members, partitions)
	for _, j := range joined {
		if parts[j.ID] == nil {
			parts[j.ID] = map[string][]int{}
		}
	}
	return parts
}

// sync tells the coordinator what every member gets, if this one leads the group, and waits until it tells what this one has.
// The library's own function takes every error of the coordinator for an answer that is cut off.
func (m *membership) sync(ctx context.Context, g generation, protocolName string, parts kafka.GroupMemberAssignments) ([]place, error) {
	ctx, cancel := context.WithTimeout(ctx, m.requests.Timeout)
	defer cancel()
	request := &syncgroup.Request{
		GroupID: m.config.Kafka.Group, GenerationID: g.id, MemberID: g.member, ProtocolType: protocolType, ProtocolName: protocolName,
	}
	for member, topics := range parts {
		part := consumer.Assignment{Version: consumer.MaxVersionSupported}
		for topic, numbers := range topics {
			of := consumer.TopicPartition{Topic: topic}
			for _, n := range numbers {
				of.Partitions = append(of.Partitions, int32(n))
			}
			part.AssignedPartitions = append(part.AssignedPartitions, of)
		}
		text, err := protocol.Marshal(consumer.MaxVersionSupported, part)
		if err != nil {
			return nil, err
		}
		request.Assignments = append(request.Assignments, syncgroup.RequestAssignment{MemberID: member, Assignment: text})
	}
	answer, err := m.client.transport.RoundTrip(ctx, m.client.Addr, request)
	if err != nil {
		return nil, err
	}
	response := answer.(*syncgroup.Response)
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	var own consumer.Assignment
	if err := protocol.Unmarshal(response.Assignments, consumer.MaxVersionSupported, &own); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	var places []place
	for _, of := range own.AssignedPartitions {
		for _, n := range of.Partitions {
			places = append(places, place{of.Topic, n})
		}
	}
	return places, nil
}
