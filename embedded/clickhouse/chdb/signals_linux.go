package chdb

import (
	"syscall"
	"unsafe"
)

// keepSignalHandlers notes the handlers of the signals that libchdb resets, for the Go runtime turns some of them into
// panics, and gives a function that puts them back.
func keepSignalHandlers() (restore func()) {
	signals := []syscall.Signal{syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGILL, syscall.SIGBUS, syscall.SIGSYS,
		syscall.SIGFPE, syscall.SIGTSTP, syscall.SIGTRAP}
	// A kernel sigaction of any architecture fits.
	kept := make([][8]uint64, len(signals))
	for i, signal := range signals {
		sigaction(signal, nil, &kept[i])
	}
	return func() {
		for i, signal := range signals {
			sigaction(signal, &kept[i], nil)
		}
	}
}

func sigaction(signal syscall.Signal, set, get *[8]uint64) {
	const maskSize = 8
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), maskSize, 0, 0)
	if errno != 0 {
		panic("rt_sigaction: " + errno.Error())
	}
}
