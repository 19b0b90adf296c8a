package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
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
	fates, err := fatesOf(env.ctx, a.store.Pages(), r)
	if err != nil {
		return err
	}
	return printReject(env.stdout, r, fates)
}

// fatesOf says in words what the store knows of a reject's replays, by attempt.
func fatesOf(ctx context.Context, pages *queries.Pages, r reject.Reject) (map[string]string, error) {
	fates, err := pages.RejectFates(ctx, r)
	if err != nil {
		return nil, err
	}
	words := make(map[string]string)
	for _, f := range fates {
		unknown := slices.ContainsFunc(r.Unsettled(), func(e reject.Entry) bool { return e.Attempt == f.Attempt })
		switch {
		case unknown && f.Event != nil:
			words[f.Attempt] = fmt.Sprintf("it was, for it is in the store: %s:%d:%d", printable(f.Event.Topic), f.Event.Partition, f.Event.Offset)
		case unknown:
			words[f.Attempt] = "whether it was is unknown, and it is not in the store yet"
		case f.Event != nil:
			words[f.Attempt] = "it is in the store"
		case f.Reject != nil:
			words[f.Attempt] = "it was rejected again: " + event.FormatPosition(*f.Reject)
		default:
			words[f.Attempt] = "it is not in the store yet"
		}
	}
	return words, nil
}

// shownBytes is how many bytes of a value a person is shown.
const shownBytes = 64 << 10

func printReject(w io.Writer, r reject.Reject, fates map[string]string) error {
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
	sent := func(e reject.Entry) bool { return e.Action == reject.Sent }
	for _, e := range r.Log {
		fate := fates[e.Attempt]
		if e.Action == reject.Intended && slices.ContainsFunc(r.Log, func(other reject.Entry) bool { return sent(other) && other.Attempt == e.Attempt }) {
			fate = "" // it stands beside the outcome
		}
		fact("history", moment(e.Time)+" "+entryText(e, fate))
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

// textOrHex is what a key or a header holds: text, or else bytes in hexadecimal, in a reasonable length.
func textOrHex(b []byte) string {
	const longest = 1 << 10
	cut := ""
	if len(b) > longest {
		b, cut = b[:longest], fmt.Sprintf("... of %s", count(len(b), "byte"))
	}
	if valid := strings.ToValidUTF8(string(b), ""); utf8.Valid(b) || cut != "" && len(b)-len(valid) < utf8.UTFMax {
		return printable(valid) + cut
	}
	return "0x" + hex.EncodeToString(b) + cut
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
