package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// frame is what stands around every page.
type frame struct {
	Title, Site, Version string
	Theme                string
	Themes               []string
	Stamp                string
	Path                 string // of this page, for the way back
	Rail                 []railEntry
	Search               string
	Evidence             evidenceLine
	Refresh              int64 // milliseconds; 0: the page does not ask for news
	Main                 template.HTML
}

type railEntry struct {
	Name, Href, Key string
	Current         bool
	Count           int
	Bad             bool
}

// evidenceLine says, on every page in the same place, whether what the page shows is all there is.
type evidenceLine struct {
	Text string
	Tone string // warn, or empty
	When when
}

const (
	ledgerShared = 5 * time.Second    // how long the ledger's figures are shared: they change the slowest and cost the most
	ledgerSpan   = 7 * 24 * time.Hour // how far back the ledger is read
)

func (s *Server) frame(c echo.Context, drawn rendered) frame {
	r := c.Request()
	f := frame{
		Title: drawn.title, Site: s.config.Title, Version: s.options.Version, Theme: themeOf(r), Themes: themes,
		Stamp: s.renderer.stamp, Path: r.URL.RequestURI(), Search: c.QueryParam("q"), Main: drawn.main,
		Refresh: s.config.Refresh.Milliseconds(),
	}
	if r.Method != http.MethodGet {
		f.Path, f.Refresh = "/", 0 // the address does not answer to GET, so there is no way back, and no news
	}
	if drawn.section != "findings" && drawn.section != "search" {
		f.Search = ""
	}
	f.Evidence = s.evidence(r.Context())
	open, bad := s.openFindings(r.Context())
	f.Rail = []railEntry{
		{Name: "Now", Href: "/", Key: "n", Current: drawn.section == "now"},
		{Name: "Findings", Href: "/findings", Key: "f", Current: drawn.section == "findings", Count: open, Bad: bad},
		{Name: "Tasks", Href: "/tasks", Key: "t", Current: drawn.section == "tasks"},
		{Name: "Workers", Href: "/workers", Key: "w", Current: drawn.section == "workers"},
		{Name: "Evidence", Href: "/evidence", Key: "e", Current: drawn.section == "evidence"},
	}
	return f
}

func (s *Server) ledger(ctx context.Context) ([]view.Ledger, error) {
	return ask(ctx, s.cache, "ledger", ledgerShared, func(ctx context.Context) ([]view.Ledger, error) {
		return s.store.Ledger(ctx, s.now().Add(-ledgerSpan))
	})
}

func (s *Server) findingCounts(ctx context.Context) ([]view.FindingCount, error) {
	return ask(ctx, s.cache, "counts", shared, s.store.FindingCounts)
}

// alarms counts the findings that no silence keeps silent, and how many unresolved ones one does.
func (s *Server) alarms(ctx context.Context) (counts []view.FindingCount, silenced int, err error) {
	all, err := s.findingCounts(ctx)
	for _, n := range all {
		if n.Silenced {
			silenced += n.Count
		} else {
			counts = append(counts, n)
		}
	}
	return counts, silenced, err
}

func (s *Server) openFindings(ctx context.Context) (count int, bad bool) {
	counts, _, err := s.alarms(ctx)
	if err != nil {
		return 0, false // the page itself, or the evidence line, says that the store is away
	}
	for _, n := range counts {
		if n.State == finding.Open && !n.Folded {
			count += n.Count
			bad = bad || toneOf(n.Rule, n.Severity, n.State) == "bad"
		}
	}
	return count, bad
}

// evidence sums up what ingest reports and what the ledger proves. A green page over lost events would be a lie, so
// whatever is not known to be complete is said.
func (s *Server) evidence(ctx context.Context) evidenceLine {
	ledger, err := s.ledger(ctx)
	if err != nil {
		return evidenceLine{Text: "evidence cannot be read: the store does not answer", Tone: "warn"}
	}
	var missing int64
	var newest time.Time
	for _, l := range ledger {
		missing += l.Missing
		if l.KafkaTime.After(newest) {
			newest = l.KafkaTime
		}
	}
	proofs, failed := s.proofs(ctx)
	partitions, err := s.partitions(ctx)
	if failed != nil || err != nil {
		return evidenceLine{Text: "evidence cannot be read: the store does not answer", Tone: "warn"}
	}
	sum := s.proofOf(proofs, partitions)
	switch {
	case missing+sum.missing > 0: // the ledger tells at once what it does not cover, which a comparison finds a little later
		return evidenceLine{Text: fmt.Sprintf("evidence is missing: %s", plural(int(max(missing, sum.missing)), "record")), Tone: "warn"}
	case sum.holes > 0:
		return evidenceLine{Text: fmt.Sprintf("evidence is not proven: the ledger lacks %s", plural(int(sum.holes), "offset")), Tone: "warn"}
	case sum.doubled > 0:
		return evidenceLine{Text: fmt.Sprintf("evidence is stored twice: %s", plural(int(sum.doubled), "row")), Tone: "warn"}
	case len(partitions) > 0:
		return s.ingestLine(partitions)
	}
	if newest.IsZero() {
		return evidenceLine{Text: "no evidence yet"}
	}
	return evidenceLine{Text: "evidence stored up to " + s.clock(newest), When: s.when(newest)}
}

// partitions are all that are read, in order: those that this process reads as it knows them itself, the others as they
// were told.
func (s *Server) partitions(ctx context.Context) ([]view.Partition, error) {
	told, err := ask(ctx, s.cache, "progress", shared, s.store.Progress)
	if err != nil || s.options.IngestStatus == nil {
		return told, err
	}
	all := s.options.IngestStatus()
	for _, p := range told {
		own := func(o view.Partition) bool { return o.Topic == p.Topic && o.Partition == p.Partition }
		if !slices.ContainsFunc(all, own) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b view.Partition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all, nil
}

// lateAfter is how long ago ingest may have looked for new records before its word is called late.
const lateAfter = 15 * time.Second

func (s *Server) ingestLine(partitions []view.Partition) evidenceLine {
	var lag int64
	complete := s.now()
	for _, p := range partitions {
		if p.Problem != "" {
			return evidenceLine{Text: fmt.Sprintf("evidence stands still in %s/%d: %s", visible(p.Topic), p.Partition, visible(p.Problem)), Tone: "warn"}
		}
		lag += p.Lag
		upTo := p.Checked
		if p.Lag > 0 {
			upTo = p.Newest
		}
		if upTo.Before(complete) {
			complete = upTo
		}
	}
	line := evidenceLine{When: s.when(complete)}
	switch late := s.now().Sub(complete); {
	case complete.IsZero():
		line = evidenceLine{Text: "evidence is not read yet", Tone: "warn"}
	case late > lateAfter && lag > 0:
		line.Text = fmt.Sprintf("evidence is late by %s: complete to %s", plural(int(lag), "record"), s.clock(complete))
		line.Tone = "warn"
	case late > lateAfter:
		line.Text = "evidence is late: complete to " + s.clock(complete)
		line.Tone = "warn"
	default:
		line.Text = "evidence complete to " + s.clock(complete)
	}
	return line
}
