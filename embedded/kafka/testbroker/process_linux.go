package testbroker

import "syscall"

// processAttributes keeps the terminal's Ctrl-C from the broker, and has the kernel end it with the thread that started it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
