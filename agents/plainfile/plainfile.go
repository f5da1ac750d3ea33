// Package plainfile opens files in places where an agent can put something else: a link to a file that it cannot read
// itself, a pipe that never answers, a device that never ends.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrNotPlain is the error of a link, a pipe, a socket, a device or a folder.
var ErrNotPlain = errors.New("not a plain file")

// Open opens a file, with a flag of package os for how, if it is a regular file and no link. It never waits. A file
// that is missing is created if the flag says so, for this account alone.
func Open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|guarded, 0o600)
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) { // a link; a pipe without a reader, or a socket
		return nil, fmt.Errorf("%s: %w", path, ErrNotPlain)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotPlain)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Read returns what is in a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: longer than %d bytes", path, limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
