package supervisor

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lock makes this the one supervisor of the state directory until the file is closed. The kernel drops the lock with the
// process, however that ends, so there is no stale lock to clean up.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot start: pid %s already works on %s: end it, or say --state",
				strings.TrimSpace(string(holder)), dir)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	// The number is only for the message above. That it could not be written is no reason not to start.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}

// lock takes the state directory, or goes on holding it: the kernel counts the file, not the program that has it open.
func (s *Supervisor) lock() (*os.File, error) {
	if s.Held == nil {
		return lock(s.StateDir)
	}
	if err := unix.Flock(int(s.Held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("cannot go on holding the lock of %s: %w", s.StateDir, err)
	}
	return s.Held, nil
}

// instance is the identity of the state directory, made on first use. Every process that an agent starts carries it in
// its run id, and so is known again after the supervisor was killed.
func instance(dir string) (string, error) {
	path := filepath.Join(dir, "instance")
	b, err := os.ReadFile(path)
	if err == nil && validInstance(strings.TrimSpace(string(b))) {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cannot read the instance id: %w", err)
	}
	id := strings.ToLower(rand.Text()[:10])
	if err := writeFile(path, []byte(id+"\n")); err != nil {
		return "", fmt.Errorf("cannot write the instance id: %w", err)
	}
	return id, nil
}

// validInstance keeps a damaged file from ending up in the environment of processes, where an empty id would match
// every process there is.
func validInstance(id string) bool {
	return len(id) == 10 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// runID names one session: 40 bits behind the instance, so that a million runs collide with a chance of a half at
// most, and then only in the name of a log file.
func runID(instance string) string { return instance + "-" + strings.ToLower(rand.Text()[:8]) }

// writeFile replaces a file so that a reader, or a crash, sees the old text or the new.
func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
