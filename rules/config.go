package rules

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Names of the rules.
const (
	Incident              = "incident"
	RepeatedEffect        = "repeated_effect"
	ConcurrentRuns        = "concurrent_runs"
	RetryStorm            = "retry_storm"
	RedeliveryLoop        = "redelivery_loop"
	StuckPending          = "stuck_pending"
	SwallowedWork         = "swallowed_work"
	KeyDrift              = "key_drift"
	PermanentErrorRetried = "permanent_error_retried"
	DeadlineMissed        = "deadline_missed"
	PartialEffects        = "partial_effects"
	TerminalConflict      = "terminal_conflict"
	EventsLost            = "events_lost"
)

// Names lists the rules.
var Names = []string{Incident, RepeatedEffect, ConcurrentRuns, RetryStorm, RedeliveryLoop, StuckPending, SwallowedWork, KeyDrift,
	PermanentErrorRetried, DeadlineMissed, PartialEffects, TerminalConflict, EventsLost}

// Config is what the rules go by. DefaultConfig says what is usual.
type Config struct {
	Interval    time.Duration   `yaml:"interval"`    // time between two looks at what is new
	LookBack    time.Duration   `yaml:"look_back"`   // how far apart two effects of one key may be and still count as one repeated
	StuckAfter  time.Duration   `yaml:"stuck_after"` // how long after it was due a task without an end is stuck
	StuckP99    float64         `yaml:"stuck_p99"`   // so many times the task's own p99 of run times, where that is known; 0: StuckAfter alone
	ClockSkew   time.Duration   `yaml:"clock_skew"`  // how far apart the clocks of two hosts may be
	RetryLoop   RetryLoop       `yaml:"retry_loop"`  //
	LockStep    LockStep        `yaml:"lock_step"`   //
	RetrySurge  RetrySurge      `yaml:"retry_surge"` //
	Redelivery  DeliveryLoop    `yaml:"redelivery_loop"`
	Swallowed   time.Duration   `yaml:"swallowed_after"` // how long after a run stood aside the work must be done
	Permanent   PermanentErrors `yaml:"permanent_errors"`
	Transient   []string        `yaml:"transient_errors"` // patterns of error types that time heals: that retries of an outage were all in vain says nothing of them
	Partial     Partial         `yaml:"partial_effects"`
	Lost        time.Duration   `yaml:"events_lost_after"` // how long an emitter's number may be missing before it counts as lost
	Incidents   Incidents       `yaml:"incidents"`
	Polling     []string        `yaml:"polling"`        // tasks that retry to poll, and are no retry storm
	Timeouts    []Timeout       `yaml:"timeouts"`       // time-outs of brokers and leases that a gap between two deliveries is compared with
	BatchSize   int             `yaml:"batch_size"`     // offsets of one partition that one look reads at most
	MaxKeyEvent int             `yaml:"max_key_events"` // events of one key that are read at most, the newest
	KeyMemory   int             `yaml:"key_memory"`     // bytes that may be taken to know which keys have a past
	Files       []string        `yaml:"files"`          // of rules that users wrote: paths, or patterns such as rules/*.yaml
	Written     []string        `yaml:"-"`              // names of those rules, which tasks can name like the others
	Tasks       map[string]Task `yaml:"-"`              // by the name of a task, or a pattern that names fit
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

// DeliveryLoop is one attempt of a task id that is delivered again and again.
type DeliveryLoop struct {
	Deliveries int           `yaml:"deliveries"`
	Within     time.Duration `yaml:"within"`
}

// PermanentErrors is an error that no retry heals.
type PermanentErrors struct {
	IDs int `yaml:"ids"` // task ids that exhausted their retries on it
}

// Partial is which effects a task is known to do, where the configuration does not say.
type Partial struct {
	Runs  int     `yaml:"runs"`  // successful runs that must have been seen
	Share float64 `yaml:"share"` // of them that did the effect, from which on it belongs to the task
}

// Incidents is many findings with one root cause.
type Incidents struct {
	Findings int           `yaml:"findings"` // so many make an incident
	Within   time.Duration `yaml:"within"`   // from one of them to the next
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
		ClockSkew:   2 * time.Second,
		RetryLoop:   RetryLoop{Retries: 10, Within: time.Minute},
		Redelivery:  DeliveryLoop{Deliveries: 5, Within: time.Hour},
		Swallowed:   15 * time.Minute,
		Permanent:   PermanentErrors{IDs: 5},
		Transient:   []string{"*Connection*", "*Timeout*", "*TimedOut*", "*TimeLimit*", "*Unavailable*", "*Temporar*", "*TooManyRequests*", "*Throttl*", "*RateLimit*", "*Deadlock*", "*LockNotAvailable*", "OperationalError", "WorkerLostError"},
		Partial:     Partial{Runs: 20, Share: 0.95},
		Lost:        time.Minute,
		Incidents:   Incidents{Findings: 5, Within: time.Minute},
		LockStep:    LockStep{Tasks: 20},
		RetrySurge:  RetrySurge{Retries: 50, Factor: 5, Window: 5 * time.Minute, Base: time.Hour},
		Polling:     []string{"celery.chord_unlock"},
		BatchSize:   200_000,
		MaxKeyEvent: 5_000,
		KeyMemory:   128 << 20,
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
	positive("rules.stuck_p99", c.StuckP99 == 0 || c.StuckP99 >= 1, "0, or 1 or more")
	positive("rules.clock_skew", c.ClockSkew >= 0, "0 or longer")
	positive("rules.redelivery_loop.deliveries", c.Redelivery.Deliveries >= 2, "2 or more")
	positive("rules.redelivery_loop.within", c.Redelivery.Within > 0, "longer than 0")
	positive("rules.swallowed_after", c.Swallowed > 0, "longer than 0")
	positive("rules.permanent_errors.ids", c.Permanent.IDs >= 2, "2 or more")
	positive("rules.partial_effects.runs", c.Partial.Runs >= 2, "2 or more")
	positive("rules.partial_effects.share", c.Partial.Share > 0.5 && c.Partial.Share <= 1, "above 0.5 and at most 1")
	positive("rules.events_lost_after", c.Lost >= 0, "0 or longer")
	positive("rules.incidents.findings", c.Incidents.Findings >= 2, "2 or more")
	positive("rules.incidents.within", c.Incidents.Within > 0, "longer than 0")
	positive("rules.retry_loop.retries", c.RetryLoop.Retries >= 2, "2 or more")
	positive("rules.retry_loop.within", c.RetryLoop.Within > 0, "longer than 0")
	positive("rules.lock_step.tasks", c.LockStep.Tasks >= 2, "2 or more")
	positive("rules.retry_surge.retries", c.RetrySurge.Retries >= 1, "1 or more")
	positive("rules.retry_surge.factor", c.RetrySurge.Factor > 1, "above 1")
	positive("rules.retry_surge.window", c.RetrySurge.Window >= time.Minute, "1m or more")
	positive("rules.retry_surge.baseline", c.RetrySurge.Base >= c.RetrySurge.Window, "as long as rules.retry_surge.window or longer")
	positive("rules.batch_size", c.BatchSize >= 1, "1 or more")
	positive("rules.key_memory", c.KeyMemory >= 1<<20, "1048576 or more")
	positive("rules.max_key_events", c.MaxKeyEvent >= 10, "10 or more")
	validateTimeouts("rules", c.Timeouts, positive)
	for _, name := range slices.Sorted(maps.Keys(c.Tasks)) {
		c.Tasks[name].validate("tasks."+name, slices.Concat(Names, c.Written), positive)
	}
	return errors.Join(errs...)
}
