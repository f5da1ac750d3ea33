// Package disk lists and deletes the files of sessions in a state directory. Agents may write to much of it, so the
// package follows no name that could be a link, and touches nothing outside, whatever an agent plants meanwhile.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The folders with the files of sessions. Each has a folder for each agent.
const (
	Logs    = "logs"    // NAME.log
	Results = "results" // NAME.json
	Work    = "work"    // one folder per chain
)

// Entry is a file or folder that a session left.
type Entry struct {
	Folder string // Logs, Results or Work
	Agent  string
	Name   string
	Bytes  int64     // of a file
	At     time.Time // its modification time, which an agent can set
	IsDir  bool
}

// State is a state directory.
type State struct{ root int }

// Open opens a state directory.
func Open(dir string) (*State, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the state directory: %w", err)
	}
	return &State{fd}, nil
}

// Close closes the state directory.
func (s *State) Close() error { return unix.Close(s.root) }

// List returns the entries of one of the folders, oldest first. It omits entries that it cannot read.
func (s *State) List(folder string) []Entry {
	var list []Entry
	for _, agent := range s.names(folder) {
		root, err := s.openFolder(folder, agent.Name())
		if err != nil {
			continue
		}
		for _, entry := range read(root) {
			e := Entry{Folder: folder, Agent: agent.Name(), Name: entry.Name(), IsDir: entry.IsDir()}
			if info, err := entry.Info(); err == nil {
				e.Bytes, e.At = info.Size(), info.ModTime()
				list = append(list, e)
			}
		}
		root.Close()
	}
	slices.SortFunc(list, func(a, b Entry) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Agent, b.Agent), strings.Compare(a.Name, b.Name))
	})
	return list
}

func (s *State) names(folder string) []fs.DirEntry {
	root, err := s.openFolder(folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	return read(root)
}

// listLimit bounds how many entries of a folder one pass reads, because an agent may create any number of files.
const listLimit = 10_000

// read returns at most listLimit entries of a folder.
func read(root *os.Root) []fs.DirEntry {
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	list, _ := dir.ReadDir(listLimit)
	return list
}

// openFolder opens a folder below the state directory. None of its names may be a link.
func (s *State) openFolder(names ...string) (*os.Root, error) {
	at := s.root
	for _, name := range names {
		if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
			return nil, fmt.Errorf("cannot open %q: not a name", name)
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if at != s.root {
			_ = unix.Close(at)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot open %s: %w", filepath.Join(names...), err)
		}
		at = next
	}
	defer unix.Close(at)
	return os.OpenRoot(proc(at))
}

// proc returns the path of an open file, which leads there even after the name has changed.
func proc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Remove deletes a file or a whole folder. It succeeds if the entry does not exist.
func (s *State) Remove(e Entry) error {
	root, err := s.openFolder(e.Folder, e.Agent)
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(e.Name)
	if errors.Is(err, fs.ErrPermission) { // folders without write permission, such as those of Go's module cache
		makeAccessible(root, e.Name)
		err = root.RemoveAll(e.Name)
	}
	if err != nil {
		return fmt.Errorf("cannot delete %s: %w", filepath.Join(e.Folder, e.Agent, e.Name), err)
	}
	return nil
}

// makeAccessible gives us access to a folder that we own and to all folders below it. It leaves alone what it cannot
// change.
func makeAccessible(root *os.Root, name string) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = os.Chmod(proc(fd), 0o700)
	below, err := os.OpenRoot(proc(fd))
	if err != nil {
		return
	}
	defer below.Close()
	for _, entry := range read(below) {
		if entry.IsDir() {
			makeAccessible(below, entry.Name())
		}
	}
}
