package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
)

// rejectsView is the list of rejects.
type rejectsView struct {
	Sentence []phrase
	Figures  []rejectFigure
	Filters  []choice
	Hidden   [][2]string // further filters of this view, kept by its form
	Set      []phrase    // the filters that are set, each a link that takes it off
	Rows     []rejectRow
	More     string // address of the next page
	First    string // address of the first page; empty on it
	Empty    string
	API      string // the same list for machines
}

// rejectFigure is how often records were rejected for one reason.
type rejectFigure struct {
	Name  string
	Href  string
	Spark template.HTML
	Says  []phrase
}

// rejectRow is a reject in a list.
type rejectRow struct {
	Href   string
	Glyph  glyph
	Place  string
	Reason string
	Detail string
	Begins string // what it begins with, where nothing says more
	Size   string
	When   when
}

const (
	rejectSpan = 24 * time.Hour   // how far back the rates of rejects go
	rejectSlot = 30 * time.Minute // so much is one bar
	rowBytes   = 200              // of a value that a row of the list may need
)

func rejectHref(p event.Position) string {
	return "/rejects/" + url.PathEscape(event.FormatPosition(p))
}

// rejectsHref is the list of rejects under some filters, given in pairs.
func rejectsHref(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "/rejects?" + q.Encode()
}

// waiting are the states of rejects that somebody may have to see to.
var waiting = []reject.State{reject.Open, reject.Unknown}

// rejectGlyph is the sign of a reject in lists. What waits for somebody is missing evidence.
func rejectGlyph(state reject.State) glyph {
	tone := "quiet"
	if slices.Contains(waiting, state) {
		tone = "warn"
	}
	return glyph{Text: string(state), Tone: tone}
}

// rejectCounts counts all rejects.
func (s *Server) rejectCounts(ctx context.Context) ([]view.RejectCount, error) {
	return ask(ctx, s.cache, "reject counts", ledgerShared, func(ctx context.Context) ([]view.RejectCount, error) {
		return s.store.RejectCounts(ctx, view.RejectFilter{})
	})
}

