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
// power cut leaves an empty file. A named pipe takes every write, and refuses to be synced.
func TestUnsyncedIsNoCompaction(t *testing.T) {
	j, _, err := Open(t.TempDir(), func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := syscall.Mkfifo(j.path+".new", 0o600); err != nil {
		t.Fatal(err)
	}
	record := ledger.Record{Released: &ledger.Released{Ref: ledger.Ref{Repo: "o/r", Number: 1}}}
	if err := j.replace(slices.Values([]ledger.Record{record})); err == nil {
		t.Error("the journal is replaced by a file without a sync")
	}
	if st, err := os.Stat(j.path); err != nil || !st.Mode().IsRegular() {
		t.Errorf("got journal %v, %v, want the old one", st, err)
	}
}
