// Command truth measures what the auditor finds against what there was to be found.
//
// It simulates fleets of workers that run a million tasks: a healthy majority with all that only looks like trouble, and
// every trouble of the rules with every cause. It knows what it did. It tells the events as real workers would, lost,
// late, twice and by clocks that differ, through Kafka to the auditor as it runs in production, and compares the findings
// with what it knows.
//
// What happens and what is told is a function of the seed, the number of tasks and the span of time. A story is what
// happens to one business key; the oracle says what it amounts to. The oracle sees true times and true causes, and never
// infers one from events, which is what the rules must do.
package main
