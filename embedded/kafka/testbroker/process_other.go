//go:build !linux

package testbroker

import "syscall"

// processAttributes keeps the terminal's Ctrl-C from the broker.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
