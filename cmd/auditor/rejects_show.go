package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"auditor/event"
	"auditor/event/reject"
	"auditor/queries"
)

type rejectsShow struct {
	storeAccess
	Raw      bool   `xor:"form" help:"Print the bytes of the record or element as they came, and nothing else."`
	JSON     bool   `name:"json" xor:"form" help:"Print one JSON object."`
	Position string `arg:"" help:"topic:partition:offset, and :index for an element of an array."`
}

// Run shows one reject whole.
func (s rejectsShow) Run(env *environment) error {
	at, err := positionsOf([]string{s.Position})
	if err != nil {
		return err
	}
	a, err := s.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	r, err := rejectAt(env.ctx, a.store, at[0])
	if err != nil {
		return err
	}
	switch {
	case s.Raw && r.State == reject.Purged:
		return fmt.Errorf("%s: its bytes were purged", s.Position)
	case s.Raw:
		_, err = env.stdout.Write(r.Raw)
		return err
	case s.JSON:
		return printLine(env.stdout, r)
	}
	known, err := fatesOf(env.ctx, a.store, r)
	if err != nil {
		return err
	}
	return printReject(env.stdout, r, known)
}

// fates is what the store knows of replays: of what was sent, and of intents whose outcome is unknown.
type fates map[string]string // by action and attempt

func (f fates) of(e reject.Entry) string { return f[string(e.Action)+e.Attempt] }

func (f fates) set(e reject.Entry, text string) { f[string(e.Action)+e.Attempt] = text }

func fatesOf(ctx context.Context, store *queries.Store, r reject.Reject) (fates, error) {
	known := make(fates)
	for _, e := range r.Log {
		if e.Action != reject.Sent {
			continue
		}
		stored, err := store.StoredAt(ctx, e.To)
		if err != nil {
			return nil, err
		}
		switch {
		case len(stored.Events) > 0:
			known.set(e, "it is in the store")
		case len(stored.Rejects) > 0:
			known.set(e, "it was rejected again: "+event.FormatPosition(stored.Rejects[0]))
		default:
			known.set(e, "it is not in the store yet")
		}
	}
	for _, e := range r.Unsettled() {
		offset, ok, err := store.Arrived(ctx, e.To, e.EventIDs)
		if err != nil {
			return nil, err
		}
		known.set(e, "whether it was is unknown, and it is not in the store yet")
		if ok {
			known.set(e, fmt.Sprintf("it was, for it is in the store: %s:%d:%d", printable(e.To.Topic), e.To.Partition, offset))
		}
	}
	return known, nil
}

// shownBytes is how many bytes of a value a person is shown.
const shownBytes = 64 << 10

func printReject(w io.Writer, r reject.Reject, known fates) error {
	facts := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fact := func(name, value string) { fmt.Fprintf(facts, "%s\t%s\n", name, value) }
	fact("position", printable(event.FormatPosition(r.Position)))
	fact("time", moment(r.KafkaTime))
	fact("reason", printable(string(r.Reason)))
	fact("detail", orDash(r.Detail))
	fact("state", string(r.State))
	fact("key", orDash(textOrHex(r.Key)))
	for _, h := range r.Headers {
		fact("header", printable(h.Key)+": "+textOrHex(h.Value))
	}
	fact("bytes", fmt.Sprint(r.Size))
	for _, e := range r.Log {
		fact("history", moment(e.Time)+" "+entryText(e, known.of(e)))
	}
	if err := facts.Flush(); err != nil {
		return err
	}
	if r.Size == 0 {
		return nil
	}
	shown := r.Raw[:min(len(r.Raw), shownBytes)]
	text := hex.Dump(shown)
	if isText(shown) {
		text = string(bytes.TrimRight(shown, "\n")) + "\n"
	}
	if more := len(r.Raw) - len(shown); more > 0 {
		text += fmt.Sprintf("... and %s; --raw prints them all\n", count(more, "more byte"))
	}
	_, err := fmt.Fprintf(w, "\n%s", text)
	return err
}

// entryText is one line of a reject's history.
func entryText(e reject.Entry, fate string) string {
	by, note := printable(e.By), ""
	if fate != "" {
		fate = "; " + fate
	}
	if e.Note != "" {
		note = ": " + printable(e.Note)
	}
	place := printable(fmt.Sprintf("%s:%d", e.To.Topic, e.To.Partition))
	switch e.Action {
	case reject.Intended:
		what := "as it is"
		if e.Mended {
			what = "mended"
		}
		return fmt.Sprintf("to be sent to %s, %s, by %s%s", place, what, by, note) + fate
	case reject.Sent:
		return fmt.Sprintf("sent to %s:%d", place, e.To.Offset) + fate
	case reject.NotSent:
		return "not sent" + note
	case reject.Unclear:
		return "nobody can say whether it was sent" + note
	case reject.Purge:
		return "purged by " + by + note
	}
	return printable(string(e.Action)) + " by " + by + note
}

// textOrHex is what a key or a header holds: text, or else bytes in hexadecimal.
func textOrHex(b []byte) string {
	if utf8.Valid(b) {
		return printable(string(b))
	}
	return "0x" + hex.EncodeToString(b)
}

// isText reports whether bytes can be shown as they are. The last character may be cut.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			return !utf8.FullRune(b)
		}
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
		b = b[size:]
	}
	return true
}
