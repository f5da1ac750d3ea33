package plainfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file that only its owner may read, in the place of the one with that name: a reader sees the old
// text or the new, never half of one. A power cut may take the file away; see Keep. Only one goroutine at a time may
// write a path, beside which it makes PATH.new.
func Replace(path string, text []byte) error {
	return replace(path, text, (*os.File).Close)
}

// Keep replaces a file as Replace does, and returns when it would outlive a power cut.
func Keep(path string, text []byte) error {
	err := replace(path, text, func(f *os.File) error { return errors.Join(f.Sync(), f.Close()) })
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

func replace(path string, text []byte, end func(*os.File) error) error {
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, end(f)); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // on a full disk half of a text would keep what little room there is
	}
	return err
}

// SyncFolder returns when what was renamed in a folder would outlive a power cut.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
