package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"auditor/event/finding"
)

var discardLog = slog.New(slog.DiscardHandler)

// printTable tells a person what was read and what was found.
func printTable(w io.Writer, found []finding.Finding, read string, asOf time.Time) error {
	if _, err := fmt.Fprintf(w, "%s Judged as of %s.\n\n", read, asOf.Format(time.RFC3339)); err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was found.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEVERITY\tRULE\tCAUSE\tTASK\tKEY\tFIRST SEEN\tWHAT")
	for _, f := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Severity, f.Rule, orDash(cause(f)), orDash(f.Task),
			orDash(key(f)), f.FirstSeen.UTC().Format("2006-01-02 15:04:05Z"), printable(f.Title))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s. With --json: why, and the events that show it.\n", count(len(found), "finding"))
	return err
}

// cause is why, or what kind of trouble it is for rules that know kinds and phases.
func cause(f finding.Finding) string {
	for _, own := range []string{"kind", "phase"} {
		if text, ok := f.Fields[own].(string); ok && f.Cause == "" {
			return text
		}
	}
	return f.Cause
}

// key is what the finding is about.
func key(f finding.Finding) string {
	switch {
	case f.BusinessKey != "":
		return f.BusinessKey
	case len(f.TaskIDs) == 1:
		return f.TaskIDs[0]
	case len(f.TaskIDs) > 1:
		return count(len(f.TaskIDs), "task")
	}
	return ""
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// printable keeps what comes from outside from moving the cursor, or worse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// count is 1 event, 2 events, 12,345 events.
func count(n int, what string) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if n == 1 {
		return digits + " " + what
	}
	return digits + " " + what + "s"
}
