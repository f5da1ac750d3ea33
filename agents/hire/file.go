package hire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File is a small text file that is replaced as a whole.
type File struct {
	Path string
	// Mode is what the file is made to have; 0 leaves it as it is, 0644 for a new one.
	Mode fs.FileMode
	// Backup is where else the copy may go that is made before a file is written in place, when its own folder cannot be
	// written to. Empty means nowhere.
	Backup string
}

// Read is the text of the file; "" when it is not there.
func (f *File) Read() (string, error) {
	raw, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", f.Path, reason(err))
	}
	return string(raw), nil
}

// Write replaces the file, so that whoever reads it at any moment, also after a crash, gets the old text or the new one.
// It keeps its owner, and a link stays a link.
//
// A single file that is mounted into a container cannot be replaced (EBUSY), and its folder may be read-only. Then it is
// copied to a backup first and written in place: the new text over the old, and only then cut to its length, so that it
// is never empty. backup is that copy; "" when there was no need.
func (f *File) Write(text string) (backup string, err error) {
	path, err := filepath.EvalSymlinks(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.Path, nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", f.Path, reason(err))
	}
	err = f.replace(path, text)
	if err == nil {
		return "", nil
	}
	if old, statErr := os.Stat(path); statErr != nil || !old.Mode().IsRegular() {
		return "", fmt.Errorf("cannot write %s: %w", f.Path, reason(err))
	}
	backup, err = f.writeInPlace(path, text)
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", f.Path, reason(err))
	}
	return backup, nil
}

// replace writes a new file beside the old one and gives it its name.
func (f *File) replace(path, text string) error {
	mode := f.modeFor(path)
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that broke off
		return err
	}
	// O_EXCL: what is there by now is somebody else's, and may be a link.
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(keepOwner(file, path), file.Chmod(mode), writeAll(file, text), file.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	syncFolder(filepath.Dir(path))
	return nil
}

func (f *File) modeFor(path string) fs.FileMode {
	if f.Mode != 0 {
		return f.Mode
	}
	if old, err := os.Stat(path); err == nil {
		return old.Mode().Perm()
	}
	return 0o644
}

// keepOwner gives a new file the old one's owner. Who owns both may be out of the old one's group; that is not worth a
// failure.
func keepOwner(file *os.File, path string) error {
	var old unix.Stat_t
	if unix.Stat(path, &old) != nil {
		return nil
	}
	err := file.Chown(int(old.Uid), int(old.Gid))
	if os.Geteuid() == int(old.Uid) {
		return nil
	}
	return err
}

func writeAll(file *os.File, text string) error {
	if _, err := io.WriteString(file, text); err != nil {
		return err
	}
	return file.Sync()
}

// syncFolder makes a rename last. Some file systems cannot do it, and then there is nothing to be done.
func syncFolder(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		d.Close()
	}
}

func (f *File) writeInPlace(path, text string) (backup string, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if backup, err = f.copyOld(path, old); err != nil {
		return "", err
	}
	if f.Mode != 0 {
		if err := file.Chmod(f.Mode); err != nil {
			return "", err
		}
	}
	if _, err := file.WriteAt([]byte(text), 0); err != nil {
		return "", err
	}
	if err := errors.Join(file.Truncate(int64(len(text))), file.Sync()); err != nil {
		return "", err
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, []byte(text)) {
		return "", fmt.Errorf("it does not hold what was written; what was there before is in %s", backup)
	}
	return backup, nil
}

// copyOld writes the backup beside the file, else where else it may go. It is as private as the file.
func (f *File) copyOld(path string, old []byte) (string, error) {
	folders := []string{filepath.Dir(path)}
	if f.Backup != "" {
		folders = append(folders, f.Backup)
	}
	var errs []error
	for _, dir := range folders {
		backup := File{Path: filepath.Join(dir, filepath.Base(path)+".bak"), Mode: f.modeFor(path)}
		if err := backup.replace(backup.Path, string(old)); err != nil {
			errs = append(errs, fmt.Errorf("no backup beforehand: %w", err))
			continue
		}
		return backup.Path, nil
	}
	return "", errs[len(errs)-1]
}

// reason takes the path off an error that names it already.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// ErrBusy is that somebody else is hiring or retiring right now.
var ErrBusy = errors.New("somebody else is hiring or retiring here right now; try again when they are done")

// Lock keeps two runs from overwriting each other's lines in the files of a folder. The lock goes with the process.
func Lock(dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", dir, reason(err))
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		return nil, fmt.Errorf("cannot lock %s: %w", dir, err)
	}
	return func() {
		// A child that is being forked may have the descriptor until its execve: closing ours alone would leave it locked.
		_ = unix.Flock(int(d.Fd()), unix.LOCK_UN)
		d.Close()
	}, nil
}
