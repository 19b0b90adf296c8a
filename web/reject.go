package web

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"auditor/event"
	"auditor/event/reject"

	"github.com/labstack/echo/v4"
)

// Replayer sends rejects through again.
type Replayer interface {
	// Replay carries out an order on one reject; dry only says what would be done. Where it was not sent the result says
	// why. The error says that it could not be tried.
	Replay(ctx context.Context, at event.Position, o reject.Order, dry bool) (reject.Result, error)
}

// rejectView is one reject whole.
type rejectView struct {
	Glyph    glyph
	Reason   phrase
	Sentence string
	Told     []phrase // what became of it
	Position string
	Path     string // of this page
	Facts    []fact
	Log      []entryRow
	Text     string // what came, if that is text
	Hex      string // what came, if it is not
	More     string // how much of it is not shown
	API      string

	Purged   bool
	Replays  bool   // this process can send it again
	Editable bool   // its text can be mended in the page
	Again    bool   // it was sent before, or may have been: sending it again has to be asked for
	Draft    string // the text to send
	Drafted  bool   // it was mended already
	Problem  string // why the last order was not carried out
	By, Note string // what was typed then
}

// entryRow is one entry of a reject's log.
type entryRow struct {
	Word     string
	Text     string
	By, Note string
	Fate     phrase // what the store knows of it
	When     when
}

const (
	textShown    = 64 << 10         // bytes of what came that a page shows
	textEditable = 256 << 10        // bytes of text that a page offers to mend
	replayLimit  = 30 * time.Second // for a replay or a purge
	replayBody   = 2 << 20          // bytes of a request that replays: text that was mended, escaped
)

func (s *Server) rejectPage(ctx context.Context, r request) (document, error) {
	v, err := s.rejectView(ctx, r.id)
	if err != nil {
		return document{}, err
	}
	return v.document(http.StatusOK), nil
}

func (v *rejectView) document(status int) document {
	return document{Title: "Reject " + v.Position, Section: "evidence", Page: "reject", View: v, Status: status}
}

// rejectOf gives the reject that an address names.
func (s *Server) rejectOf(ctx context.Context, id string) (reject.Reject, error) {
	at, err := event.ParsePosition(id)
	if err != nil || at.Index == event.AnyIndex {
		return reject.Reject{}, notFound("There is no such reject: its address must end with topic:partition:offset:index.")
	}
	return s.store.Reject(ctx, at)
}