// rejectFigures gives how often records were rejected for each reason, and how many rejects there are in all.
func (s *Server) rejectFigures(ctx context.Context) ([]rejectFigure, int, error) {
	counts, err := s.rejectCounts(ctx)
	if err != nil || len(counts) == 0 {
		return nil, 0, err
	}
	now := s.now()
	from := now.Add(-rejectSpan).Truncate(rejectSlot)
	rates, err := ask(ctx, s.cache, "reject rates", ledgerShared, func(ctx context.Context) ([]view.RejectRate, error) {
		return s.store.RejectRates(ctx, from, rejectSlot)
	})
	if err != nil {
		return nil, 0, err
	}
	slots := int(now.Sub(from)/rejectSlot) + 1
	course, lately := make(map[event.Reason][]float64), make(map[event.Reason]int)
	for _, r := range rates {
		if course[r.Reason] == nil {
			course[r.Reason] = make([]float64, slots)
		}
		if at := int(r.Slot.Sub(from) / rejectSlot); at >= 0 && at < slots {
			course[r.Reason][at] += float64(r.Count)
		}
		lately[r.Reason] += r.Count
	}
	byState, all, total := make(map[event.Reason]map[reject.State]int), make(map[event.Reason]int), 0
	for _, n := range counts {
		if byState[n.Reason] == nil {
			byState[n.Reason] = make(map[reject.State]int)
		}
		byState[n.Reason][n.State] += n.Count
		all[n.Reason] += n.Count
		total += n.Count
	}
	reasons := slices.SortedFunc(maps.Keys(all), func(a, b event.Reason) int {
		return cmp.Or(cmp.Compare(lately[b], lately[a]), cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	figures := make([]rejectFigure, 0, len(reasons))
	for _, reason := range reasons {
		name := plain(string(reason))
		f := rejectFigure{Name: name, Href: rejectsHref("reason", string(reason), "state", "any"), Spark: sparkline(course[reason], "", "rejects as "+name+" by half-hour")}
		f.Says = append(f.Says, phrase{Text: number(lately[reason]) + " in 24 h", Href: rejectsHref("reason", string(reason), "state", "any", "since", "24h")})
		for _, state := range reject.States {
			if n := byState[reason][state]; n > 0 {
				f.Says = append(f.Says, phrase{Text: number(n) + " " + string(state), Href: rejectsHref("reason", string(reason), "state", string(state))})
			}
		}
		figures = append(figures, f)
	}
	return figures, total, nil
}

func (s *Server) rejectsPage(ctx context.Context, r request) (document, error) {
	list, err := s.rejectList(r.query, "waiting", s.config.PageSize)
	if err != nil {
		return document{}, err
	}
	list.RawLimit = rowBytes
	rejects, err := s.store.Rejects(ctx, list)
	if err != nil {
		return document{}, err
	}
	counts, err := s.store.RejectCounts(ctx, view.RejectFilter{Topic: list.Topic, Partition: list.Partition, Reasons: list.Reasons, Since: list.Since, Until: list.Until})
	if err != nil {
		return document{}, err
	}
	all, err := s.rejectCounts(ctx)
	if err != nil {
		return document{}, err
	}
	v := rejectsView{Sentence: rejectsSentence(counts, r.query), Filters: rejectFilters(r.query, all), Hidden: kept(r.query, "partition", "until"),
		Set: setRejectFilters(r.query), API: "/api/v1" + r.path}
	if v.Figures, _, err = s.rejectFigures(ctx); err != nil {
		return document{}, err
	}
	for _, one := range rejects {
		v.Rows = append(v.Rows, s.rejectRow(one))
	}
	if len(rejects) == list.Limit {
		v.More = with(r.query, "/rejects", "cursor", rejectCursor(rejects[len(rejects)-1].Reject))
	}
	if r.query.Get("cursor") != "" {
		v.First = with(r.query, "/rejects", "cursor", "")
	}
	switch {
	case len(v.Rows) > 0:
	case len(v.Figures) == 0:
		v.Empty = "Every record could be read."
	case len(v.Set) == 0:
		v.Empty = "No reject waits for anybody."
	default:
		v.Empty = "No reject fits these filters."
	}
	return document{Title: "Rejects", Section: "evidence", Page: "rejects", View: v}, nil
}

// rejectsSentence says how many records could not be read, of those that the filters but for the state choose, and what
// became of them.
func rejectsSentence(counts []view.RejectCount, q url.Values) []phrase {
	byState := make(map[reject.State]int)
	for _, n := range counts {
		byState[n.State] += n.Count
	}
	leads := func(n int, text, state string) phrase {
		return phrase{Text: text, Href: with(q, "/rejects", "state", state)}
	}
	wait := byState[reject.Open] + byState[reject.Unknown]
	var out []phrase
	switch {
	case len(counts) == 0:
		return []phrase{{Text: "No record was rejected."}}
	case wait == 0:
		out = []phrase{{Text: "No reject waits for anybody."}}
	default:
		verb := " waits for somebody"
		if wait > 1 {
			verb = " wait for somebody"
		}
		out = []phrase{leads(wait, plural(wait, "record")+" could not be read as an event and"+verb, "waiting"), {Text: "."}}
		if n := byState[reject.Unknown]; n > 0 {
			one := leads(n, number(n), "unknown")
			one.Tone = "warn"
			out = append(out, phrase{Text: " Of "}, one, phrase{Text: " nobody knows whether the replay arrived."})
		}
	}
	for _, state := range []reject.State{reject.Replayed, reject.Purged} {
		if n := byState[state]; n > 0 {
			out = append(out, phrase{Text: " "}, leads(n, fmt.Sprintf("%s %s.", number(n), state), string(state)))
		}
	}
	return out
}

func (s *Server) rejectRow(r reject.Reject) rejectRow {
	row := rejectRow{Href: rejectHref(r.Position), Glyph: rejectGlyph(r.State), Place: event.FormatPosition(r.Position), Reason: plain(string(r.Reason)),
		Detail: r.Detail, Size: plural(r.Size, "byte"), When: s.when(r.KafkaTime)}
	if r.State != reject.Purged {
		row.Begins = strings.Join(strings.Fields(strings.ToValidUTF8(string(r.Raw), "\ufffd")), " ")
	}
	return row
}

// rejectStates are the values of the filter by state. The first is the default.
var rejectStates = []option{
	{Value: "waiting", Text: "open or unknown"}, {Value: "open", Text: "open"}, {Value: "unknown", Text: "unknown"},
	{Value: "replayed", Text: "replayed"}, {Value: "purged", Text: "purged"}, {Value: "any", Text: "any"},
}

// rejectTimes are the values of the filter by time that the form offers.
var rejectTimes = []option{{Text: "any"}, {Value: "1h", Text: "last hour"}, {Value: "24h", Text: "last 24 hours"}, {Value: "168h", Text: "last 7 days"}}

func rejectFilters(q url.Values, counts []view.RejectCount) []choice {
	var reasons, topics []string
	for _, n := range counts {
		reasons, topics = append(reasons, string(n.Reason)), append(topics, n.Topic)
	}
	states, times := slices.Clone(rejectStates), slices.Clone(rejectTimes)
	for i := range states {
		states[i].Chosen = q.Get("state") == states[i].Value
	}
	since := q.Get("since")
	if since != "" && !slices.ContainsFunc(times, func(o option) bool { return o.Value == since }) {
		times = append(times, option{Value: since, Text: "since " + since})
	}
	for i := range times {
		times[i].Chosen = since == times[i].Value
	}
	return []choice{
		{Name: "state", Label: "State", Values: states},
		{Name: "reason", Label: "Reason", Values: options(q.Get("reason"), distinct(reasons), plain)},
		{Name: "topic", Label: "Topic", Values: options(q.Get("topic"), distinct(topics), visible)},
		{Name: "since", Label: "Time", Values: times},
	}
}

func distinct(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// kept are filters that the form has no field for.
func kept(q url.Values, names ...string) [][2]string {
	var all [][2]string
	for _, name := range names {
		if v := q.Get(name); v != "" {
			all = append(all, [2]string{name, v})
		}
	}
	return all
}

func setRejectFilters(q url.Values) []phrase {
	var set []phrase
	for _, name := range []string{"state", "reason", "topic", "partition", "since", "until"} {
		v := q.Get(name)
		switch {
		case v == "" || name == "state" && v == "waiting":
			continue
		case name == "reason":
			v = plain(v)
		case name == "state" && v == "any":
			v = "any state"
		case name == "partition":
			v = "partition " + v
		case name == "since" || name == "until":
			v = name + " " + v
		}
		set = append(set, phrase{Text: visible(v), Href: with(q, "/rejects", name, "")})
	}
	return set
}

// rejectList reads a filter and a cursor from a query, strictly.
func (s *Server) rejectList(q url.Values, defaultState string, limit int) (view.RejectList, error) {
	l := view.RejectList{Limit: limit}
	l.Topic = q.Get("topic")
	if text := q.Get("partition"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return l, badRequest(fmt.Sprintf("partition: must be a number of a partition, got %q", text))
		}
		l.Partition = new(int32(n))
	}
	if text := q.Get("reason"); text != "" {
		for one := range strings.SplitSeq(text, ",") {
			l.Reasons = append(l.Reasons, event.Reason(one))
		}
	}
	switch state := cmp.Or(q.Get("state"), defaultState); state {
	case "any":
	case "waiting":
		l.States = waiting
	default:
		for one := range strings.SplitSeq(state, ",") {
			if !slices.Contains(reject.States, reject.State(one)) {
				return l, badRequest(fmt.Sprintf("state: must be open, unknown, replayed, purged, waiting or any, got %q", one))
			}
			l.States = append(l.States, reject.State(one))
		}
	}
	for _, bound := range []struct {
		name string
		at   *time.Time
	}{{"since", &l.Since}, {"until", &l.Until}} {
		if text := q.Get(bound.name); text != "" {
			at, err := s.momentOf(bound.name, text)
			if err != nil {
				return l, err
			}
			*bound.at = at
		}
	}
	var err error
	l.Before, err = readRejectCursor(q.Get("cursor"))
	return l, err
}

// rejectCursor names a reject's place in the list of rejects.
func rejectCursor(r event.Reject) string {
	return rejectCursorAt(view.Position{KafkaTime: r.KafkaTime, Position: r.Position})
}

func rejectCursorAt(p view.Position) string {
	return fmt.Sprintf("%d.%d.%d.%d.%s", p.KafkaTime.UnixMilli(), p.Partition, p.Offset, p.Index, p.Topic)
}

func readRejectCursor(text string) (view.Position, error) {
	if text == "" {
		return view.Position{}, nil
	}
	parts := strings.SplitN(text, ".", 5)
	if len(parts) != 5 {
		return view.Position{}, view.ErrCursor
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil || i != 0 && i != 2 && int64(int32(n)) != n {
			return view.Position{}, view.ErrCursor
		}
		numbers[i] = n
	}
	return view.Position{KafkaTime: time.UnixMilli(numbers[0]).UTC(),
		Position: event.Position{Topic: parts[4], Partition: int32(numbers[1]), Offset: numbers[2], Index: int32(numbers[3])}}, nil
}
