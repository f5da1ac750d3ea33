package plainfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes a file that only its owner can read, and renames it over path: a reader sees the old text or the new,
// never half of one. A power cut can lose the file; see Keep. The temporary file is PATH.new, so only one goroutine at
// a time may write to a path.
func Replace(path string, text []byte) error {
	return replace(path, text, (*os.File).Close)
}

// ReplaceSynced replaces a file as Replace does, and returns when the new text would survive a power cut.
func ReplaceSynced(path string, text []byte) error {
	err := replace(path, text, func(f *os.File) error { return errors.Join(f.Sync(), f.Close()) })
	if err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

func replace(path string, text []byte, end func(*os.File) error) error {
	next := path + ".new"
	f, err := Create(next)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, end(f)); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // on a full disk, half a text would occupy the little space left
	}
	return err
}

// SyncFolder returns when the renames in a folder would survive a power cut.
func SyncFolder(dir string) error {
	d, err := OpenFolder(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
