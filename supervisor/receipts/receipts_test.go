package receipts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/audit"
)

const instance = "abcdefghij"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, j audit.Journal) *Store {
	t.Helper()
	s, err := Open(dir, instance, j)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add ends that many sessions, a minute apart, and returns their part of the journal.
func add(t *testing.T, s *Store, count int) (j audit.Journal) {
	t.Helper()
	j.Hashes = make(map[string]string)
	for range count {
		n := s.head.N
		r := &audit.Receipt{
			Run: fmt.Sprintf("%s-%d", instance, n+1), Outcome: agents.Done, EndedAt: noon.Add(time.Duration(n) * time.Minute),
		}
		head, err := s.Add(r)
		if err != nil {
			t.Fatal(err)
		}
		j.Newest, j.Hashes[r.Run] = head, head.Hash
	}
	return j
}

// also is a journal with the ends of more sessions.
func also(j, more audit.Journal) audit.Journal {
	maps.Copy(more.Hashes, j.Hashes)
	more.Pruned = j.Pruned
	return more
}

// noteIn returns a function that records the removed receipts in a journal.
func noteIn(j *audit.Journal) func(audit.Pruned) error {
	return func(p audit.Pruned) error {
		j.Pruned = p
		return nil
	}
}

func check(t *testing.T, dir string, j audit.Journal) audit.Report {
	t.Helper()
	r, err := Verify(dir, instance, func() (audit.Journal, error) { return j, nil })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	if r := check(t, dir, audit.Journal{}); !r.OK || r.Receipts != 0 {
		t.Errorf("no receipts: %+v", r)
	}
	s := open(t, dir, audit.Journal{})
	j := add(t, s, 3)
	s = open(t, dir, j)
	j = add(t, s, 2)
	if r := check(t, dir, j); !r.OK || r.Receipts != 5 || r.Head != j.Newest {
		t.Errorf("got %+v, %+v, want 5 receipts", r, r.Break)
	}
	if s = open(t, dir, audit.Journal{}); s.head != j.Newest { // a lost journal
		t.Errorf("the head is %+v, want %+v", s.head, j.Newest)
	}
	for _, name := range []string{"", audit.Name(3, instance+"-3")} {
		info, err := os.Stat(filepath.Join(dir, Folder, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got %v, %v, want it private", name, info.Mode(), err)
		}
	}
}

// TestSessionsEndAtOnce: however many sessions end together, each receipt follows the one before.
func TestSessionsEndAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if _, err := s.Add(&audit.Receipt{Run: fmt.Sprintf("%s-r%d", instance, i), EndedAt: noon}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if r := check(t, dir, audit.Journal{Newest: s.head}); !r.OK || r.Receipts != 40 {
		t.Errorf("got %+v, %+v, want 40 receipts", r, r.Break)
	}
}

// TestRestartHidesNothing breaks a chain of receipts: a restarted supervisor does not repair it.
func TestRestartHidesNothing(t *testing.T) {
	dir := t.TempDir()
	j := add(t, open(t, dir, audit.Journal{}), 5)
	for _, n := range []int64{4, 5} {
		if err := os.Remove(filepath.Join(dir, Folder, audit.Name(n, fmt.Sprintf("%s-%d", instance, n)))); err != nil {
			t.Fatal(err)
		}
	}
	j = add(t, open(t, dir, j), 1)
	r := check(t, dir, j)
	if r.OK || !strings.Contains(r.Break.Why, "receipts 4 to 5 are missing") {
		t.Errorf("got %+v, %+v, want receipts 4 to 5 missing", r, r.Break)
	}
}

// TestLostJournal: without a journal the newest file counts, even in a broken chain, and nothing is removed.
func TestLostJournal(t *testing.T) {
	dir := t.TempDir()
	j := add(t, open(t, dir, audit.Journal{}), 5)
	if err := os.Remove(filepath.Join(dir, Folder, audit.Name(2, instance+"-2"))); err != nil {
		t.Fatal(err)
	}
	if s := open(t, dir, audit.Journal{}); s.head != j.Newest {
		t.Errorf("the head is %+v, want %+v", s.head, j.Newest)
	}
	names, err := list(filepath.Join(dir, Folder))
	if err != nil || len(names) != 4 {
		t.Errorf("got %q, %v, want 4 files", names, err)
	}
}

// TestCrash leaves a receipt that the journal does not know, complete or torn.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	j := add(t, s, 3)
	last := add(t, s, 1).Newest
	s = open(t, dir, j)
	if h, ok := s.Of(instance+"-4", j.Newest.N); !ok || h != last || s.head != last {
		t.Errorf("Of found %+v, %v, and the head is %+v, want %+v", h, ok, s.head, last)
	}
	if _, ok := s.Of(instance+"-3", j.Newest.N); ok {
		t.Error("Of found a receipt that the journal knows")
	}
	path := filepath.Join(dir, Folder, audit.Name(4, instance+"-4"))
	for _, text := range []string{"", "{", `{"version":1,"n":0,"prev":"x","run_id":"y"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s = open(t, dir, j); s.head != j.Newest {
			t.Errorf("%q: the head is %+v, want %+v", text, s.head, j.Newest)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%q still exists", text)
		}
	}
	if r := check(t, dir, add(t, s, 2)); !r.OK || r.Receipts != 5 {
		t.Errorf("got %+v, %+v, want 5 receipts", r, r.Break)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	j := add(t, s, 10)
	for _, tt := range []struct {
		before time.Time
		most   int
		want   int // removed
		left   int64
	}{
		{noon, Most, 0, 10},
		{noon.Add(3 * time.Minute), Most, 3, 7}, // those of minutes 0, 1 and 2
		{noon, 5, 2, 5},
		{noon.Add(time.Hour), Most, 5, 0},
		{noon.Add(time.Hour), Most, 0, 0},
	} {
		removed, err := s.Prune(tt.before, tt.most, noteIn(&j))
		r := check(t, dir, j)
		if err != nil || removed != tt.want || !r.OK || r.Receipts != tt.left || r.Pruned != 10-tt.left {
			t.Errorf("%+v: removed %d, %v, %+v, %+v", tt, removed, err, r, r.Break)
		}
	}
	j = also(j, add(t, open(t, dir, j), 1))
	if r := check(t, dir, j); !r.OK || r.Receipts != 1 || r.First != 11 {
		t.Errorf("got %+v, %+v, want one receipt, number 11", r, r.Break)
	}
	if err := os.WriteFile(filepath.Join(dir, Folder, audit.PrunedFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, instance, func() (audit.Journal, error) { return j, nil }); err == nil {
		t.Error("Verify returned no error for an unreadable pruned.json")
	}
}

// TestPruneHides: Prune hides no receipt that was missing or changed before, and a file that names removed receipts
// hides none that someone else removed.
func TestPruneHides(t *testing.T) {
	note := func(dir string, h audit.Head) error {
		return os.WriteFile(filepath.Join(dir, Folder, audit.PrunedFile),
			fmt.Appendf(nil, `{"n":%d,"sha256":%q}`, h.N, h.Hash), 0o600)
	}
	path := func(dir string, n int64) string {
		return filepath.Join(dir, Folder, audit.Name(n, fmt.Sprintf("%s-%d", instance, n)))
	}
	edit := func(dir string, n int64) error {
		text, err := os.ReadFile(path(dir, n))
		return errors.Join(err, os.WriteFile(path(dir, n), []byte(strings.Replace(string(text), "done", "lost", 1)), 0o600))
	}
	tests := []struct {
		name          string
		before, after func(dir string, j *audit.Journal) error // the first five of ten are removed
		want          string
	}{
		{name: "nothing"},
		{
			name: "one missing before", want: "1 of receipts 1 to 5 were missing or changed",
			before: func(dir string, _ *audit.Journal) error { return os.Remove(path(dir, 2)) },
		},
		{
			name: "one edited before", want: "1 of receipts 1 to 5 were missing or changed",
			before: func(dir string, _ *audit.Journal) error { return edit(dir, 3) },
		},
		{
			name: "the last one edited before", want: "does not follow from the beginning",
			before: func(dir string, _ *audit.Journal) error { return edit(dir, 5) },
		},
		{
			name: "more removed, and noted", want: "receipts 6 to 7 are missing before it",
			after: func(dir string, j *audit.Journal) error {
				return errors.Join(os.Remove(path(dir, 6)), os.Remove(path(dir, 7)),
					note(dir, audit.Head{N: 7, Hash: j.Hashes[instance+"-7"]}))
			},
		},
		{
			name: "all removed, and noted", want: "receipts 6 to 10 are missing at the end",
			after: func(dir string, j *audit.Journal) error {
				err := note(dir, j.Newest)
				for n := range int64(5) {
					err = errors.Join(err, os.Remove(path(dir, n+6)))
				}
				return err
			},
		},
		{
			name: "more noted", want: "the journal has no record of the removal of receipt 6",
			after: func(dir string, j *audit.Journal) error {
				return note(dir, audit.Head{N: 6, Hash: j.Hashes[instance+"-6"]})
			},
		},
		{
			name: "another hash", want: "the journal has another hash of receipt 5",
			after: func(dir string, j *audit.Journal) error {
				return note(dir, audit.Head{N: 5, Hash: j.Hashes[instance+"-6"]})
			},
		},
		{
			name: "less noted", want: "it has no record of the removal of receipts 4 to 5",
			after: func(dir string, j *audit.Journal) error {
				return note(dir, audit.Head{N: 3, Hash: j.Hashes[instance+"-3"]})
			},
		},
		{
			name: "nothing noted", want: "it has no record of the removal of receipts 1 to 5",
			after: func(dir string, _ *audit.Journal) error {
				return os.Remove(filepath.Join(dir, Folder, audit.PrunedFile))
			},
		},
		{
			name: "the journal lost", want: "it knows no receipt, and receipts up to 5 were removed",
			after: func(_ string, j *audit.Journal) error { *j = audit.Journal{}; return nil },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, audit.Journal{})
			j := add(t, s, 10)
			for _, do := range []func(string, *audit.Journal) error{
				tt.before,
				func(string, *audit.Journal) error {
					_, err := s.Prune(noon.Add(5*time.Minute), Most, noteIn(&j))
					j.Hashes = map[string]string{
						instance + "-7": j.Hashes[instance+"-7"], instance + "-6": j.Hashes[instance+"-6"],
						instance + "-3": j.Hashes[instance+"-3"],
					} // a journal forgets
					return err
				},
				tt.after,
			} {
				if do != nil {
					if err := do(dir, &j); err != nil {
						t.Fatal(err)
					}
				}
			}
			r := check(t, dir, j)
			if r.OK != (tt.want == "") || !r.OK && !strings.Contains(r.Break.Why, tt.want) {
				t.Errorf("got %+v, %+v, want %s", r, r.Break, tt.want)
			}
		})
	}
}

// TestPruneStops: Prune removes nothing that the journal could not record, and after a crash it removes the rest.
func TestPruneStops(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	j := add(t, s, 6)
	full := errors.New("no room")
	if n, err := s.Prune(noon.Add(3*time.Minute), Most, func(audit.Pruned) error { return full }); n != 0 ||
		!errors.Is(err, full) {
		t.Errorf("Prune removed %d, %v, want 0 and the error", n, err)
	}
	if r := check(t, dir, j); !r.OK || r.Receipts != 6 {
		t.Errorf("got %+v, %+v, want 6 receipts", r, r.Break)
	}
	j.Pruned = audit.Pruned{Head: audit.Head{N: 3, Hash: j.Hashes[instance+"-3"]}} // and then it crashed
	if r := check(t, dir, j); !r.OK || r.Receipts != 3 || r.Pruned != 3 {
		t.Errorf("got %+v, %+v, want 3 receipts and 3 pruned", r, r.Break)
	}
	s = open(t, dir, j)
	if n, err := s.Prune(noon.Add(4*time.Minute), Most, noteIn(&j)); n != 4 || err != nil {
		t.Errorf("Prune removed %d, %v, want 4", n, err)
	}
	if r := check(t, dir, j); !r.OK || r.Receipts != 2 || r.Pruned != 4 {
		t.Errorf("got %+v, %+v, want 2 receipts and 4 pruned", r, r.Break)
	}
}

// TestVerifyMeanwhile: a supervisor that adds and removes receipts while Verify reads them causes no break.
func TestVerifyMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	j := add(t, s, 6)
	asked := 0
	r, err := Verify(dir, instance, func() (audit.Journal, error) {
		known := j
		switch asked++; asked {
		case 1:
			j = also(j, add(t, s, 1))
		case 2:
			if _, err := s.Prune(noon.Add(3*time.Minute), Most, noteIn(&j)); err != nil {
				t.Error(err)
			}
		}
		return known, nil
	})
	if err != nil || !r.OK || r.Receipts != 4 || asked != 3 {
		t.Errorf("asked %d times, want 3: %+v, %+v, %v", asked, r, r.Break, err)
	}
}

// TestPipe: Verify refuses a pipe in the place of a receipt.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, audit.Journal{})
	if err := unix.Mkfifo(filepath.Join(dir, Folder, audit.Name(1, instance+"-1")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Verify(dir, instance, func() (audit.Journal, error) { return audit.Journal{}, nil })
	if err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("error %v, want not a plain file", err)
	}
}

// TestFull: a receipt that cannot be written leaves no file behind, and the next one takes its number.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Journal{})
	add(t, s, 1)
	if err := os.Mkdir(filepath.Join(dir, Folder, audit.Name(2, instance+"-x")), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(&audit.Receipt{Run: instance + "-x"}); err == nil {
		t.Fatal("Add wrote a receipt that cannot be written")
	}
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	half := func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".new") }
	if err != nil || slices.ContainsFunc(entries, half) {
		t.Errorf("got %v, %v, want no half-written file", entries, err)
	}
	if err := os.Remove(filepath.Join(dir, Folder, audit.Name(2, instance+"-x"))); err != nil {
		t.Fatal(err)
	}
	j := add(t, s, 1)
	if r := check(t, dir, j); !r.OK || r.Receipts != 2 {
		t.Errorf("got %+v, %+v, want 2 receipts", r, r.Break)
	}
}
