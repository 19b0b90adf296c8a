package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"auditor/emit"
	"auditor/event"
)

// emitCommand is for shell scripts, cron, and whatever has no client of its own.
type emitCommand struct {
	Event emitEvent `cmd:"" default:"withargs" help:"Send one event, told by flags, or those on standard input."`
	Run   emitRun   `cmd:"" help:"Run a command, and tell when it starts and how it ends."`
}

type emitEvent struct {
	destination
	happening
	Timeout time.Duration `default:"30s" help:"How long to try."`
	File    string        `arg:"" optional:"" help:"File of events, one a line or an array, in any format; - is standard input, which is read when no flag tells of an event."`
}

// happening is one event, told by flags. What a script leaves open is taken from the variables that emit run sets for it.
type happening struct {
	Type           string            `placeholder:"TYPE" help:"What happened: sent, received, started, effect, retried, succeeded, failed, rejected, revoked, skipped, worker_lost or heartbeat."`
	Outcome        string            `placeholder:"OUTCOME" help:"How a run ended: succeeded, failed, retried, skipped, rejected or revoked."`
	Task           string            `placeholder:"NAME" help:"Task; AUDITOR_TASK, if not given."`
	TaskID         string            `name:"task-id" placeholder:"ID" help:"The queue's id of the message; AUDITOR_TASK_ID, if not given."`
	Key            string            `placeholder:"KEY" help:"Business key, what the work is about; AUDITOR_BUSINESS_KEY, if not given."`
	Namespace      string            `placeholder:"NAME" help:"Environment or team; AUDITOR_NAMESPACE, if not given."`
	System         string            `placeholder:"NAME" help:"What runs the task, such as cron."`
	Retries        *int              `placeholder:"N" help:"Attempts before this one; AUDITOR_RETRIES, if not given."`
	Queue          string            `placeholder:"NAME" help:"Queue."`
	Worker         string            `placeholder:"NAME" help:"Who runs it (this host)."`
	Effect         string            `placeholder:"NAME" help:"What was done to the world outside, such as payment.charge; implies --type effect."`
	Target         string            `placeholder:"NAME" help:"Whom or what the effect was done to."`
	IdempotencyKey string            `placeholder:"KEY" help:"Idempotency key of the effect."`
	Amount         string            `placeholder:"N" help:"Amount of the effect."`
	Currency       string            `placeholder:"CODE" help:"Its currency."`
	ErrorType      string            `placeholder:"NAME" help:"Type of the error."`
	ErrorMessage   string            `placeholder:"TEXT" help:"Message of the error."`
	Permanent      bool              `help:"No retry will heal the error."`
	SkipReason     string            `placeholder:"REASON" help:"Why a run stood aside: duplicate_ignored, already_processed, locked, in_flight, already_running, or another."`
	Holder         string            `placeholder:"ID" help:"Task id of the run that it stood aside for."`
	Time           string            `placeholder:"TIME" help:"When it happened, RFC 3339 (now)."`
	EventID        string            `placeholder:"ID" help:"Id of the event: the same id counts once, however often it is sent (one by chance)."`
	Attribute      map[string]string `placeholder:"NAME=TEXT" help:"Whatever else there is to tell; may be given several times."`
}

// Run sends events, and fails unless every one of them was taken.
func (e emitEvent) Run(env *environment) error {
	to, c, err := e.open(env)
	if err != nil {
		return err
	}
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		return err
	}
	publisher, err := emit.NewPublisher(to)
	if err != nil {
		return err
	}
	defer publisher.Close()
	ctx, cancel := context.WithTimeout(env.ctx, e.Timeout)
	defer cancel()
	if told := e.told(); told && e.File != "" {
		return usageError{errors.New("tell of one event by flags, or of several in a file, but not both")}
	} else if told {
		return e.sendOne(ctx, env, decoder, publisher)
	}
	return sendFile(ctx, env, cmp.Or(e.File, "-"), decoder, publisher)
}

// told reports whether flags tell of an event.
func (h happening) told() bool { return h.Type != "" || h.Outcome != "" || h.Effect != "" }

func (h happening) sendOne(ctx context.Context, env *environment, decoder *event.Decoder, publisher *emit.Publisher) error {
	value, err := h.json(env)
	if err != nil {
		return err
	}
	events, rejects := decoder.Decode(event.Record{Time: time.Now(), Value: value})
	if len(rejects) > 0 {
		return usageError{fmt.Errorf("%s: %s", rejects[0].Reason, printable(rejects[0].Detail))}
	}
	return publisher.Publish(ctx, []event.Record{{Key: event.RecordOf(&events[0]).Key, Value: value}})
}

