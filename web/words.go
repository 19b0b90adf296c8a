package web

import (
	"fmt"
	"strings"

	"auditor/event/finding"
)

// The rules that pages have words of their own for. A rule without any is shown under its name.
const (
	ruleIncident = "incident"
	ruleRepeated = "repeated_effect"
	ruleStorm    = "retry_storm"
	ruleStuck    = "stuck_pending"
)

// ruleWord is the word that stands beside a rule's colour, so that nothing depends on colour.
var ruleWord = map[string]string{
	ruleIncident: "incident", ruleRepeated: "twice", ruleStorm: "storm", ruleStuck: "stuck", "concurrent_runs": "overlap",
	"redelivery_loop": "loop", "swallowed_work": "swallowed", "key_drift": "drift", "permanent_error_retried": "futile",
	"deadline_missed": "late", "partial_effects": "partial", "terminal_conflict": "conflict", "events_lost": "lost",
}

// ruleName is what a rule flags, in words.
func ruleName(rule string) string {
	names := map[string]string{
		ruleIncident: "incident", ruleRepeated: "effect repeated", ruleStorm: "retry storm", ruleStuck: "stuck", "concurrent_runs": "ran at the same time",
		"redelivery_loop": "redelivered in a loop", "swallowed_work": "work swallowed", "key_drift": "key drifts",
		"permanent_error_retried": "permanent error retried", "deadline_missed": "deadline missed",
		"partial_effects": "effects half done", "terminal_conflict": "contradicting ends", "events_lost": "events lost",
	}
	if name, ok := names[rule]; ok {
		return name
	}
	return plain(rule)
}

// causeName is a cause in words.
func causeName(cause string) string {
	names := map[string]string{
		"redelivered_while_running": "delivered again while it was still running",
		"worker_lost":               "worker lost before the acknowledgement",
		"redelivered_after_success": "acknowledgement lost after success",
		"retried_after_effect":      "retried after the effect",
		"published_twice":           "published twice",
		"unknown":                   "cause not known",
	}
	if name, ok := names[cause]; ok {
		return name
	}
	return plain(cause)
}

func plain(name string) string { return strings.ReplaceAll(name, "_", " ") }

// glyph is the sign of a finding in lists.
type glyph struct{ Text, Tone string }

func glyphOf(f finding.Finding) glyph {
	g := glyph{Text: ruleWord[f.Rule], Tone: toneOf(f.Rule, f.Severity, f.State)}
	if g.Text == "" {
		g.Text = plain(f.Rule)
	}
	if f.Silenced != nil {
		g.Tone = "quiet"
	}
	if f.Rule == ruleRepeated && f.Effects > 1 {
		g.Text = fmt.Sprintf("×%d", f.Effects)
	}
	if n := keyCount(f); f.Rule == ruleIncident && n > 0 {
		g.Text = plural(n, "key")
	}
	return g
}

// toneOf keeps red for one thing: an effect beyond the first that nothing guarded, be it told as an incident. What is over, or only
// informs, is grey.
func toneOf(rule string, severity finding.Severity, state finding.State) string {
	switch {
	case state == finding.Resolved || severity == finding.Info:
		return "quiet"
	case (rule == ruleRepeated || rule == ruleIncident) && severity == finding.Critical:
		return "bad"
	}
	return "warn"
}
