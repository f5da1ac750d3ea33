package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// readResult reads what the program left at path. found is false if it left nothing. The file belongs to an agent: it
// is read with the agent's own rights, and only if it is a plain file of sane size, so that neither a link to a file
// of ours nor a pipe without a writer is of any use. Its reason is going to be shown, and commented on the forge, so
// secrets are hidden twice: before the reason is cut, and when nothing is escaped any more.
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
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("cannot look at the result: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > limit {
		return nil, fmt.Errorf("the result is not a plain file of at most %d bytes", limit)
	}
	buf := make([]byte, limit+1)
	total := 0
	for total < len(buf) {
		n, err := unix.Read(fd, buf[total:])
		if err != nil && err != unix.EINTR {
			return nil, fmt.Errorf("cannot read the result: %w", err)
		}
		if n == 0 && err == nil {
			break
		}
		total += max(n, 0)
	}
	return buf[:total], nil
}

// clearResult makes the place for a result: its folder, and no file of an earlier run.
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
