package rules

import (
	"context"
	"fmt"
	"slices"

	"auditor/event/finding"
	"auditor/event/pattern"
)

// admit passes on what the configuration lets be told, with the severity that it gives.
func (c *Config) admit(found []finding.Finding) []finding.Finding {
	if len(c.Tasks) == 0 {
		return found
	}
	found = slices.DeleteFunc(found, func(f finding.Finding) bool { return c.leftOut(f) != "" })
	for i := range found {
		found[i].Severity = c.severityOf(found[i])
	}
	return found
}

// leftOut says what of the configuration keeps a finding from being told; "" when nothing does.
func (c *Config) leftOut(f finding.Finding) string {
	if len(c.Tasks) == 0 {
		return ""
	}
	t := c.of(f.Task)
	effect, _ := f.Fields["effect"].(string)
	switch {
	case slices.Contains(t.Off, f.Rule):
		return fmt.Sprintf("the configuration turns %s off for %s", f.Rule, nameOf(f.Task))
	case f.BusinessKey != "" && pattern.FitsAny(t.IgnoreKeys, f.BusinessKey):
		return fmt.Sprintf("the configuration ignores this key for %s", nameOf(f.Task))
	case effect != "" && c.ignoresEffect(f.Task, effect):
		return fmt.Sprintf("the configuration ignores the effect %s of %s", effect, nameOf(f.Task))
	}
	return ""
}

// severityOf is the severity of a finding: the configured one, save that what is only information for want of evidence stays
// so.
func (c *Config) severityOf(f finding.Finding) finding.Severity {
	own, told := c.of(f.Task).Severity[f.Rule]
	if !told || f.Severity == finding.Info && f.Fields["certainty"] == string(unsure) {
		return f.Severity
	}
	return own
}

// ignoresEffect reports whether an effect of a task may be done any number of times, or not at all.
func (c *Config) ignoresEffect(task, effect string) bool {
	return len(c.Tasks) > 0 && pattern.FitsAny(c.of(task).IgnoreEffects, effect)
}

// leaveOut resolves what stands open from before and is left out by the configuration now.
func (e *Engine) leaveOut(ctx context.Context, at moment) error {
	if len(e.config.Tasks) == 0 {
		return nil
	}
	open, err := e.store.OpenFindings(ctx)
	if err != nil {
		return fmt.Errorf("read the findings that are not resolved: %w", err)
	}
	var log []finding.Change
	for _, f := range open {
		if why := e.config.leftOut(f); why != "" {
			log = append(log, finding.Change{FindingID: f.ID, Time: at.now, From: f.State, To: finding.Resolved, By: byAuditor, Note: why})
		}
	}
	if len(log) == 0 {
		return nil
	}
	if err := e.store.SaveFindings(ctx, nil, log); err != nil {
		return fmt.Errorf("resolve what the configuration leaves out: %w", err)
	}
	return nil
}
