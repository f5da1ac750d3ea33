package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// everything returns the records of a journal with a line of each kind.
func everything(t *testing.T) (list []ledger.Record) {
	t.Helper()
	f, err := os.Open("../../threads/ledger/testdata/journal/everything.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ledger.Read(f, func(r ledger.Record) { list = append(list, r) }, func(_, _ int64) {}); err != nil {
		t.Fatal(err)
	}
	return list
}

// remembered returns everything that a state remembers, including rests that are over.
func remembered(s *ledger.State) []ledger.Record { return s.Compact(time.Time{}) }

func startRec(run string, n int64, attempt int) ledger.Record {
	item := ledger.Ref{Repo: "o/r", Number: n}
	return ledger.Record{At: noon, Start: &ledger.Start{
		Run: run, Thread: "llama", Slot: 1, Sticky: true, Agent: "dev-qwen", Login: "qwen", Role: "dev",
		Item: ledger.Key{Kind: agents.KindIssue, Ref: item}, Chain: item, Attempt: attempt,
	}}
}

func endRec(run string, after time.Duration, e ledger.End) ledger.Record {
	e.Run = run
	return ledger.Record{At: noon.Add(after), End: &e}
}

// Reading the journal restores the state that its records produced when they were written, before compaction and
// after it.
func TestJournalReplays(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	live := ledger.New()
	for _, r := range everything(t) {
		if err := j.Append(r, func() { live.Apply(r) }); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(remembered(live), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
	if err := j.Rewrite(func() iter.Seq[ledger.Record] { return live.Compaction(noon) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(remembered(live), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("after compaction:\n%s", diff)
	}
	// The compacted journal continues, and open sessions can end in it.
	r := endRec("r", 2*time.Hour, ledger.End{Result: agents.Done})
	if err := j.Append(r, func() { live.Apply(r) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(remembered(live), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("after one more line:\n%s", diff)
	}
}

func reopen(t *testing.T, dir string) *ledger.State {
	t.Helper()
	state := ledger.New()
	j, corrupt, err := Open(dir, state.Apply)
	if err != nil || corrupt > 0 {
		t.Fatalf("%d corrupt lines, %v, want none", corrupt, err)
	}
	defer j.Close()
	return state
}

// The disk is full while the file cannot be written.
func TestJournalCannotWrite(t *testing.T) {
	dir := t.TempDir()
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	h := ledger.New()
	write := func(r ledger.Record, how func(ledger.Record, func()) error) error {
		return how(r, func() { h.Apply(r) })
	}
	if err := write(startRec("a", 1, 1), j.Append); err != nil {
		t.Fatal(err)
	}
	disk := j.file
	full, err := os.Open(j.path) // read only
	if err != nil {
		t.Fatal(err)
	}
	j.file = full
	if err := write(startRec("b", 2, 1), j.Append); err == nil || h.Open["b"].Run != "" {
		t.Errorf("a start that was not written was applied: %v", err)
	}
	if err := write(endRec("a", time.Minute, ledger.End{Result: agents.Done}), j.AppendPast); err == nil ||
		h.Agent("dev-qwen").Done != 1 {
		t.Errorf("an end that was not written was not applied: %v", err)
	}
	j.file = disk
	if err := write(startRec("c", 3, 1), j.Append); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(remembered(h), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("owed lines are missing after a restart:\n%s", diff)
	}
}

// onSmallDisk opens a journal on a disk of 1 MiB of its own.
func onSmallDisk(t *testing.T) (dir string, j *File) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=700"); err != nil {
		t.Skipf("needs root, to mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return dir, j
}

// On a disk that is really full, ends are still written, into the reserved room. Nothing starts, and one short line
// that fits does not count as free space.
func TestJournalOnFullDisk(t *testing.T) {
	dir, j := onSmallDisk(t)
	h := ledger.New()
	write := func(r ledger.Record, how func(ledger.Record, func()) error) error {
		return how(r, func() { h.Apply(r) })
	}
	if err := write(startRec("a", 1, 1), j.Append); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	_ = os.WriteFile(ballast, make([]byte, 2<<20), 0o600) // fills the disk
	if err := write(endRec("a", time.Minute, ledger.End{Result: agents.Done}), j.AppendPast); err != nil {
		t.Errorf("the end was not written: %v", err)
	}
	if err := write(startRec("b", 2, 1), j.Append); !errors.Is(err, unix.ENOSPC) || h.Open["b"].Run != "" {
		t.Errorf("a start on a full disk: got %v, want ENOSPC", err)
	}
	if err := j.HasRoom(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("HasRoom on a full disk: got %v, want ENOSPC", err)
	}
	if diff := cmp.Diff(remembered(h), remembered(reopen(t, dir))); diff != "" {
		t.Errorf("a restart would restore another state:\n%s", diff)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := write(startRec("c", 3, 1), j.Append); err != nil || j.HasRoom() != nil {
		t.Errorf("a start with room again: got %v, want no error", err)
	}
}

// A partial line that could not be removed damages neither the line before nor the one after it.
func TestJournalFencesTornLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "journal.jsonl")
	text, err := json.Marshal(startRec("a", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(append(text, '\n'), text[:30]...), 0o600); err != nil {
		t.Fatal(err)
	}
	records := 0
	count := func(ledger.Record) { records++ }
	j, corrupt, err := Open(dir, count)
	if err != nil || records != 1 || corrupt != 0 {
		t.Fatalf("%d records, %d corrupt, %v, want 1 and 0", records, corrupt, err)
	}
	for _, run := range []string{"b", "c"} {
		if err := j.Append(startRec(run, 2, 1), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	records = 0
	again, corrupt, err := Open(dir, count)
	if err != nil || records != 3 || corrupt != 1 {
		t.Fatalf("%d records, %d corrupt, %v; want 3 and the torn line", records, corrupt, err)
	}
	defer again.Close()
	if err := again.SetAside(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "journal.corrupt")); string(got) != string(text[:30])+"\n" {
		t.Errorf("set aside is %q, want the torn line", got)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != j.size {
		t.Errorf("the file has %d bytes, j.size is %d", info.Size(), j.size)
	}
}

// Reading a long journal takes the memory of one line, even if a line never ends.
func TestLongJournal(t *testing.T) {
	dir := t.TempDir()
	line, err := json.Marshal(endRec("never-began", 0,
		ledger.End{Result: agents.Failed, Tail: strings.Repeat("x", 4<<10)}))
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(bytes.Repeat(append(line, '\n'), 2<<10), make([]byte, 8<<20), []byte{'\n'})
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	text = nil
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	records, before, most := 0, heap(), int64(0)
	j, corrupt, err := Open(dir, func(ledger.Record) {
		if records++; records%1024 == 0 {
			most = max(most, heap()-before)
		}
	})
	if err != nil || records != 2<<10 || corrupt != 1 {
		t.Fatalf("%d records, %d corrupt lines, %v, want 2048 and 1", records, corrupt, err)
	}
	defer j.Close()
	if most = max(most, heap()-before); most > 2<<20 {
		t.Errorf("reading 16 MiB held %d bytes, want at most 2 MiB", most)
	}
	if err := j.SetAside(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "journal.corrupt")); err != nil || info.Size() != 8<<20+1 {
		t.Errorf("journal.corrupt: got %v, %v, want 8 MiB and 1 byte", info, err)
	}
}

// The journal writes no line that Read would refuse.
func TestJournalRefusesLongLine(t *testing.T) {
	j, _, err := Open(t.TempDir(), func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	long := endRec("a", 0, ledger.End{Result: agents.Failed, Reason: strings.Repeat("x", ledger.LineLimit)})
	applied := 0
	if err := j.Append(long, func() { applied++ }); err == nil || applied > 0 {
		t.Errorf("Append: %v, applied %d times, want an error and 0", err, applied)
	}
	if err := j.AppendPast(long, func() { applied++ }); err == nil || applied != 1 || len(j.owed) > 0 {
		t.Errorf("Note: %v, applied %d times, owed %d bytes, want an error, 1 and 0", err, applied, len(j.owed))
	}
}

// While the supervisor runs, its journal is never longer than 4 MiB or twice its compacted size.
func TestOversize(t *testing.T) {
	for _, tt := range []struct {
		size, compact int64
		want          bool
	}{
		{4 << 20, 0, false},
		{4<<20 + 1, 0, true},
		{4<<20 + 1, 2 << 20, true},
		{19 << 20, 10 << 20, false},
		{20<<20 + 1, 10 << 20, true},
	} {
		if got := (&File{size: tt.size, compact: tt.compact}).Oversize(); got != tt.want {
			t.Errorf("%d bytes, compacted %d: %v", tt.size, tt.compact, got)
		}
	}
}

// A power cut can leave a journal of the right length that contains only NULs. That is not one torn line: the whole
// journal is lost.
func TestJournalOfNULs(t *testing.T) {
	dir := t.TempDir()
	nothing := strings.Repeat("\x00", 70_000)
	if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), []byte(nothing), 0o600); err != nil {
		t.Fatal(err)
	}
	j, corrupt, err := Open(dir, func(ledger.Record) { t.Error("a record from NULs") })
	if err != nil || corrupt != 1 {
		t.Fatalf("%d corrupt lines, %v, want 1", corrupt, err)
	}
	if err := j.SetAside(); err != nil {
		t.Error(err)
	}
	if aside, _ := os.ReadFile(filepath.Join(dir, "journal.corrupt")); string(aside) != nothing {
		t.Errorf("%d bytes are set aside, want none", len(aside))
	}
	_ = j.Close()
}
