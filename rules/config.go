package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Names of the rules.
const (
	RepeatedEffect = "repeated_effect"
	RetryStorm     = "retry_storm"
	StuckPending   = "stuck_pending"
)

// Names lists the rules.
var Names = []string{RepeatedEffect, RetryStorm, StuckPending}

// Config is what the rules go by. DefaultConfig says what is usual.
type Config struct {
	Interval    time.Duration   `yaml:"interval"`       // time between two looks at what is new
	LookBack    time.Duration   `yaml:"look_back"`      // how far apart two effects of one key may be and still count as one repeated
	StuckAfter  time.Duration   `yaml:"stuck_after"`    // how long after it was due a task without an end is stuck
	RetryLoop   RetryLoop       `yaml:"retry_loop"`     //
	LockStep    LockStep        `yaml:"lock_step"`      //
	RetrySurge  RetrySurge      `yaml:"retry_surge"`    //
	Polling     []string        `yaml:"polling"`        // tasks that retry to poll, and are no retry storm
	Timeouts    []Timeout       `yaml:"timeouts"`       // time-outs of brokers and leases that a gap between two deliveries is compared with
	BatchSize   int             `yaml:"batch_size"`     // offsets of one partition that one look reads at most
	MaxKeyEvent int             `yaml:"max_key_events"` // events of one key that are read at most, the newest
	Tasks       map[string]Task `yaml:"-"`              // by task name
}

// RetryLoop is one task id that retries in a tight loop.
type RetryLoop struct {
	Retries int           `yaml:"retries"`
	Within  time.Duration `yaml:"within"`
}

// LockStep is many task ids that retry together, at a fixed interval.
type LockStep struct {
	Tasks int `yaml:"tasks"` // ids that retry within the same second
}

// RetrySurge is a task whose retries jump against its own past.
type RetrySurge struct {
	Retries int           `yaml:"retries"` // in the window, at least
	Factor  float64       `yaml:"factor"`  // retries per first run, against the baseline
	Window  time.Duration `yaml:"window"`
	Base    time.Duration `yaml:"baseline"`
}

// Timeout is a time-out that makes a broker deliver a task again, as a gap between two deliveries shows it.
type Timeout struct {
	Name  string        `yaml:"name"`
	After time.Duration `yaml:"after"`
	Sweep time.Duration `yaml:"sweep"` // how much later the broker may notice
}

// Task is what differs for one task.
type Task struct {
	StuckAfter time.Duration `yaml:"stuck_after"` // 0: as for all
	LookBack   time.Duration `yaml:"look_back"`   // 0: as for all
	Off        []string      `yaml:"off"`         // rules that do not judge this task
}

// DefaultConfig is what holds where nothing else is said.
//
// The time-outs: Redis transports redeliver after a visibility time-out of one hour, which they check on a timer and may
// notice up to about 100 s late; RabbitMQ closes the channel of a consumer that has not acknowledged for 30 minutes,
// checked once a minute, and leases of 30 minutes are common.
func DefaultConfig() Config {
	return Config{
		Interval:    2 * time.Second,
		LookBack:    24 * time.Hour,
		StuckAfter:  15 * time.Minute,
		RetryLoop:   RetryLoop{Retries: 10, Within: time.Minute},
		LockStep:    LockStep{Tasks: 20},
		RetrySurge:  RetrySurge{Retries: 50, Factor: 5, Window: 5 * time.Minute, Base: time.Hour},
		Polling:     []string{"celery.chord_unlock"},
		BatchSize:   200_000,
		MaxKeyEvent: 5_000,
		Timeouts: []Timeout{
			{"Redis's default visibility time-out of 1 h", time.Hour, 100 * time.Second},
			{"RabbitMQ's consumer time-out or a lease of 30 min", 30 * time.Minute, 70 * time.Second},
		},
	}
}

// Validate names each field that can't be used, and what is allowed.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, ok bool, allowed string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: must be %s", name, allowed))
		}
	}
	positive("rules.interval", c.Interval >= 100*time.Millisecond, "100ms or more")
	positive("rules.look_back", c.LookBack > 0, "longer than 0")
	positive("rules.stuck_after", c.StuckAfter > 0, "longer than 0")
	positive("rules.retry_loop.retries", c.RetryLoop.Retries >= 2, "2 or more")
	positive("rules.retry_loop.within", c.RetryLoop.Within > 0, "longer than 0")
	positive("rules.lock_step.tasks", c.LockStep.Tasks >= 2, "2 or more")
	positive("rules.retry_surge.retries", c.RetrySurge.Retries >= 1, "1 or more")
	positive("rules.retry_surge.factor", c.RetrySurge.Factor > 1, "above 1")
	positive("rules.retry_surge.window", c.RetrySurge.Window >= time.Minute, "1m or more")
	positive("rules.retry_surge.baseline", c.RetrySurge.Base >= c.RetrySurge.Window, "as long as rules.retry_surge.window or longer")
	positive("rules.batch_size", c.BatchSize >= 1, "1 or more")
	positive("rules.max_key_events", c.MaxKeyEvent >= 10, "10 or more")
	for i, t := range c.Timeouts {
		positive(fmt.Sprintf("rules.timeouts[%d].name", i), t.Name != "", "told")
		positive(fmt.Sprintf("rules.timeouts[%d].after", i), t.After > 0, "longer than 0")
		positive(fmt.Sprintf("rules.timeouts[%d].sweep", i), t.Sweep >= 0, "0 or longer")
	}
	for name, t := range c.Tasks {
		positive("tasks."+name+".stuck_after", t.StuckAfter >= 0, "0 or longer")
		positive("tasks."+name+".look_back", t.LookBack >= 0, "0 or longer")
		for _, rule := range t.Off {
			positive("tasks."+name+".off", slices.Contains(Names, rule), fmt.Sprintf("among %v", Names))
		}
	}
	return errors.Join(errs...)
}

// on reports whether rule judges task.
func (c *Config) on(rule, task string) bool { return !slices.Contains(c.Tasks[task].Off, rule) }

func (c *Config) stuckAfter(task string) time.Duration {
	if d := c.Tasks[task].StuckAfter; d > 0 {
		return d
	}
	return c.StuckAfter
}

func (c *Config) stuckAfterByTask() map[string]time.Duration {
	by := map[string]time.Duration{}
	for name, t := range c.Tasks {
		if t.StuckAfter > 0 {
			by[name] = t.StuckAfter
		}
	}
	return by
}

func (c *Config) lookBack(task string) time.Duration {
	if d := c.Tasks[task].LookBack; d > 0 {
		return d
	}
	return c.LookBack
}

// longestLookBack bounds how much of a key's past is read.
func (c *Config) longestLookBack() time.Duration {
	longest := c.LookBack
	for _, t := range c.Tasks {
		longest = max(longest, t.LookBack)
	}
	return longest
}

// timeoutOf names the time-out that a gap fits, or gives "".
func (c *Config) timeoutOf(gap time.Duration) string {
	for _, t := range c.Timeouts {
		if gap >= t.After-time.Second && gap <= t.After+t.Sweep+2*time.Second {
			return t.Name
		}
	}
	return ""
}
