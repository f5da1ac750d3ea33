package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// Lock makes this process the only supervisor of a state directory until the file is closed. The kernel drops the
// lock when the last process that has the file ends, however it ends, so no stale lock can remain. pid is the process
// to name to people. Lock waits a few seconds for a supervisor whose init was killed, which holds the lock until the
// kernel has killed it as well.
func Lock(dir string, pid int) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := plainfile.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the state directory: %w", err)
	}
	text, _ := io.ReadAll(io.LimitReader(f, longestID))
	holder := strings.TrimSpace(string(text))
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	for end := time.Now().Add(dyingFor); errors.Is(err, unix.EWOULDBLOCK) && isGone(holder) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot start: pid %s already works on %s: end it, or use --state", holder, dir)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	// The number is only for the message above. Failing to write it is not a reason not to start.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	}
	return f, nil
}

// dyingFor is how long Lock waits for a supervisor to end whose init is gone.
const dyingFor = 5 * time.Second

// isGone reports whether no process has the number of a lock's holder.
func isGone(holder string) bool {
	pid, err := strconv.Atoi(holder)
	return err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

// Relock keeps a lock that an earlier image of this process took: it belongs to the open file, not to the program.
func Relock(held *os.File) error {
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("cannot keep the lock %s: %w", held.Name(), err)
	}
	return nil
}

// longestID bounds what is read of the lock and of the instance id, in bytes. Both are one short line.
const longestID = 64

// Instance returns the identity of a state directory, made on first use, and its first one, with which the chain of its
// receipts begins. Every process that an agent starts carries the identity in its run id, so that it is found after a
// kill of the supervisor.
func Instance(dir string) (id, origin string, err error) {
	id, origin, err = ReadInstance(dir)
	if err == nil && validInstance(id) {
		return id, origin, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	id, err = writeInstance(dir, "")
	return id, id, err
}

// NewInstance gives a state directory another identity, and keeps its first one.
func NewInstance(dir string) (id string, err error) {
	_, origin, err := ReadInstance(dir)
	if err != nil {
		return "", err
	}
	return writeInstance(dir, origin+"\n")
}

// writeInstance writes a new identity, followed by the first one.
func writeInstance(dir, origin string) (id string, err error) {
	id = strings.ToLower(rand.Text()[:10])
	if err := plainfile.ReplaceSynced(filepath.Join(dir, "instance"), []byte(id+"\n"+origin)); err != nil {
		return "", fmt.Errorf("cannot write the instance id: %w", err)
	}
	return id, nil
}

// ReadInstance returns what Instance returns, and makes nothing. The error of a directory that no supervisor has used
// wraps fs.ErrNotExist. Both are "" if the file is damaged.
func ReadInstance(dir string) (id, origin string, err error) {
	f, err := plainfile.Open(filepath.Join(dir, "instance"), os.O_RDONLY)
	var text []byte
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, longestID))
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot read the instance id: %w", err)
	}
	lines := strings.Fields(string(text))
	if len(lines) == 0 || len(lines) > 2 {
		return "", "", nil
	}
	return lines[0], lines[len(lines)-1], nil
}

// validInstance refuses a damaged file: the empty text as an id would match every process.
func validInstance(id string) bool {
	return len(id) == 10 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// NewRun names a session: the instance, a dash and 40 random bits. With a million runs the chance that two names are
// equal is at most a half, and then they share only a log file.
func NewRun(instance string) string { return instance + "-" + strings.ToLower(rand.Text()[:8]) }
