package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// makeFolder creates path, with mode 0700 and owned by the account, if it is missing. It also creates missing
// parents, which we own, so that the account can pass through but not change them. An existing folder stays
// unchanged.
//
// For another account MkdirAll and chown would be unsafe: an agent that puts a link to /etc where its workspace will
// be must not receive a folder in /etc. So makeFolder walks the path folder by folder. From the first folder that a
// user other than root can change, it continues with the account's own rights.
func makeFolder(path string, a *account) error { return walkTo(path, a, false) }

// checkFolder returns the error that makeFolder would return. It creates nothing.
func checkFolder(path string, a *account) error { return walkTo(path, a, true) }

// walkTo makes the folder, or with try only finds out whether it can be made.
func walkTo(path string, a *account, try bool) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("cannot create %q: the path is not absolute", path)
	}
	if a == nil {
		return mkdirAll(path, try)
	}
	if err := a.walk(filepath.Clean(path), try); err != nil {
		return fmt.Errorf("cannot create %s: %w", path, err)
	}
	return nil
}

// mkdirAll is os.MkdirAll. With try it creates nothing, and returns the error that rights would cause.
func mkdirAll(path string, try bool) error {
	if !try {
		return os.MkdirAll(path, 0o700)
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		switch info, err := os.Stat(dir); {
		case err == nil && !info.IsDir():
			return &fs.PathError{Op: "mkdir", Path: dir, Err: unix.ENOTDIR}
		case err == nil && dir == path:
			return nil
		case err == nil:
			if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
				return fmt.Errorf("mkdir in %s: %w", dir, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return err
		}
	}
}

// CheckFolders returns the errors that a start of the job would meet with its folders, found with the function that a
// start uses. It creates nothing.
func CheckFolders(job *agents.Job) error {
	a, err := findAccount(job.User)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range []string{job.Home, job.Dir, filepath.Dir(job.ResultPath), job.Tmp} {
		if path == "" || path == "." {
			continue
		}
		err := checkFolder(path, a)
		if err == nil {
			err = a.barred(nearest(path))
		}
		errs = append(errs, err)
	}
	if _, err := os.Stat(job.Home); err == nil && job.Home != "" {
		errs = append(errs, ownedBy(job.Home, a))
	}
	return errors.Join(append(errs, mkdirAll(filepath.Dir(job.LogPath), true))...)
}

// nearest returns a path, or the nearest existing one above it.
func nearest(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// walk creates path and its missing parents with the rights of another account.
func (a *account) walk(path string, try bool) error {
	dir, names := "/", strings.Split(path, "/")
	for links := 0; len(names) > 0; {
		if !onlyOurs(dir) {
			return a.do(func() error { return mkdirAll(path, try) })
		}
		// dir has no links in it and no other user can change it, so facts about next stay true.
		next := filepath.Join(dir, names[0])
		names = names[1:]
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if try { // what is below, we create in a folder of our own
				return mkdirAll(next, true)
			}
			if err := a.mkdir(next, len(names) == 0); err != nil {
				return err
			}
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0: // set by the operator
			target, err := os.Readlink(next)
			if links++; err != nil || links > 40 { // the kernel's own limit
				return cmp.Or(err, error(unix.ELOOP))
			}
			if filepath.IsAbs(target) {
				dir = "/"
			}
			names = append(strings.Split(target, "/"), names...)
			continue
		case !info.IsDir():
			return unix.ENOTDIR
		}
		dir = next
	}
	return nil
}

// mkdir creates the account's folder, or one on the way to it.
func (a *account) mkdir(path string, last bool) error {
	if !last {
		if err := os.Mkdir(path, 0o711); !errors.Is(err, fs.ErrExist) { // another session may just have created it
			return err
		}
		return nil
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Lchown(path, int(a.cred.Uid), int(a.cred.Gid))
}

// onlyOurs reports whether no other user can replace the folder's entries: root or we own it, and others may not
// write to it or, as in /tmp, may change only their own entries.
func onlyOurs(dir string) bool {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return false
	}
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && (st.Mode&0o022 == 0 || st.Mode&unix.S_ISVTX != 0)
}

// ownedBy checks that an agent owns its home. Otherwise programs fail later in ways that are hard to understand.
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

// freshTmp makes an empty folder for the session's temporary files.
func (r *run) freshTmp() error {
	if r.job.Tmp == "" {
		return nil
	}
	if err := r.removeTmp(); err != nil {
		return fmt.Errorf("cannot empty %s: %w", r.job.Tmp, err)
	}
	return makeFolder(r.job.Tmp, r.account)
}

// removeTmp removes the session's temporary files. Go's module cache and similar caches contain folders without write
// permission.
func (r *run) removeTmp() error {
	if r.job.Tmp == "" {
		return nil
	}
	err := os.RemoveAll(r.job.Tmp)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(r.job.Tmp)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(r.job.Tmp)
}
