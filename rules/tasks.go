package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event/finding"
	"auditor/event/pattern"
)

// Task is what differs for some tasks: for one that is named, or for all that fit a pattern. What a field's zero value
// says is nothing, so that the next pattern that the task fits decides, or else what holds for all.
type Task struct {
	StuckAfter    time.Duration               `yaml:"stuck_after"`
	StuckP99      float64                     `yaml:"stuck_p99"` // beside a stuck_after that a less precise pattern told, it counts alone, and the other way round
	LookBack      time.Duration               `yaml:"look_back"`
	RetryLoop     RetryLoop                   `yaml:"retry_loop"`
	Redelivery    DeliveryLoop                `yaml:"redelivery_loop"`
	Swallowed     time.Duration               `yaml:"swallowed_after"`
	Permanent     PermanentErrors             `yaml:"permanent_errors"`
	Effects       []string                    `yaml:"effects"`        // that it does when it succeeds; empty: they are learned
	IgnoreEffects []string                    `yaml:"ignore_effects"` // patterns of effects that may be done any number of times, or not at all
	IgnoreKeys    []string                    `yaml:"ignore_keys"`    // patterns of business keys that no rule judges
	Timeouts      []Timeout                   `yaml:"timeouts"`       // of its broker, leases and locks, beside those of all
	Severity      map[string]finding.Severity `yaml:"severity"`       // by rule
	Off           []string                    `yaml:"off"`            // rules that do not judge it
}

// of gives what holds for a task: of each field what the most precise pattern says that the task fits and that says
// anything.
func (c *Config) of(task string) Task {
	t := Task{StuckAfter: c.StuckAfter, StuckP99: c.StuckP99, LookBack: c.LookBack, RetryLoop: c.RetryLoop, Redelivery: c.Redelivery,
		Swallowed: c.Swallowed, Permanent: c.Permanent}
	var patterns []string
	for p := range c.Tasks {
		if pattern.Fits(p, task) {
			patterns = append(patterns, p)
		}
	}
	if len(patterns) > 1 {
		slices.SortFunc(patterns, pattern.Compare)
	}
	for _, p := range patterns {
		t = t.but(c.Tasks[p])
	}
	return t
}

// but is t with what other says.
func (t Task) but(other Task) Task {
	if other.StuckAfter > 0 || other.StuckP99 > 0 {
		t.StuckAfter, t.StuckP99 = cmp.Or(other.StuckAfter, t.StuckAfter), other.StuckP99
	}
	t.LookBack = cmp.Or(other.LookBack, t.LookBack)
	t.RetryLoop.Retries = cmp.Or(other.RetryLoop.Retries, t.RetryLoop.Retries)
	t.RetryLoop.Within = cmp.Or(other.RetryLoop.Within, t.RetryLoop.Within)
	t.Redelivery.Deliveries = cmp.Or(other.Redelivery.Deliveries, t.Redelivery.Deliveries)
	t.Redelivery.Within = cmp.Or(other.Redelivery.Within, t.Redelivery.Within)
	t.Swallowed = cmp.Or(other.Swallowed, t.Swallowed)
	t.Permanent.IDs = cmp.Or(other.Permanent.IDs, t.Permanent.IDs)
	for _, list := range []struct {
		to   *[]string
		from []string
	}{{&t.Effects, other.Effects}, {&t.IgnoreEffects, other.IgnoreEffects}, {&t.IgnoreKeys, other.IgnoreKeys}, {&t.Off, other.Off}} {
		if len(list.from) > 0 {
			*list.to = list.from
		}
	}
	if len(other.Timeouts) > 0 {
		t.Timeouts = other.Timeouts
	}
	if len(other.Severity) > 0 {
		merged := maps.Clone(t.Severity)
		if merged == nil {
			merged = map[string]finding.Severity{}
		}
		maps.Copy(merged, other.Severity)
		t.Severity = merged
	}
	return t
}

