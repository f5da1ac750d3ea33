package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeFolder creates path, 0700 and belonging to the account, if it is missing; what is missing above it is created too
// and stays ours, so that the account can pass but not change it. A folder that exists is left as it is.
//
// As root this is not MkdirAll and chown: an agent that puts a link to /etc where its workspace will be must not be
// given a folder in /etc. So the path is walked folder by folder, and from the first one that somebody else than root
// could have changed, everything is done with the account's rights only.
func makeFolder(path string, a *account) error {
	if a == nil {
		return os.MkdirAll(path, 0o700)
	}
	path, err := physical(path)
	if err != nil {
		return err
	}
	dir, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	names := strings.Split(strings.Trim(path, "/"), "/")
	ours := true
	for i, name := range names {
		ours = ours && onlyOurs(dir)
		next, err := openFolder(dir, name)
		if err == unix.ENOENT {
			if err = a.mkdirat(dir, name, ours, i == len(names)-1); err == nil {
				next, err = openFolder(dir, name)
			}
		}
		if err != nil {
			return fmt.Errorf("cannot create /%s: %w", strings.Join(names[:i+1], "/"), err)
		}
		_ = unix.Close(dir)
		dir = next
	}
	return nil
}

func openFolder(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// mkdirat creates one folder of a path in a folder which is ours alone, or is not.
func (a *account) mkdirat(dir int, name string, ours, last bool) error {
	switch {
	case !ours:
		return a.do(func() error { return unix.Mkdirat(dir, name, 0o700) })
	case !last:
		return unix.Mkdirat(dir, name, 0o711)
	}
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	return unix.Fchownat(dir, name, int(a.cred.Uid), int(a.cred.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

// onlyOurs reports whether nobody else can replace what is in the folder: it is root's or ours, and either nobody else
// may write to it or, as in /tmp, only to his own entries.
func onlyOurs(dir int) bool {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false
	}
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && (st.Mode&0o022 == 0 || st.Mode&unix.S_ISVTX != 0)
}

// physical is the path without links, as far as it exists. Links are the operator's (a state folder on another disk);
// one that appears after this look is refused by openFolder.
func physical(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("cannot create %s: the path is not absolute", path)
	}
	path = filepath.Clean(path)
	for rest := ""; ; {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

// ownedBy checks that an agent's home is its own: it would fail later in ways that are hard to understand.
func ownedBy(path string, a *account) error {
	if a == nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fmt.Errorf("cannot look at %s: %w", path, err)
	}
	if st.Uid != a.cred.Uid {
		return fmt.Errorf("%s belongs to uid %d, not to %s; chown -R %s %s", path, st.Uid, a.name, a.name, path)
	}
	return nil
}
