package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// together makes writes that all wait for the journal in this order before the first of them gets it. It returns their
// errors, and how often the disk was synced.
func together(t *testing.T, j *File, writes ...func() error) (errs []error, syncs int) {
	t.Helper()
	j.Synced = func(time.Duration) { syncs++ }
	_, resume := j.Pause()
	errs = make([]error, len(writes))
	done := make(chan struct{})
	for i, write := range writes {
		go func() {
			defer func() { done <- struct{}{} }()
			errs[i] = write()
		}()
		for waiting := 0; waiting <= i; time.Sleep(time.Millisecond) {
			j.queue.mu.Lock()
			waiting = len(j.queue.waiting)
			j.queue.mu.Unlock()
		}
	}
	resume()
	for range writes {
		<-done
	}
	return errs, syncs
}

// Records that wait for the disk at the same time share one sync, and are applied in the order of their lines.
func TestOneSyncForAll(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	const n = 50
	var want, applied, written []string
	var writes []func() error
	for i := range n {
		run := fmt.Sprint("run-", i)
		want = append(want, run)
		how, r := j.Append, startRec(run, int64(i+1), 1)
		if i%2 > 0 {
			how, r = j.AppendPast, endRec(run, 0, ledger.End{Result: agents.Done})
		}
		writes = append(writes, func() error { return how(r, func() { applied = append(applied, run) }) })
	}
	errs, syncs := together(t, j, writes...)
	if err := errors.Join(errs...); err != nil || syncs != 1 {
		t.Errorf("%d records: got %d syncs and the error %v, want 1 and none", n, syncs, err)
	}
	again, _, err := Open(dir, func(r ledger.Record) {
		if r.Start != nil {
			written = append(written, r.Start.Run)
		} else {
			written = append(written, r.End.Run)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff(want, applied); diff != "" {
		t.Errorf("applied:\n%s", diff)
	}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("written:\n%s", diff)
	}
}

// On a full disk an end that shares its sync with a start is written, and the start is refused.
func TestTogetherOnFullDisk(t *testing.T) {
	dir, j := onSmallDisk(t)
	h := ledger.New()
	start, end := startRec("b", 2, 1), endRec("a", time.Minute, ledger.End{Result: agents.Done})
	if err := j.Append(startRec("a", 1, 1), func() { h.Apply(startRec("a", 1, 1)) }); err != nil {
		t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 2<<20), 0o600) // fills the disk
	errs, _ := together(t, j,
		func() error { return j.Append(start, func() { h.Apply(start) }) },
		func() error { return j.AppendPast(end, func() { h.Apply(end) }) })
	if !errors.Is(errs[0], unix.ENOSPC) || errs[1] != nil {
		t.Errorf("got %v, want ENOSPC for the start and no error for the end", errs)
	}
	if diff := cmp.Diff(remembered(h), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("a restart would restore another state:\n%s", diff)
	}
}

// Of records whose lines cannot be written or synced together, the ends are applied and owed, and the starts are not.
func TestTogetherUnwritten(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	out, in, err := os.Pipe() // takes every write, and refuses to be synced
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	disk := j.file
	j.file = in
	var applied []string
	write := func(how func(ledger.Record, func()) error, r ledger.Record, name string) func() error {
		return func() error { return how(r, func() { applied = append(applied, name) }) }
	}
	errs, _ := together(t, j,
		write(j.AppendPast, endRec("a", 0, ledger.End{Result: agents.Done}), "end of a"),
		write(j.Append, startRec("b", 2, 1), "start of b"),
		write(j.AppendPast, endRec("c", 0, ledger.End{Result: agents.Done}), "end of c"))
	if slices.Contains(errs, nil) {
		t.Errorf("got %v, want three errors", errs)
	}
	if diff := cmp.Diff([]string{"end of a", "end of c"}, applied); diff != "" {
		t.Errorf("applied:\n%s", diff)
	}
	in.Close()
	j.file = disk
	if err := j.WriteOwed(); err != nil {
		t.Fatal(err)
	}
	var runs []string
	again, _, err := Open(dir, func(r ledger.Record) { runs = append(runs, r.End.Run) })
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff([]string{"a", "c"}, runs); diff != "" {
		t.Errorf("written afterwards:\n%s", diff)
	}
}

// A panic while a record is applied does not keep the records beside it on the disk from being applied.
func TestPanicAmongMany(t *testing.T) {
	j, _, err := Open(t.TempDir(), func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var applied []int
	var writes []func() error
	for i := range 3 {
		writes = append(writes, func() (err error) {
			defer func() { _ = recover() }()
			return j.Append(startRec(fmt.Sprint(i), int64(i+1), 1), func() {
				if applied = append(applied, i); i == 1 {
					panic("a bug")
				}
			})
		})
	}
	together(t, j, writes...)
	if diff := cmp.Diff([]int{0, 1, 2}, applied); diff != "" {
		t.Errorf("applied:\n%s", diff)
	}
}
