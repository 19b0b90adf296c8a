package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"auditor/cmd/auditor/archive"
	"auditor/embedded/kafka"
	"auditor/event"
	"auditor/event/reject"
	"auditor/ingest"
	"auditor/ingest/replay"
)

type rejectsReplay struct {
	storeAccess
	rejectsChoice
	rejectsBy
	State     []string `default:"open" placeholder:"STATE" help:"Where they are chosen by what they are: in these states only (${default})."`
	File      string   `placeholder:"FILE" help:"Send what this file holds in place of the one reject; - is standard input."`
	To        string   `placeholder:"TOPIC" help:"Send to this topic; to the one that they came from, if not given."`
	Again     bool     `help:"Send also what was sent before, or may have been."`
	Force     bool     `help:"Send also what would be rejected again, or makes another event than what was sent before."`
	DryRun    bool     `help:"Only say what would be done."`
	Limit     int      `default:"1000" help:"Where they are chosen by what they are: how many at most, the oldest (${default})."`
	Rate      int      `default:"100" help:"How many a second at most; 0: as fast as it goes (${default})."`
	JSON      bool     `name:"json" help:"Print one JSON object a reject."`
	Positions []string `arg:"" optional:"" name:"position" help:"topic:partition:offset, and :index for an element of an array."`
}

// Run sends rejects through again, and fails unless all that were chosen are through.
func (r rejectsReplay) Run(env *environment) error {
	at, err := positionsOf(r.Positions)
	if err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	filter, err := r.filter(r.State)
	if err != nil {
		return err
	}
	order := reject.Order{Topic: r.To, Again: r.Again, Force: r.Force}
	if order.By, order.Note, err = r.rejectsBy.check(env); err != nil {
		return err
	}
	if r.File != "" {
		if order.Value, err = readValue(r.File, env.stdin); err != nil {
			return err
		}
	}
	a, err := r.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	if err := a.reachBroker(env.ctx); err != nil {
		return err
	}
	if len(at) == 0 {
		if at, err = a.store.ChooseRejects(env.ctx, filter, r.Limit); err != nil {
			return err
		}
	}
	tally := &replayTally{out: env.stdout, warn: env.stderr, json: r.JSON, outcomes: make(map[reject.Outcome]int), causes: make(map[reject.Cause]int)}
	sending := &replaying{app: a, rate: r.Rate, dry: r.DryRun}
	err = sending.replay(env.ctx, at, order, tally.add)
	return errors.Join(tally.end(len(at)), err)
}

