package supervisor

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
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
func (s *Supervisor) FillDisk(t testing.TB) (empty func()) {
	t.Helper()
	path := filepath.Join(s.StateDir, "journal.jsonl")
	fds, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	for _, name := range fds {
		if at, err := os.Readlink(name); err != nil || at != path {
			continue
		}
		fd, err := strconv.Atoi(filepath.Base(name))
		must(t, err)
		disk, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		full, err := os.Open(path)
		must(t, err)
		defer full.Close()
		must(t, unix.Dup3(int(full.Fd()), fd, unix.O_CLOEXEC))
		return func() {
			t.Helper()
			must(t, unix.Dup3(disk, fd, unix.O_CLOEXEC))
			must(t, unix.Close(disk))
		}
	}
	t.Fatalf("%s is not open", path)
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReplayDiff returns the difference between the ledger and that of a supervisor that would start now.
func (s *Supervisor) ReplayDiff() (string, error) {
	again := ledger.New()
	j, _, err := journal.Open(s.StateDir, again.Apply)
	if err != nil {
		return "", err
	}
	defer j.Close()
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	always := time.Time{} // include expired cool-downs
	return cmp.Diff(s.state.ledger.Compact(always), again.Compact(always)), nil
}

// Remembered returns the issues and pull requests of which the supervisor keeps any history.
func (s *Supervisor) Remembered() []forge.Ref {
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	list := append(s.state.ledger.Remembered(),
		s.state.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" })...)
	return append(list, slices.SortedFunc(maps.Keys(s.state.ledger.Touched), forge.Ref.Compare)...)
}
