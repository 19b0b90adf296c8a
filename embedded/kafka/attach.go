package kafka

import (
	"os"
	"path/filepath"
	"syscall"
)

// Attach is the address of the broker that runs on a data directory, in whatever process; false when none does, or is only
// about to.
func Attach(data string) (addr string, ok bool) {
	f, err := os.Open(filepath.Join(data, lockFile))
	if err != nil {
		return "", false
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil { // nobody has it; Close gives it back
		return "", false
	}
	text, err := os.ReadFile(f.Name())
	return string(text), err == nil && len(text) > len(starting)
}