// validate names each field of a task that can't be used. path is tasks.NAME, known are the rules there are.
func (t Task) validate(path string, known []string, wrong func(name string, ok bool, allowed string)) {
	wrong(path+".stuck_after", t.StuckAfter >= 0, "0 or longer")
	wrong(path+".stuck_p99", t.StuckP99 == 0 || t.StuckP99 >= 1, "0, or 1 or more")
	wrong(path+".look_back", t.LookBack >= 0, "0 or longer")
	wrong(path+".retry_loop.retries", t.RetryLoop.Retries == 0 || t.RetryLoop.Retries >= 2, "2 or more")
	wrong(path+".retry_loop.within", t.RetryLoop.Within >= 0, "0 or longer")
	wrong(path+".redelivery_loop.deliveries", t.Redelivery.Deliveries == 0 || t.Redelivery.Deliveries >= 2, "2 or more")
	wrong(path+".redelivery_loop.within", t.Redelivery.Within >= 0, "0 or longer")
	wrong(path+".swallowed_after", t.Swallowed >= 0, "0 or longer")
	wrong(path+".permanent_errors.ids", t.Permanent.IDs == 0 || t.Permanent.IDs >= 2, "2 or more")
	for _, list := range []struct {
		name  string
		items []string
	}{{"effects", t.Effects}, {"ignore_effects", t.IgnoreEffects}, {"ignore_keys", t.IgnoreKeys}} {
		wrong(path+"."+list.name, !slices.Contains(list.items, ""), "without an empty text")
	}
	for _, effect := range t.Effects {
		wrong(path+".effects", !pattern.FitsAny(t.IgnoreEffects, effect), fmt.Sprintf("without %s, which ignore_effects leaves out", effect))
	}
	validateTimeouts(path, t.Timeouts, wrong)
	for _, rule := range slices.Sorted(maps.Keys(t.Severity)) {
		wrong(path+".severity."+rule, slices.Contains(known, rule), fmt.Sprintf("of a rule among %v", known))
		severities := []finding.Severity{finding.Critical, finding.Warning, finding.Info}
		wrong(path+".severity."+rule, slices.Contains(severities, t.Severity[rule]), fmt.Sprintf("among %v", severities))
	}
	for _, rule := range t.Off {
		wrong(path+".off", slices.Contains(known, rule), fmt.Sprintf("among %v", known))
	}
}

func validateTimeouts(path string, timeouts []Timeout, wrong func(name string, ok bool, allowed string)) {
	for i, t := range timeouts {
		wrong(fmt.Sprintf("%s.timeouts[%d].name", path, i), t.Name != "", "told")
		wrong(fmt.Sprintf("%s.timeouts[%d].after", path, i), t.After > 0, "longer than 0")
		wrong(fmt.Sprintf("%s.timeouts[%d].sweep", path, i), t.Sweep >= 0, "0 or longer")
	}
}

// on reports whether rule judges task.
func (c *Config) on(rule, task string) bool {
	return len(c.Tasks) == 0 || !slices.Contains(c.of(task).Off, rule)
}

// lookBack is how far apart two effects of a task may be and still count as one repeated.
func (c *Config) lookBack(task string) time.Duration { return c.of(task).LookBack }

// longestLookBack bounds how much of a key's past is read.
func (c *Config) longestLookBack() time.Duration {
	longest := c.LookBack
	for _, t := range c.Tasks {
		longest = max(longest, t.LookBack)
	}
	return longest
}

// least is the smallest that a number is for any task: what looks for suspects goes by it, and the rule by the task's own.
func least[T int | time.Duration](c *Config, of func(Task) T, forAll T) T {
	for _, t := range c.Tasks {
		if n := of(t); n > 0 {
			forAll = min(forAll, n)
		}
	}
	return forAll
}

func (c *Config) leastRetries() int {
	return least(c, func(t Task) int { return t.RetryLoop.Retries }, c.RetryLoop.Retries)
}

func (c *Config) leastPermanentIDs() int {
	return least(c, func(t Task) int { return t.Permanent.IDs }, c.Permanent.IDs)
}

func (c *Config) leastSwallowed() time.Duration {
	return least(c, func(t Task) time.Duration { return t.Swallowed }, c.Swallowed)
}

// goesByRunTimes reports whether any task is judged by its own run times.
func (c *Config) goesByRunTimes() bool {
	for _, t := range c.Tasks {
		if t.StuckP99 > 0 {
			return true
		}
	}
	return c.StuckP99 > 0
}

// stuckAfterOf is how long after it was due a task without an end is stuck: where it is asked for and known, a multiple of the
// task's own p99 of run times.
func (c *Config) stuckAfterOf(task string, p99 map[string]time.Duration) time.Duration {
	t := c.of(task)
	if measured, ok := p99[task]; ok && t.StuckP99 > 0 {
		return max(time.Duration(t.StuckP99*float64(measured)), minStuck)
	}
	return t.StuckAfter
}

// minStuck is the least that a multiple of a task's p99 comes to: a task of a few milliseconds is not stuck after a second.
const minStuck = time.Minute

// timeoutOf names the time-out that a gap of a task fits, its own before those of all, or gives "".
func (c *Config) timeoutOf(task string, gap time.Duration) string {
	for _, t := range slices.Concat(c.of(task).Timeouts, c.Timeouts) {
		if gap >= t.After-time.Second && gap <= t.After+t.Sweep+2*time.Second {
			return t.Name
		}
	}
	return ""
}
