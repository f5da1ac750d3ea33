package receipts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/audit"
)

const instance = "abcdefghij"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string, newest audit.Head) *Store {
	t.Helper()
	s, err := Open(dir, instance, newest)
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
	s := open(t, dir, audit.Head{})
	j := add(t, s, 3)
	s = open(t, dir, j.Newest)
	j = add(t, s, 2)
	if r := check(t, dir, j); !r.OK || r.Receipts != 5 || r.Head != j.Newest {
		t.Errorf("%+v, %+v", r, r.Break)
	}
	if s = open(t, dir, audit.Head{}); s.head != j.Newest { // a lost journal
		t.Errorf("the head is %+v, want %+v", s.head, j.Newest)
	}
	for _, name := range []string{"", audit.Name(3, instance+"-3")} {
		info, err := os.Stat(filepath.Join(dir, Folder, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestSessionsEndAtOnce: however many sessions end together, each receipt follows the one before.
func TestSessionsEndAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Head{})
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
		t.Errorf("%+v, %+v", r, r.Break)
	}
}

// TestRestartHidesNothing breaks a chain of receipts: a restarted supervisor does not repair it.
func TestRestartHidesNothing(t *testing.T) {
	dir := t.TempDir()
	j := add(t, open(t, dir, audit.Head{}), 5)
	for _, n := range []int64{4, 5} {
		if err := os.Remove(filepath.Join(dir, Folder, audit.Name(n, fmt.Sprintf("%s-%d", instance, n)))); err != nil {
			t.Fatal(err)
		}
	}
	j = add(t, open(t, dir, j.Newest), 1)
	r := check(t, dir, j)
	if r.OK || !strings.Contains(r.Break.Why, "receipts 4 to 5 are missing") {
		t.Errorf("%+v, %+v", r, r.Break)
	}
}

// TestLostJournal: without a journal the newest file counts, even in a broken chain, and nothing is removed.
func TestLostJournal(t *testing.T) {
	dir := t.TempDir()
	j := add(t, open(t, dir, audit.Head{}), 5)
	if err := os.Remove(filepath.Join(dir, Folder, audit.Name(2, instance+"-2"))); err != nil {
		t.Fatal(err)
	}
	if s := open(t, dir, audit.Head{}); s.head != j.Newest {
		t.Errorf("the head is %+v, want %+v", s.head, j.Newest)
	}
	names, err := list(filepath.Join(dir, Folder))
	if err != nil || len(names) != 4 {
		t.Errorf("%q, %v", names, err)
	}
}

// TestCrash leaves a receipt that the journal does not know, complete or torn.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Head{})
	j := add(t, s, 3)
	last := add(t, s, 1).Newest
	s = open(t, dir, j.Newest)
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
		if s = open(t, dir, j.Newest); s.head != j.Newest {
			t.Errorf("%q: the head is %+v, want %+v", text, s.head, j.Newest)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%q still exists", text)
		}
	}
	if r := check(t, dir, add(t, s, 2)); !r.OK || r.Receipts != 5 {
		t.Errorf("%+v, %+v", r, r.Break)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Head{})
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
		removed, err := s.Prune(tt.before, tt.most)
		r := check(t, dir, j)
		if err != nil || removed != tt.want || !r.OK || r.Receipts != tt.left || r.Pruned != 10-tt.left {
			t.Errorf("%+v: removed %d, %v, %+v, %+v", tt, removed, err, r, r.Break)
		}
	}
	j = add(t, open(t, dir, j.Newest), 1)
	if r := check(t, dir, j); !r.OK || r.Receipts != 1 || r.First != 11 {
		t.Errorf("%+v, %+v", r, r.Break)
	}
	if err := os.WriteFile(filepath.Join(dir, Folder, prunedFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(dir, instance, func() (audit.Journal, error) { return j, nil }); err == nil {
		t.Error("Verify returned no error for an unreadable pruned.json")
	}
}

// TestFull: a receipt that cannot be written leaves no file behind, and the next one takes its number.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, audit.Head{})
	add(t, s, 1)
	if err := os.Mkdir(filepath.Join(dir, Folder, audit.Name(2, instance+"-x")), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(&audit.Receipt{Run: instance + "-x"}); err == nil {
		t.Fatal("no error")
	}
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	half := func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".new") }
	if err != nil || slices.ContainsFunc(entries, half) {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.Remove(filepath.Join(dir, Folder, audit.Name(2, instance+"-x"))); err != nil {
		t.Fatal(err)
	}
	j := add(t, s, 1)
	if r := check(t, dir, j); !r.OK || r.Receipts != 2 {
		t.Errorf("%+v, %+v", r, r.Break)
	}
}
