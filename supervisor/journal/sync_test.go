package journal

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/threads/ledger"
)

// TestUnsyncedIsUnwritten: a record counts only once the kernel has put it on the disk. A pipe takes every write, and
// refuses to be synced.
func TestUnsyncedIsUnwritten(t *testing.T) {
	j, _, err := Open(t.TempDir(), func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	j.file.Close()
	j.file = in
	if err := j.Append(ledger.Record{}, func() { t.Error("an unsynced record was applied") }); err == nil {
		t.Error("Append succeeds without a sync")
	}
}

// TestUnsyncedIsNoCompaction: a compacted journal takes the place of the old one only once it is on the disk, else a
// power cut leaves an empty file. A pipe takes every write, and refuses to be synced.
func TestUnsyncedIsNoCompaction(t *testing.T) {
	j, _, err := Open(t.TempDir(), func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := os.WriteFile(j.path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(ends[0])
	record := ledger.Record{Released: &ledger.Released{Ref: ledger.Ref{Repo: "o/r", Number: 1}}}
	unsynced := os.NewFile(uintptr(ends[1]), j.path+".new")
	if err := j.become(unsynced, slices.Values([]ledger.Record{record})); err == nil {
		t.Error("the journal is replaced by a file without a sync")
	}
	if _, err := os.Stat(j.path + ".new"); err != nil {
		t.Errorf("the new file: %v, want it not to replace the old journal", err)
	}
}
