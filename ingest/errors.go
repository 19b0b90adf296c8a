package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	"github.com/segmentio/kafka-go"
)

// Reason is why a partition stands still until somebody acts, from a short fixed list, so that it can label a metric.
// A partition that stands still is looked at again every minute, and goes on by itself once the cause is gone.
type Reason string

// The reasons. docs/ingest.md says what to do about each.
const (
	Compacted     Reason = "topic_compacted" // the topic's cleanup policy deletes records that a newer one replaces
	Replaced      Reason = "topic_replaced"  // the topic was deleted and made anew: its records are not those in the store
	Shorter       Reason = "topic_shorter"   // the topic ends before what the store has
	StoreRefuses  Reason = "store_refuses"   // the store says that no retry can help
	UnknownIntent Reason = "unknown_intent"  // a newer version of auditor left a batch in flight
	CorruptBatch  Reason = "corrupt_batch"   // the broker's records do not match their checksum
	OldFormat     Reason = "old_format"      // records in a format from before Kafka 0.11
)

// Reasons lists every reason.
var Reasons = []Reason{Compacted, Replaced, Shorter, StoreRefuses, UnknownIntent, CorruptBatch, OldFormat}

// stopped is the error that makes a partition stand still.
type stopped struct {
	reason Reason
	detail string
}

func (s *stopped) Error() string { return fmt.Sprintf("%s: %s", s.reason, s.detail) }

func stop(reason Reason, format string, args ...any) error {
	return &stopped{reason, fmt.Sprintf(format, args...)}
}

// errFenced says that the group has gone on without this member: the partition may be another's by now.
var errFenced = errors.New("the consumer group has a newer generation")

// permanent reports whether the store says that no retry can help.
func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// ofContent reports whether the store answered that something in the batch cannot be stored.
func ofContent(err error) bool {
	var e interface{ OfContent() bool }
	return errors.As(err, &e) && e.OfContent()
}

// ofSize reports whether the store answered that the batch asks too much of it at once.
func ofSize(err error) bool {
	var e interface{ OfSize() bool }
	return errors.As(err, &e) && e.OfSize()
}

// fenced reports whether the coordinator refused a commit because the generation is over.
func fenced(err error) bool {
	return errors.Is(err, kafka.IllegalGeneration) || errors.Is(err, kafka.UnknownMemberId) ||
		errors.Is(err, kafka.RebalanceInProgress) || errors.Is(err, kafka.FencedInstanceID)
}

// forbidden reports whether the brokers do not let this client ask.
func forbidden(err error) bool {
	return errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed)
}

// hungUp is the error of brokers that take a connection and close it at the first request. So do those that want a client to
// encrypt or to tell who it is, or that do not understand one that encrypts.
type hungUp struct{ error }

func (h hungUp) Unwrap() error { return h.error }

// ended reports whether the other side closed the connection.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// trouble names the kind of an error, so that the same trouble is logged once although its text names another port or
// another attempt each time.
func trouble(err error) string {
	var code kafka.Error
	var network net.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &hungUp{}):
		return "the broker closes each connection at once: it is not up yet, or kafka.tls or kafka.sasl are not as it wants them"
	case errors.As(err, &certificate):
		return "the broker's certificate is refused: " + certificate.Err.Error()
	case errors.As(err, &code):
		return code.Title()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &network), ended(err), errors.Is(err, net.ErrClosed):
		return "not reachable"
	}
	return numbers.ReplaceAllString(err.Error(), "#")
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)