// json writes the event as the formats have it.
func (h happening) json(env *environment) ([]byte, error) {
	if h.Effect != "" && h.Type == "" && h.Outcome == "" {
		h.Type = string(event.Effected)
	}
	if text := env.getenv("AUDITOR_RETRIES"); h.Retries == nil && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("AUDITOR_RETRIES: must be a whole number, not %q", text)
		}
		h.Retries = &n
	}
	object := map[string]any{}
	set(object, "type", h.Type)
	set(object, "outcome", h.Outcome)
	set(object, "event_id", cmp.Or(h.EventID, strings.ToLower(rand.Text())))
	set(object, "time", cmp.Or(h.Time, time.Now().UTC().Format(time.RFC3339Nano)))
	set(object, "task", cmp.Or(h.Task, env.getenv("AUDITOR_TASK")))
	set(object, "task_id", cmp.Or(h.TaskID, env.getenv("AUDITOR_TASK_ID")))
	set(object, "business_key", cmp.Or(h.Key, env.getenv("AUDITOR_BUSINESS_KEY")))
	set(object, "namespace", cmp.Or(h.Namespace, env.getenv("AUDITOR_NAMESPACE")))
	set(object, "execution_id", env.getenv("AUDITOR_EXECUTION_ID"))
	set(object, "system", h.System)
	set(object, "queue", h.Queue)
	set(object, "worker", cmp.Or(h.Worker, hostname()))
	if h.Retries != nil {
		object["retries"] = *h.Retries
	}
	effect, failure, skip := map[string]any{}, map[string]any{}, map[string]any{}
	set(effect, "name", h.Effect)
	set(effect, "target", h.Target)
	set(effect, "idempotency_key", h.IdempotencyKey)
	set(effect, "amount", h.Amount)
	set(effect, "currency", h.Currency)
	set(failure, "type", h.ErrorType)
	set(failure, "message", h.ErrorMessage)
	if h.Permanent {
		failure["permanent"] = true
	}
	set(skip, "reason", h.SkipReason)
	set(skip, "holder", h.Holder)
	for name, part := range map[string]map[string]any{"effect": effect, "error": failure, "skip": skip} {
		if len(part) > 0 {
			object[name] = part
		}
	}
	if len(h.Attribute) > 0 {
		object["attributes"] = h.Attribute
	}
	return json.Marshal(object)
}

func set(object map[string]any, name, text string) {
	if text != "" {
		object[name] = text
	}
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// sendFile sends what a file holds, and tells of what cannot be read.
func sendFile(ctx context.Context, env *environment, name string, decoder *event.Decoder, publisher *emit.Publisher) error {
	in := env.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	s := &sending{name: name, decoder: decoder, publisher: publisher, warn: env.stderr}
	if name == "-" {
		s.name = "standard input"
	}
	err := s.all(ctx, in)
	if _, told := fmt.Fprintf(env.stdout, "Sent %s, %s rejected.\n", count(s.sent, "event"), count(s.bad, "record")); told != nil {
		return errors.Join(err, told)
	}
	if err == nil && s.bad > 0 {
		err = errSomeRejected
	}
	return err
}

var errSomeRejected = errors.New("not every record was taken")

// sending sends the records of a file in batches, as they are.
type sending struct {
	name      string
	decoder   *event.Decoder
	publisher *emit.Publisher
	warn      io.Writer
	sent      int // events
	bad       int // records
	numbers   []int64
	counts    []int // events of each record
	batch     []event.Record
	size      int
}

// Bounds of what is sent at once.
const (
	sendRecords = 5000
	sendBytes   = 4 << 20
)

func (s *sending) all(ctx context.Context, in io.Reader) error {
	for rec, err := range records(in) {
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := s.add(ctx, rec); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}

// add adds a record, whose elements are taken or rejected together.
func (s *sending) add(ctx context.Context, rec record) error {
	events, rejects := s.decoder.Decode(event.Record{Time: time.Now(), Value: rec.value})
	if len(rejects) > 0 {
		s.reject(rec.number, string(rejects[0].Reason)+": "+rejects[0].Detail)
		return nil
	}
	s.numbers, s.counts = append(s.numbers, rec.number), append(s.counts, len(events))
	s.batch = append(s.batch, event.Record{Key: event.RecordOf(&events[0]).Key, Value: rec.value})
	if s.size += len(rec.value); len(s.batch) < sendRecords && s.size < sendBytes {
		return nil
	}
	return s.flush(ctx)
}

func (s *sending) reject(number int64, why string) {
	if s.bad++; s.bad <= maxWarnings {
		fmt.Fprintf(s.warn, "auditor: %s:%d: not sent: %s\n", s.name, number, printable(why))
	}
}

// flush sends the batch. An error is of what ends the sending.
func (s *sending) flush(ctx context.Context) error {
	err := s.publisher.Publish(ctx, s.batch)
	failed := new(emit.PublishError)
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	var ends error
	for i, n := range s.counts {
		switch {
		case err == nil || failed.Errors[i] == nil:
			s.sent += n
		case errors.As(failed.Errors[i], new(*emit.RefusedError)):
			s.reject(s.numbers[i], failed.Errors[i].Error())
		default:
			ends = err
		}
	}
	s.batch, s.numbers, s.counts, s.size = s.batch[:0], s.numbers[:0], s.counts[:0], 0
	return ends
}
