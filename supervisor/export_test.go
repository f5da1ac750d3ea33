package supervisor

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Update is the flag -update, for the tests inside and outside of the package.
var Update = flag.Bool("update", false,
	"write the golden files from what the program does now; read the diff before it is committed")

// FillDisk makes every write to the journal fail until the returned function is called. It replaces the journal's
// descriptor by a read-only one.
func (s *Supervisor) FillDisk() (empty func(), err error) {
	path := filepath.Join(s.StateDir, "journal.jsonl")
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil, err
	}
	for _, name := range fds {
		if at, err := os.Readlink(name); err != nil || at != path {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			return nil, err
		}
		disk, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		full, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer full.Close()
		put := func(from int) error { return unix.Dup3(from, fd, unix.O_CLOEXEC) }
		return func() { _, _ = put(disk), unix.Close(disk) }, put(int(full.Fd()))
	}
	return nil, fmt.Errorf("%s is not open", path)
}

// ReplayDiff returns the difference between the ledger and that of a supervisor that would start now.
func (s *Supervisor) ReplayDiff() (string, error) {
	again := ledger.New()
	j, _, err := journal.Open(s.StateDir, again.Apply)
	if err != nil {
		return "", err
	}
	defer j.Close()
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	always := time.Time{} // include expired cool-downs
	return cmp.Diff(s.books.ledger.Compact(always), again.Compact(always)), nil
}

// Remembered returns the issues and pull requests of which the supervisor keeps any history.
func (s *Supervisor) Remembered() []forge.Ref {
	s.books.mu.Lock()
	defer s.books.mu.Unlock()
	list := append(s.books.ledger.Remembered(),
		s.books.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" })...)
	return append(list, slices.SortedFunc(maps.Keys(s.books.ledger.Touched), forge.Ref.Compare)...)
}
