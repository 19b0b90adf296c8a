package ingest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
)

// heartbeatRequest is a heartbeat in its first version, which Apache Kafka 4 serves still. The library asks any broker, not the
// group's coordinator, and from the second version on reads the answer's fields in the wrong order: an error, such as that
// the group is being dealt anew, looks like none.
type heartbeatRequest struct {
	heartbeat.Request
	clientID string
}

// heartbeatResponse is the answer; zero for all is well.
type heartbeatResponse struct{ code int16 }

// ApiKey makes heartbeatResponse a protocol.Message.
func (*heartbeatResponse) ApiKey() protocol.ApiKey { return protocol.Heartbeat }

// Group has the transport ask the group's coordinator.
func (r *heartbeatRequest) Group() string { return r.GroupID }

// Required tells the connection that the request does its own reading.
func (*heartbeatRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange writes the request and reads the answer.
func (r *heartbeatRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const version, correlation, answerBytes = 0, 1, 6
	if err := protocol.WriteRequest(rw, version, correlation, r.clientID, &r.Request); err != nil {
		return nil, err
	}
	var answer [4 + answerBytes]byte // size, correlation, error
	if _, err := io.ReadFull(rw, answer[:]); err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(answer[:]) != answerBytes || binary.BigEndian.Uint32(answer[4:]) != correlation {
		return nil, fmt.Errorf("the answer is not framed as it should be: %x", answer)
	}
	return &heartbeatResponse{int16(binary.BigEndian.Uint16(answer[8:]))}, nil
}

// heartbeat tells the coordinator that a member of a generation lives.
func (c *client) heartbeat(ctx context.Context, g generation) error {
	answer, err := c.transport.RoundTrip(ctx, c.Addr, &heartbeatRequest{
		clientID: c.config.ClientID,
		Request:  heartbeat.Request{GroupID: c.config.Group, GenerationID: g.id, MemberID: g.member},
	})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if code := answer.(*heartbeatResponse).code; code != 0 {
		return fmt.Errorf("heartbeat: %w", kafka.Error(code))
	}
	return nil
}
