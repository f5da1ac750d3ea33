package saved

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// Folder is the folder of a server's files. Files with foreign names are left alone, and no link is followed.
type Folder struct {
	Path  string
	Limit int64 // bound of all our files together, in bytes
}

// File is a conversation in a file.
type File struct {
	Conversation
	Bytes int64
	At    time.Time // time of the save
}

const (
	// maxFiles bounds a list: a folder may be full of other files.
	maxFiles = 100_000
	// lateRest is how long a server may still write an abandoned save.
	lateRest = time.Hour
)

// Check reports why conversations cannot be kept in the folder, or that other accounts can read them there. It writes
// nothing.
func (f Folder) Check() error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("every account can enter %s, and its files contain what agents read: chmod %o %s", f.Path,
			mode&^0o007, f.Path)
	}
	if err := unix.Access(f.Path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("cannot write to %s: %w", f.Path, err)
	}
	return nil
}

func (f Folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the folder of saved conversations, which must be the server's: %w", err)
	}
	return root, nil
}

// List returns the conversations' files, oldest first, and deletes leftovers of late saves.
func (f Folder) List() ([]File, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return list(root)
}

func list(root *os.Root) (files []File, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxFiles)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		c, ok := parse(e.Name())
		switch {
		case ok:
			files = append(files, File{c, info.Size(), info.ModTime()})
		case strings.HasPrefix(e.Name(), unsaved) && time.Since(info.ModTime()) > lateRest:
			_ = root.Remove(e.Name())
		}
	}
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.File(), b.File()))
	})
	if errors.Is(err, io.EOF) { // the folder is empty
		err = nil
	}
	return files, err
}

// Has reports whether a conversation has a file.
func (f Folder) Has(c Conversation) bool {
	root, err := f.open()
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Lstat(c.File())
	return err == nil && info.Mode().IsRegular()
}

// errNotThere is the error for a server that saves elsewhere.
var errNotThere = errors.New("its file is not in the folder")

// Adopt adopts the file that a run saved: it gets the conversation's name and a mode for its owner only. Then the
// oldest files are deleted until all together are within the limit.
func (f Folder) Adopt(c Conversation, run string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	saved := Temporary(run)
	info, err := root.Lstat(saved)
	switch {
	case err != nil:
		return fmt.Errorf("cannot keep a conversation in %s: %w: kv_folder must be the server's --slot-save-path", f.Path,
			errNotThere)
	case !info.Mode().IsRegular():
		err = errors.New("it is not a regular file")
	case info.Size() > f.Limit:
		err = fmt.Errorf("it has %s, and kv_save is %s", agents.Size(info.Size()), agents.Size(f.Limit))
	default:
		err = errors.Join(root.Chmod(saved, 0o600), root.Rename(saved, c.File()))
	}
	if err != nil {
		_ = root.Remove(saved)
		return fmt.Errorf("cannot keep a conversation in %s: %w", f.Path, err)
	}
	return f.trim(root)
}

// trim deletes the oldest files until the others are within the limit.
func (f Folder) trim(root *os.Root) error {
	files, err := list(root)
	total := int64(0)
	for i := range files {
		total += files[i].Bytes
	}
	for i := range files {
		if total <= f.Limit {
			break
		}
		if err := root.Remove(files[i].File()); err != nil {
			return fmt.Errorf("cannot keep %s within kv_save: %w", f.Path, err)
		}
		total -= files[i].Bytes
	}
	return err
}

// Discard deletes the file of a run's incomplete save.
func (f Folder) Discard(run string) {
	if root, err := f.open(); err == nil {
		defer root.Close()
		_ = root.Remove(Temporary(run))
	}
}

// Remove deletes the files of conversations.
func (f Folder) Remove(files ...Conversation) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range files {
		if e := root.Remove(c.File()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
