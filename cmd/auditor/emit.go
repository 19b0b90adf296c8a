package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"auditor/cmd/auditor/archive"
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
	s := &sending{name: cmp.Or(strings.TrimPrefix(name, "-"), "standard input"), decoder: decoder, publish: publisher.Publish, warn: env.stderr}
	err := s.all(ctx, archive.Records(in))
	if _, told := fmt.Fprintf(env.stdout, "Sent %s, %s rejected.\n", count(s.sent, "event"), count(s.bad, "record")); told != nil {
		return errors.Join(err, told)
	}
	if err == nil && s.bad > 0 {
		err = errSomeRejected
	}
	return err
}

var errSomeRejected = errors.New("not every record was taken")
