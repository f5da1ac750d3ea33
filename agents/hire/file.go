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

	"codeberg.org/johba/disinto/agents/plainfile"
)

// File is a small text file that is replaced as a whole.
type File struct {
	Path string
	Mode fs.FileMode // set by each write; 0 keeps the file's mode, and creates a new file with 0644
	// Backup is the folder for the copy of a file that must be written in place when its own folder is read-only. Empty
	// means that there is no other folder.
	Backup string
	// Draft is the text of a file that is not written yet, in place of what the disk has. Empty for other files.
	Draft string
}

// longest is the maximum size of a file, in bytes.
const longest = 1 << 20

// Read returns the text of the file, or "" if the file does not exist.
func (f *File) Read() (string, error) {
	if f.Draft != "" {
		return f.Draft, nil
	}
	raw, err := plainfile.ReadNamed(f.Path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", f.Path, reason(err))
	}
	return string(raw), nil
}

// Write replaces the file, so that a reader always gets the old text or the new one, even after a crash. The file keeps
// its owner, and a link stays a link.
//
// A single file that is mounted into a container cannot be replaced (EBUSY), and its folder may be read-only. Such a
// file is copied to a backup and then overwritten in place, and cut to the new length afterwards, so that it is never
// empty. backup is the path of the copy; "" if none was needed.
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

// replace writes a new file beside the old one and renames it over the old one.
func (f *File) replace(path, text string) error {
	mode := f.modeFor(path)
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an interrupted run
		return err
	}
	// O_EXCL: a file that appears at this point belongs to another program, and can be a link.
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

// keepOwner gives a new file the old one's owner. If we own both, it ignores an error: we may no longer be in the old
// file's group.
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

// syncFolder makes a rename durable. Some file systems do not support it, and there is no remedy.
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
		return "", fmt.Errorf("the file differs from what was written; the old text is in %s", backup)
	}
	return backup, nil
}

// copyOld writes the backup beside the file, or else into the folder Backup, with the mode of the file.
func (f *File) copyOld(path string, old []byte) (string, error) {
	folders := []string{filepath.Dir(path)}
	if f.Backup != "" {
		folders = append(folders, f.Backup)
	}
	var errs []error
	for _, dir := range folders {
		backup := File{Path: filepath.Join(dir, filepath.Base(path)+".bak"), Mode: f.modeFor(path)}
		if err := backup.replace(backup.Path, string(old)); err != nil {
			errs = append(errs, fmt.Errorf("cannot back it up first: %w", err))
			continue
		}
		return backup.Path, nil
	}
	return "", errs[len(errs)-1]
}

// reason removes the path from an error that will be wrapped with it.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// ErrBusy is returned by Lock while another process holds the lock.
var ErrBusy = errors.New("another command is hiring or retiring here right now; try again when it is done")

// Lock prevents two runs from overwriting each other's lines in the files of a folder. The kernel releases it when the
// process ends. It does not wait: the error is ErrBusy.
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
		// A child that is being forked can hold the descriptor until its execve: closing ours alone would leave it
		// locked.
		_ = unix.Flock(int(d.Fd()), unix.LOCK_UN)
		d.Close()
	}, nil
}
