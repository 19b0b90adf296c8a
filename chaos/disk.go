package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// disk is a small file system of its own, in memory, that can be filled.
type disk struct {
	dir string
	mu  sync.Mutex
}

const diskSize = "1g" // the engine keeps what a trial stores in a tenth of it

// mountDisk mounts one. It fails where this process may not.
func mountDisk(dir string) (*disk, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := call("mount", "-t", "tmpfs", "-o", "mode=0700,size="+diskSize, "tmpfs", dir); err != nil {
		return nil, err
	}
	return &disk{dir: dir}, nil
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all the room that is left.
func (d *disk) fill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 20; size > 0; { // the last bytes too
		if _, err = file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}

// free gives the room back.
func (d *disk) free() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Remove(d.ballast()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// unmount gives the disk up. What it holds stays in its directory if it is to be kept.
func (d *disk) unmount(keep bool) error {
	kept := d.dir + ".kept"
	if keep {
		if err := call("cp", "-a", d.dir, kept); err != nil {
			return err
		}
	}
	if err := call("umount", d.dir); err != nil || !keep {
		return err
	}
	return errors.Join(os.Remove(d.dir), os.Rename(kept, d.dir))
}

func call(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
