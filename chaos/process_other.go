//go:build !linux

package main

import "syscall"

// processAttributes keeps the terminal's Ctrl-C from a child, which is ended in its turn.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
