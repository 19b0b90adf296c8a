package main

import "syscall"

// processAttributes keeps the terminal's Ctrl-C from a child, which is ended in its turn, and has the kernel kill it with
// the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
