package simtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/decisions"
	"codeberg.org/johba/disinto/threads/ledger"
)

// begun returns the Start records of a journal.
func begun(t *testing.T, dir string) (list []ledger.Record) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	keep := func(r ledger.Record) {
		if r.Start != nil {
			list = append(list, r)
		}
	}
	if err := ledger.Read(bytes.NewReader(text), keep, func(_, _ int64) { t.Error("a corrupt line") }); err != nil {
		t.Fatal(err)
	}
	return list
}

// foundAgain fails the test for every start of the journal that is not decided again at its time. It returns their
// number.
func foundAgain(t *testing.T, dir string, runs bool) (n int) {
	t.Helper()
	for _, r := range begun(t, dir) {
		n++
		ref := forge.Ref(r.Start.Item.Ref).String()
		ex, err := decisions.Why(dir, ref, r.At.Truncate(time.Second), runs)
		want := fmt.Sprintf("starts now: %s on %s, slot %d", r.Start.Agent, r.Start.Thread, r.Start.Slot)
		if err != nil || !strings.HasPrefix(ex.Verdict, want) || ex.Decided == nil || ex.Decided.Otherwise {
			t.Errorf("%s at %s: got %q %+v, %v, want %q", ref, r.At.Format(time.RFC3339Nano), ex.Verdict, ex.Decided, err, want)
		}
	}
	return n
}

// folderSize returns the bytes and the number of the segments of recorded decisions.
func folderSize(t *testing.T, dir string) (size int64, segments int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, decisions.Folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %s", e.Name(), info.Mode())
		}
		size += info.Size()
	}
	return size, len(entries)
}

// A working day is decided again: each start of the journal at its time, and at other times the decision of that
// time.
func TestDecisionsOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSoak(t, 3)
		l := s.Start()
		s.file(Size(8*time.Hour, 2*time.Hour))
		s.Until(3*time.Hour, "the work is merged", s.Forge.Done)
		asked, end := 0, time.Now()
		for at := s.Exec.Runs()[0].Begin; at.Before(end); at = at.Add(Size(7*time.Minute, 17*time.Minute)) {
			ex, err := decisions.Why(s.Dir, "llama", at, true)
			if err != nil || ex.Decided.Otherwise || ex.Decided.At.After(at.Add(time.Second)) {
				t.Errorf("why llama at %s: got %+v, %v, want a decision of that time", at, ex.Decided, err)
			}
			asked++
		}
		n := foundAgain(t, s.Dir, true)
		size, segments := folderSize(t, s.Dir)
		t.Logf("%d starts found again, %d times asked; %d bytes in %d segments", n, asked, size, segments)
		l.Stop()
		s.Check()
		if n < 10 || n != len(s.Exec.Runs()) {
			t.Errorf("got %d starts in the journal, want one for each of the %d sessions, at least 10", n, len(s.Exec.Runs()))
		}
		// Without a supervisor the same is known, and nothing about later times.
		foundAgain(t, s.Dir, false)
		if _, err := decisions.Why(s.Dir, "llama", time.Now().Add(time.Hour), false); err == nil {
			t.Error("Why for an hour in the future returned no error")
		}
	})
}
