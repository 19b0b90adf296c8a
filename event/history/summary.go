package history

import "auditor/event"

// Summary is what all events of a subject come to, where there are more of them than are read.
type Summary struct {
	Events int // different ones
	Tasks  int // task ids
	Starts int // runs that were told to have started
	Deeds  []Deed
}

// Deed is an effect that happened, or the success of a task, and how often. What its receiver dropped does not count.
type Deed struct {
	Effect, Target string      // of an effect
	Task           string      // whose success it is
	Count          int         // different events
	First          event.Event // as much of it as it takes to quote it
}
