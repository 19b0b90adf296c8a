package rules

import (
	"fmt"
	"slices"

	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/pattern"
)

// The kinds of permanent errors.
const (
	kindDeclared  = "declared"  // whoever reported the error said that no retry heals it
	kindExhausted = "exhausted" // no retry ever healed it
)

// permanentErrors finds the errors that no retry heals, and that are retried all the same.
func permanentErrors(config *Config, failing []history.Failing) []finding.Finding {
	var found []finding.Finding
	for _, f := range failing {
		switch {
		case slices.Contains(config.Polling, f.Task):
		case f.Declared > 0:
			found = append(found, permanentError(f, kindDeclared))
		case f.Healed == 0 && !pattern.FitsAny(config.Transient, f.ErrorType) && f.Exhausted >= config.of(f.Task).Permanent.IDs:
			found = append(found, permanentError(f, kindExhausted))
		}
	}
	return found
}

func permanentError(of history.Failing, kind string) finding.Finding {
	f := finding.Finding{
		ID:        finding.ID(PermanentErrorRetried, of.Namespace, of.Task, of.ErrorType),
		Rule:      PermanentErrorRetried,
		Severity:  finding.Warning,
		Namespace: of.Namespace,
		Task:      of.Task,
		TaskIDs:   of.TaskIDs,
		FirstSeen: of.First,
		LastSeen:  of.Last,
		Title:     fmt.Sprintf("%s retries %s, which no retry heals", nameOf(of.Task), of.ErrorType),
		Fields: map[string]any{"kind": kind, "error_type": of.ErrorType, "ids": of.IDs, "declared_ids": of.Declared, "exhausted_ids": of.Exhausted,
			"healed_ids": of.Healed, "retries": of.Retries},
		Remedy: fmt.Sprintf("Take %s out of what is retried (a list of error types that may heal, rather than every exception), end the task at once and send it to a dead letter queue or to a person.", of.ErrorType),
	}
	var d doubt
	if kind == kindDeclared {
		f.Explanation = fmt.Sprintf("%s was declared permanent by who reported it, and %d task ids were tried again after it, with %d retries in all.",
			of.ErrorType, of.Declared, of.Retries)
	} else {
		f.Explanation = fmt.Sprintf("%d task ids exhausted their retries on %s, %d retries in all, and of the %d that were tried again after it none succeeded.",
			of.Exhausted, of.ErrorType, of.Retries, of.IDs)
		d.raise(likely, "That an error which never healed so far can't heal is concluded from these ids alone; an outage that lasted longer than all retries looks the same.")
	}
	d.into(&f)
	f.Explanation = sameDay(f.Explanation + fmt.Sprintf(" It went on from %s to %s.", clock(of.First), clock(of.Last)))
	return f
}
