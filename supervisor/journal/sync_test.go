package journal

import (
	"os"
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
