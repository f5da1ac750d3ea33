// Package plainfile opens files in places where an agent can put something else: a link to a file that it cannot read
// itself, a pipe that never answers, a device that never ends. Files that the operator names may be links, as mounted
// secrets are, but nothing else. It also replaces files so that nothing ever reads half of one.
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
func Open(path string, flag int) (*os.File, error) { return open(path, flag|unlinked|unwaiting) }

// OpenNamed opens a file for reading that the operator names. It follows links, and never waits.
func OpenNamed(path string) (*os.File, error) { return open(path, os.O_RDONLY|unwaiting) }

func open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
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
	return Text(f, limit)
}

// ReadNamed returns what is in a file that the operator names, of at most limit bytes. It follows links.
func ReadNamed(path string, limit int64) ([]byte, error) {
	f, err := OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Text(f, limit)
}

// Text returns what is in an open file of at most limit bytes.
func Text(f *os.File, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: longer than %d bytes", f.Name(), limit)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