// check says what of the command line makes no sense.
func (r rejectsReplay) check() error {
	var errs []error
	switch {
	case len(r.Positions) == 0 && r.isEmpty():
		errs = append(errs, errors.New("name the positions of rejects, or choose some with --reason, --topic, --partition, --since or --until"))
	case len(r.Positions) > 0 && !r.isEmpty():
		errs = append(errs, errors.New("name the positions of rejects, or choose some by what they are, but not both"))
	}
	if r.File != "" && len(r.Positions) != 1 {
		errs = append(errs, errors.New("--file: stands for one reject, whose position must be given"))
	}
	if r.Limit < 1 || r.Limit > 1_000_000 {
		errs = append(errs, fmt.Errorf("--limit: must be from 1 to 1000000, not %d", r.Limit))
	}
	if r.Rate < 0 {
		errs = append(errs, fmt.Errorf("--rate: must be 0 or more, not %d", r.Rate))
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	return nil
}

// readValue reads what is to be sent. It holds no more than a record may.
func readValue(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	value, err := io.ReadAll(io.LimitReader(in, archive.MaxLine+1))
	if err == nil && len(value) > archive.MaxLine {
		err = fmt.Errorf("%s: is longer than %d bytes", name, archive.MaxLine)
	}
	return append([]byte{}, value...), err
}

// reachBroker sees to it that there is a broker to send to: the configured ones, the embedded one of an auditor that runs,
// or else an embedded one that this process runs on the same data.
func (a *app) reachBroker(ctx context.Context) error {
	if len(a.config.Kafka.Brokers) == 0 && len(a.config.ClickHouse.Addresses) > 0 {
		return missing("kafka.brokers")
	}
	if len(a.config.Kafka.Brokers) == 0 && a.attached {
		addr, running := kafka.Attach(filepath.Join(a.config.Data, "kafka"))
		if !running {
			return fmt.Errorf("no broker runs on %s, so the auditor that runs there reads from another: name it in kafka.brokers", a.config.Data)
		}
		a.config.Kafka.Brokers = []string{addr}
		return nil
	}
	return a.startBroker(ctx)
}

// replaying sends rejects to Kafka under the configuration of ingest.
type replaying struct {
	app  *app
	rate int // records a second at most; 0: as fast as it goes
	dry  bool
}

// replay carries out an order on rejects. It opens a producer for their topics, and closes it.
func (r *replaying) replay(ctx context.Context, at []event.Position, o reject.Order, report func(reject.Result)) error {
	topics := []string{o.Topic}
	if o.Topic == "" {
		topics = topics[:0]
		for _, p := range at {
			if !slices.Contains(topics, p.Topic) {
				topics = append(topics, p.Topic)
			}
		}
	}
	producer, err := ingest.NewProducer(r.app.config.Kafka, topics...)
	if err != nil {
		return err
	}
	defer producer.Close()
	decoder, err := event.NewDecoder(r.app.config.Decoder())
	if err != nil {
		return err
	}
	replayer := &replay.Replayer{Store: r.app.store, Kafka: producer, Decoder: decoder, Rate: r.rate, DryRun: r.dry}
	return replayer.Replay(ctx, at, o, report)
}

// Replay carries out an order on one reject, for the pages and the API.
func (r *replaying) Replay(ctx context.Context, at event.Position, o reject.Order, dry bool) (reject.Result, error) {
	var result reject.Result
	one := &replaying{app: r.app, dry: dry}
	err := one.replay(ctx, []event.Position{at}, o, func(told reject.Result) { result = told })
	if result.Outcome == "" {
		return result, err
	}
	result.Err = cmp.Or(result.Err, err)
	return result, nil
}

// replayTally tells the results and counts them.
type replayTally struct {
	out, warn io.Writer
	json      bool
	outcomes  map[reject.Outcome]int
	causes    map[reject.Cause]int
	told      int // on standard error
	err       error
}

// hints say what to do about a refusal.
var hints = map[reject.Cause]string{
	reject.CauseReplayed:   "--again sends it once more",
	reject.CauseUnknown:    "--again sends it, under the same event id",
	reject.CauseNoEvent:    "mend what `auditor rejects show %[1]s --raw` prints, and send it with --file",
	reject.CauseOtherEvent: "--force sends it as another event",
	reject.CauseBadBatch:   "`auditor rejects show %[1]s --raw` prints the bytes, --file sends the array",
}

func (t *replayTally) add(r reject.Result) {
	t.outcomes[r.Outcome]++
	cause := reject.Cause("")
	if refusal := new(reject.Refusal); errors.As(r.Err, &refusal) {
		cause = refusal.Cause
		t.causes[cause]++
	}
	position := event.FormatPosition(r.Position)
	if t.json {
		t.err = cmp.Or(t.err, printLine(t.out, r))
		return
	}
	to := printable(fmt.Sprintf("%s:%d:%d", r.To.Topic, r.To.Partition, r.To.Offset))
	var err error
	switch r.Outcome {
	case reject.WasSent:
		_, err = fmt.Fprintf(t.out, "%s sent to %s, event %s\n", printable(position), to, idsText(r.EventIDs))
	case reject.WouldBeSent:
		_, err = fmt.Fprintf(t.out, "%s would be sent to %s:%d, event %s\n", printable(position), printable(r.To.Topic), r.To.Partition, idsText(r.EventIDs))
	case reject.HadArrived:
		_, err = fmt.Fprintf(t.out, "%s is at %s already: what was unknown is known now, nothing was sent\n", printable(position), to)
	default:
		if t.told++; t.told > maxWarnings {
			return
		}
		text := fmt.Sprintf("auditor: %s: %s: %s", printable(position), outcomeText[r.Outcome], printable(r.Err.Error()))
		if hint := hints[cause]; hint != "" {
			text += "; " + strings.ReplaceAll(hint, "%[1]s", printable(position))
		}
		_, err = fmt.Fprintln(t.warn, text)
	}
	t.err = cmp.Or(t.err, err)
}

var outcomeText = map[reject.Outcome]string{
	reject.WasRefused:  "not sent",
	reject.HasFailed:   "could not be sent",
	reject.WasLeftOpen: "nobody can say whether it was sent",
}

func idsText(ids []string) string {
	switch len(ids) {
	case 0:
		return "none"
	case 1:
		return printable(ids[0])
	}
	return printable(ids[0]) + " and " + count(len(ids)-1, "other")
}

// end sums up, and fails unless all that were chosen are through.
func (t *replayTally) end(chosen int) error {
	if left := t.told - maxWarnings; left > 0 {
		fmt.Fprintf(t.warn, "auditor: and %d more\n", left)
	}
	through := t.outcomes[reject.WasSent] + t.outcomes[reject.WouldBeSent] + t.outcomes[reject.HadArrived]
	if chosen == 0 && !t.json {
		_, err := fmt.Fprintln(t.out, "No reject was chosen.")
		return err
	}
	if chosen == 1 || t.json { // what was told says it all
		if through < chosen {
			return errors.Join(t.err, errNotThrough)
		}
		return t.err
	}
	var parts []string
	for _, o := range []reject.Outcome{reject.WasSent, reject.WouldBeSent, reject.HadArrived, reject.WasRefused, reject.HasFailed, reject.WasLeftOpen} {
		if n := t.outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(t.causes)) {
		parts = append(parts, fmt.Sprintf("%s: %d", cause, t.causes[cause]))
	}
	_, err := fmt.Fprintf(t.out, "Of %s: %s.\n", count(chosen, "reject"), strings.Join(parts, ", "))
	if through < chosen {
		err = errors.Join(err, errNotThrough)
	}
	return errors.Join(t.err, err)
}

var errNotThrough = errors.New("not every reject that was chosen is through")