func (s *Server) rejectView(ctx context.Context, id string) (*rejectView, error) {
	r, err := s.rejectOf(ctx, id)
	if err != nil {
		return nil, err
	}
	position := event.FormatPosition(r.Position)
	v := &rejectView{
		Glyph: rejectGlyph(r.State), Reason: phrase{Text: plain(string(r.Reason)), Href: rejectsHref("reason", string(r.Reason), "state", "any")},
		Sentence: rejectSentence(r), Told: s.toldOf(r), Position: position, Path: rejectHref(r.Position), Facts: s.rejectFacts(r), API: "/api/v1" + rejectHref(r.Position),
		Purged: r.State == reject.Purged, Replays: s.options.Replayer != nil, Again: r.State == reject.Replayed || r.State == reject.Unknown,
	}
	fates, err := s.store.RejectFates(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, e := range r.Log {
		v.Log = append(v.Log, s.entryRow(e, fateOf(e, r, fates)))
	}
	shown := r.Raw[:min(len(r.Raw), textShown)]
	switch {
	case len(shown) == 0:
	case isText(shown):
		v.Text = strings.ToValidUTF8(string(shown), "") // the last character may be cut
	default:
		v.Hex = hex.Dump(shown)
	}
	if more := len(r.Raw) - len(shown); more > 0 {
		v.More = "and " + plural(more, "more byte")
	}
	v.Editable = len(r.Raw) <= textEditable && isText(r.Raw) && utf8.Valid(r.Raw) && r.Reason != event.ReasonBadBatch
	if v.Editable {
		v.Draft = string(r.Raw)
	}
	return v, nil
}

// rejectSentence says what could not be read, and why.
func rejectSentence(r reject.Reject) string {
	what := "A record of " + r.Topic
	if r.Index > 0 {
		what = fmt.Sprintf("Element %d of an array in %s", r.Index, r.Topic)
	}
	if r.Detail == "" {
		return what + " could not be read: " + plain(string(r.Reason)) + "."
	}
	return what + " could not be read: " + strings.TrimSuffix(r.Detail, ".") + "."
}

// toldOf says what became of a reject.
func (s *Server) toldOf(r reject.Reject) []phrase {
	var out []phrase
	say := func(text string) { out = append(out, phrase{Text: text}) }
	for i := len(r.Log) - 1; i >= 0 && len(out) == 0; i-- {
		e := r.Log[i]
		switch {
		case r.State == reject.Purged && e.Action == reject.Purge:
			say(fmt.Sprintf("Its bytes were deleted on %s by %s.", s.full(e.Time), e.By))
		case r.State == reject.Replayed && e.Action == reject.Sent:
			say(fmt.Sprintf("It was sent again on %s by %s, and is at %s:%d:%d.", s.full(e.Time), e.By, e.To.Topic, e.To.Partition, e.To.Offset))
		case r.State == reject.Unknown && e.Action == reject.Intended:
			out = append(out, phrase{Text: fmt.Sprintf("It may have been sent again on %s by %s: what came of it is unknown.", s.full(e.Time), e.By), Tone: "warn"})
		}
	}
	if len(out) == 0 {
		say("It waits for somebody to mend it, or to purge it.")
	}
	return out
}

func (s *Server) rejectFacts(r reject.Reject) []fact {
	at := s.when(r.KafkaTime)
	facts := []fact{
		{Name: "position", Mono: true, Items: []phrase{{Text: event.FormatPosition(r.Position)}}},
		{Name: "time", Items: []phrase{{Text: at.Full + ", " + at.Ago}}},
		{Name: "reason", Items: []phrase{{Text: string(r.Reason), Href: rejectsHref("reason", string(r.Reason), "state", "any")}}},
	}
	if r.State == reject.Purged {
		return facts
	}
	facts = append(facts, fact{Name: "bytes", Items: []phrase{{Text: number(r.Size)}}}, fact{Name: "key", Mono: true, Items: []phrase{bytesPhrase(r.Key)}})
	for _, h := range r.Headers[:min(len(r.Headers), mostListed)] {
		p := bytesPhrase(h.Value)
		if from, err := event.ParsePosition(string(h.Value)); h.Key == reject.OriginHeader && err == nil && from.Index != event.AnyIndex {
			p.Href = rejectHref(from)
		}
		facts = append(facts, fact{Name: "header", Mono: true, Items: []phrase{{Text: h.Key + ":", Tone: "quiet"}, p}})
	}
	if more := len(r.Headers) - mostListed; more > 0 {
		facts = append(facts, fact{Name: "header", Items: []phrase{{Text: "and " + number(more) + " more", Tone: "quiet"}}})
	}
	return facts
}

// bytesPhrase is a key or a header's value: as text, or as bytes in hexadecimal, in a reasonable length.
func bytesPhrase(b []byte) phrase {
	const longest = 2 << 10
	cut := ""
	if len(b) > longest {
		b, cut = b[:longest], "\u2026 of "+plural(len(b), "byte")
	}
	valid := strings.ToValidUTF8(string(b), "")
	switch {
	case len(b) == 0:
		return phrase{Text: "none", Tone: "quiet"}
	case utf8.Valid(b) || cut != "" && len(b)-len(valid) < utf8.UTFMax:
		return phrase{Text: valid + cut}
	}
	return phrase{Text: "0x" + hex.EncodeToString(b) + cut}
}

// fateOf says what the store knows of what an entry tells: of what was sent, and of what may have been.
func fateOf(e reject.Entry, r reject.Reject, fates []reject.Fate) phrase {
	unknown := e.Action == reject.Intended && slices.ContainsFunc(r.Unsettled(), func(open reject.Entry) bool { return open.Attempt == e.Attempt })
	at := slices.IndexFunc(fates, func(f reject.Fate) bool { return f.Attempt == e.Attempt })
	if at < 0 || e.Action != reject.Sent && !unknown {
		return phrase{}
	}
	switch f := fates[at]; {
	case unknown && f.Event != nil:
		return phrase{Text: fmt.Sprintf("it was, for its event is in the store: %s:%d:%d", f.Event.Topic, f.Event.Partition, f.Event.Offset)}
	case unknown:
		return phrase{Text: "whether it was is unknown, and its event is not in the store yet", Tone: "warn"}
	case f.Event != nil:
		return phrase{Text: "its event is in the store"}
	case f.Reject != nil:
		return phrase{Text: "it was rejected again", Href: rejectHref(*f.Reject), Tone: "warn"}
	}
	return phrase{Text: "it is not in the store yet", Tone: "quiet"}
}

func (s *Server) entryRow(e reject.Entry, fate phrase) entryRow {
	row := entryRow{By: e.By, Note: e.Note, Fate: fate, When: s.when(e.Time)}
	switch e.Action {
	case reject.Intended:
		row.Word = "to be sent"
		if e.Mended {
			row.Word += ", mended,"
		}
		row.Text = fmt.Sprintf("to %s:%d", e.To.Topic, e.To.Partition)
	case reject.Sent:
		row.Word, row.Text = "sent", fmt.Sprintf("to %s:%d:%d", e.To.Topic, e.To.Partition, e.To.Offset)
	case reject.NotSent:
		row.Word = "not sent"
	case reject.Unclear:
		row.Word = "nobody can say whether it was sent"
	case reject.Purge:
		row.Word = "purged"
	default:
		row.Word = plain(string(e.Action))
	}
	return row
}

// isText reports whether bytes are text that hides nothing. The last character may be cut.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			return !utf8.FullRune(b)
		}
		if hides(r) && r != '\n' && r != '\t' {
			return false
		}
		b = b[size:]
	}
	return true
}

