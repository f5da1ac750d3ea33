package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// readResult reads the result that the program left at path. found is false if there is none. The file belongs to an
// agent: so it is read with the agent's own rights, and only if it is a plain file of sane size. Neither a link to a
// file of ours nor a pipe without a writer gains the agent anything. The reason will be shown, and commented on the
// forge, so secrets are hidden twice: before the reason is cut, and after its escapes are resolved.
func readResult(path string, a *account, secrets []string) (o agents.Outcome, found bool, err error) {
	if path == "" {
		return o, false, nil
	}
	var text []byte
	err = a.do(func() (err error) {
		text, err = readPlain(path, agents.MaxResult)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return o, false, nil
	}
	if err == nil {
		o, err = agents.ParseResult([]byte(agents.Redact(string(text), secrets)))
	}
	o.Reason = agents.Redact(o.Reason, secrets)
	return o, true, err
}

// readPlain reads a file of at most limit bytes which is not a link, a device or a pipe.
func readPlain(path string, limit int64) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the result: %w", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot look at the result: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("the result is not a plain file of at most %d bytes", limit)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the result: %w", err)
	}
	return text, nil
}

// clearResult makes the folder for a result, and removes the result of an earlier run.
func clearResult(path string, a *account) error {
	if path == "" {
		return nil
	}
	if err := makeFolder(filepath.Dir(path), a); err != nil {
		return err
	}
	err := a.do(func() error { return os.Remove(path) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove an old result: %w", err)
	}
	return nil
}
