package nomad

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// logFolder is a temporary folder of this machine for the log of a session, which contains its secrets. It is not in
// the allocation, where Nomad would show them. It is locked while its session-run runs, so that the next start can tell
// which folders a killed session-run has left.
type logFolder struct {
	path string
	lock *os.File
}

const logFolders = "disinto-log-"

// newLogFolder returns a new folder.
func newLogFolder() (*logFolder, error) {
	for {
		path, err := os.MkdirTemp("", logFolders)
		if err != nil {
			return nil, err
		}
		if f := lockFolder(path, unix.LOCK_EX); f != nil {
			return f, nil
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // a sweep had locked it first
			return nil, err
		}
	}
}

// lockFolder locks a folder of our own account; nil if that fails, or if the folder was removed meanwhile. The
// descriptor is closed in every program that this process starts.
func lockFolder(path string, how int) *logFolder {
	lock, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	var ours, named unix.Stat_t
	fd := int(lock.Fd())
	if unix.Fstat(fd, &ours) != nil || int(ours.Uid) != os.Geteuid() || unix.Flock(fd, how) != nil ||
		unix.Lstat(path, &named) != nil || named.Ino != ours.Ino {
		_ = lock.Close()
		return nil
	}
	return &logFolder{path, lock}
}

// remove removes a folder.
func (f *logFolder) remove() {
	_ = os.RemoveAll(f.path)
	_ = f.lock.Close()
}

// sweepLogs removes the logs of sessions whose session-run was killed.
func sweepLogs() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), logFolders+"*"))
	for _, path := range left {
		if f := lockFolder(path, unix.LOCK_EX|unix.LOCK_NB); f != nil {
			f.remove()
		}
	}
}
