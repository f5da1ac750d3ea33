package main

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// hasInit reports whether the init of a factory lives that works on a state directory: the init holds the lock while a
// supervisor is replaced.
func hasInit(state string) bool {
	f, err := plainfile.Open(filepath.Join(state, "lock"), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
