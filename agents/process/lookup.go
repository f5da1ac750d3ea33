package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Lookup finds a program as execvp does, in the PATH of the program's future environment env, and relative to its
// future directory dir; both may differ from ours. The path is relative if name is.
func Lookup(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, runnable(name, dir)
	}
	var found error = &unrunnable{"no such program in PATH", syscall.ENOENT}
	for _, d := range filepath.SplitList(pathOf(env)) {
		path := filepath.Join(d, name)
		if !strings.Contains(path, "/") {
			path = "./" + path // otherwise it would be searched for again
		}
		err := runnable(path, dir)
		if err == nil {
			return path, nil
		}
		if u := (*unrunnable)(nil); errors.As(err, &u) && u.errno == syscall.EACCES {
			found = err // it exists, but is not executable
		}
	}
	return "", found
}

// pathOf returns the value of PATH in env; the last one counts, as in a shell.
func pathOf(env []string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], "PATH="); ok {
			return v
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

// runnable reports why the program at path cannot run. It checks with our own rights: only the start shows whether
// the agent's account may enter every directory on the way.
func runnable(path, dir string) error {
	full := path
	if !filepath.IsAbs(path) {
		full = filepath.Join(dir, path)
	}
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &unrunnable{"no such file; looked for " + full, syscall.ENOENT}
	case err != nil:
		return err
	case info.IsDir():
		return &unrunnable{full + " is a directory", syscall.EACCES}
	case info.Mode()&0o111 == 0:
		return &unrunnable{"not executable; chmod +x " + full, syscall.EACCES}
	}
	return nil
}

// unrunnable says in words why a program cannot be started, with the kernel's error number.
type unrunnable struct {
	why   string
	errno syscall.Errno
}

func (u *unrunnable) Error() string { return u.why }
func (u *unrunnable) Unwrap() error { return u.errno }