// rawReject answers with the bytes of a reject, to be kept in a file.
func (s *Server) rawReject(c echo.Context) error {
	ctx, cancel := s.within(c)
	defer cancel()
	r, err := s.rejectOf(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	if r.State == reject.Purged {
		return notFound("The bytes of this reject were purged.")
	}
	c.Response().Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="reject-%s-%d-%d-%d"`, fileName(r.Topic), r.Partition, r.Offset, r.Index))
	return c.Blob(http.StatusOK, echo.MIMEOctetStream, r.Raw)
}

// fileName leaves of a text what a header and a file system take.
func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, text)
}

// postReplay takes the form that sends a reject again.
func (s *Server) postReplay(c echo.Context) error {
	if err := parsed(c); err != nil {
		return err
	}
	ctx, cancel := replaying(c)
	defer cancel()
	r, err := s.rejectOf(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	order := reject.Order{Again: c.FormValue("again") == "yes"}
	if order.By, order.Note, err = whoAndWhy(c.FormValue("by"), c.FormValue("note"), "web"); err != nil {
		return err
	}
	draft := lines(c.FormValue("text"))
	if c.FormValue("send") == "mended" && draft != lines(string(r.Raw)) {
		order.Value = []byte(draft)
	}
	result, err := s.replay(ctx, r.Position, order, false)
	if err != nil {
		return err
	}
	if result.Err == nil {
		return c.Redirect(http.StatusSeeOther, rejectHref(r.Position))
	}
	// What was typed must not be lost.
	v, err := s.rejectView(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	v.Problem, v.By, v.Note = sentenceOf(result), c.FormValue("by"), c.FormValue("note")
	if c.FormValue("send") == "mended" {
		v.Draft, v.Drafted = draft, true
	}
	drawn, err := s.draw(v.document(statusOfResult(result)))
	if err != nil {
		return err
	}
	return s.writePage(c, drawn)
}

// replaying bounds what a replay or a purge may take.
func replaying(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), replayLimit)
}

// lines has text as it was before a form sent it: browsers end each line with two characters.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// sentenceOf says why an order was not carried out.
func sentenceOf(r reject.Result) string {
	why := r.Err.Error()
	switch r.Outcome {
	case reject.WasRefused:
		return "Nothing was sent: " + why + "."
	case reject.HasFailed:
		return "It could not be sent, and is surely not in Kafka: " + why + "."
	case reject.WasSent:
		return "It was sent to " + event.FormatPosition(r.To) + ", but " + why + "."
	}
	return "Nobody can say whether it arrived: " + why + "."
}

func statusOfResult(r reject.Result) int {
	switch r.Outcome {
	case reject.WasRefused:
		return http.StatusConflict
	case reject.HasFailed, reject.WasLeftOpen:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// replay carries out an order, where this process can.
func (s *Server) replay(ctx context.Context, at event.Position, o reject.Order, dry bool) (reject.Result, error) {
	if s.options.Replayer == nil {
		return reject.Result{}, &problem{Status: http.StatusNotImplemented, Title: "Not from here",
			Message: "This process has no Kafka to send to: set kafka.brokers for it, or use the command auditor rejects replay."}
	}
	result, err := s.options.Replayer.Replay(ctx, at, o, dry)
	s.cache.forget()
	if err != nil {
		return result, &problem{Status: http.StatusServiceUnavailable, Title: "It could not be tried", Message: "The replay could not be tried: " + err.Error(), cause: err}
	}
	s.log.Info("reject replayed", "reject", event.FormatPosition(at), "outcome", result.Outcome, "by", o.By)
	return result, nil
}

// postPurge takes the form that deletes what a reject holds.
func (s *Server) postPurge(c echo.Context) error {
	if err := parsed(c); err != nil {
		return err
	}
	if c.FormValue("confirm") != "yes" {
		return badRequest("confirm: must be yes: what a purge deletes is gone for good")
	}
	at, err := s.purge(c, c.FormValue("by"), c.FormValue("note"), "web")
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, rejectHref(at))
}

func (s *Server) purge(c echo.Context, by, note, otherwise string) (event.Position, error) {
	ctx, cancel := replaying(c)
	defer cancel()
	by, note, err := whoAndWhy(by, note, otherwise)
	if err != nil {
		return event.Position{}, err
	}
	r, err := s.rejectOf(ctx, c.Param("id"))
	if err != nil || r.State == reject.Purged {
		return r.Position, err
	}
	err = s.store.PurgeReject(ctx, r.Position, by, note)
	s.cache.forget()
	if errors.Is(err, context.DeadlineExceeded) {
		return r.Position, &problem{Status: http.StatusAccepted, Title: "Still being purged",
			Message: "ClickHouse has been told to delete the bytes, and takes a while. The page of the reject says when it is done.", cause: err}
	}
	if err == nil {
		s.log.Info("reject purged", "reject", event.FormatPosition(r.Position), "by", by)
	}
	return r.Position, err
}
