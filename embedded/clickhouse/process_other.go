//go:build !linux

package clickhouse

import "syscall"

// processAttributes keeps the terminal's Ctrl-C from the child, for its parent needs it until it has drained.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
