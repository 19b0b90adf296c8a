//go:build !linux

package chdb

// keepSignalHandlers does nothing here: a fault in Go code ends the process without a trace.
func keepSignalHandlers() (restore func()) { return func() {} }
