package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeFolder creates path, 0700 and belonging to the account, if it is missing. Missing folders above it are created
// too and stay ours, so that the account can pass through but not change them. A folder that exists is left as it is.
//
// For another account this is not MkdirAll and chown: an agent that puts a link to /etc where its workspace will be
// must not be given a folder in /etc. So the path is walked folder by folder, and from the first one that a user other
// than root can change, the account's own rights do the rest.
func makeFolder(path string, a *account) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("cannot create %q: the path is not absolute", path)
	}
	if a == nil {
		return os.MkdirAll(path, 0o700)
	}
	w := walker{account: a, names: strings.Split(path, "/")}
	err := w.begin()
	for err == nil && len(w.names) > 0 {
		if !onlyOurs(w.dir) {
			err = a.do(func() error { return os.MkdirAll(path, 0o700) })
			break
		}
		err = w.step()
	}
	_ = unix.Close(w.dir)
	if err != nil {
		return fmt.Errorf("cannot create %s: %w", path, err)
	}
	return nil
}

// walker walks down a path through folders that only we can change.
type walker struct {
	account *account
	dir     int      // where it stands
	names   []string // still to go
	links   int      // followed so far
}

// begin puts the walker at the root, from wherever it is.
func (w *walker) begin() (err error) {
	if w.dir > 0 {
		_ = unix.Close(w.dir)
	}
	w.dir, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// step goes on by one name, and creates the folder or follows the link. A link here is the operator's.
func (w *walker) step() error {
	name := w.names[0]
	w.names = w.names[1:]
	if name == "" || name == "." {
		return nil
	}
	var st unix.Stat_t
	err := unix.Fstatat(w.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		err = w.mkdir(name)
	}
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return w.follow(name)
	}
	next, err := unix.Openat(w.dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(w.dir)
	w.dir = next
	return nil
}

func (w *walker) mkdir(name string) error {
	if len(w.names) > 0 {
		if err := unix.Mkdirat(w.dir, name, 0o711); err != unix.EEXIST { // another session may have just made it
			return err
		}
		return nil
	}
	if err := unix.Mkdirat(w.dir, name, 0o700); err != nil {
		return err
	}
	cred := w.account.cred
	return unix.Fchownat(w.dir, name, int(cred.Uid), int(cred.Gid), unix.AT_SYMLINK_NOFOLLOW)
}

func (w *walker) follow(name string) error {
	if w.links++; w.links > 40 { // the kernel's own limit
		return unix.ELOOP
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(w.dir, name, buf)
	if err != nil {
		return err
	}
	target := string(buf[:n])
	w.names = append(strings.Split(target, "/"), w.names...)
	if filepath.IsAbs(target) {
		return w.begin()
	}
	return nil
}

// onlyOurs reports whether no other user can replace the entries of the folder: it is root's or ours, and others may
// not write to it or, as in /tmp, may change only their own entries.
func onlyOurs(dir int) bool {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false
	}
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && (st.Mode&0o022 == 0 || st.Mode&unix.S_ISVTX != 0)
}

// ownedBy checks that an agent's home is its own. If it is not, programs fail later in ways that are hard to
// understand.
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
