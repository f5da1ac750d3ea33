// Package plainfile opens files where an agent can put something else: a link to a file that it cannot read itself, a
// pipe that never answers, a device that never ends. A file that the operator names can be a link, as mounted secrets
// are, but nothing else. The package also replaces files in such a way that no reader sees half of one.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotPlain is the error for a link, a pipe, a socket, a device or a folder.
var ErrNotPlain = errors.New("not a plain file")

// Open opens a file with a flag of package os. The file must be regular and not a link. Open never blocks. If the flag
// creates a missing file, only this account can access it.
func Open(path string, flag int) (*os.File, error) { return open(path, flag|unlinked|unwaiting) }

// OpenNamed opens a file that the operator names, for reading. It follows links, and never blocks.
func OpenNamed(path string) (*os.File, error) { return open(path, os.O_RDONLY|unwaiting) }

// Create opens a new file of this account for appending and reading. Whatever was at the path is removed before, so
// that no text goes through a link, to a pipe or into a file that others have open.
func Create(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

// OpenFolder opens a folder for listing or syncing. It follows links, because folders of a state directory may be on
// other disks, and refuses everything else without waiting.
func OpenFolder(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|folder, 0) }

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

// Read returns the content of a regular file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Text(f, limit)
}

// ReadNamed returns the content of a file that the operator names, of at most limit bytes. It follows links.
func ReadNamed(path string, limit int64) ([]byte, error) {
	f, err := OpenNamed(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Text(f, limit)
}

// Text returns the content of an open file of at most limit bytes.
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
