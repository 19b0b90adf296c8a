package main

import (
	"math"
	"runtime/debug"
)

// othersMemory is what rules and pages may take beside ingest, in bytes.
const othersMemory = 256 << 20

// limitMemory holds the program's memory to a limit where ingest runs, whose load comes in bursts: the runtime would otherwise
// let garbage grow to as much as was ever in use. GOMEMLIMIT in the environment is left to hold.
func (a *app) limitMemory() {
	if debug.SetMemoryLimit(-1) == math.MaxInt64 { // not told by the environment
		debug.SetMemoryLimit(a.memoryLimit())
	}
}

func (a *app) memoryLimit() int64 {
	switch {
	case !a.has(roleIngest), a.broker != nil: // the embedded broker takes what its log takes
		return math.MaxInt64
	case a.has(roleRules), a.has(roleWeb):
		return a.config.Ingest.MemoryLimit() + othersMemory
	}
	return a.config.Ingest.MemoryLimit()
}
