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
	"codeberg.org/johba/disinto/supervisor/answers"
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

// startsKnown fails the test for every start of the journal that the answer of its time does not name. It returns their
// number.
func startsKnown(t *testing.T, dir string, runs bool) (n int) {
	t.Helper()
	for _, r := range begun(t, dir) {
		n++
		ref := forge.Ref(r.Start.Item.Ref).String()
		ex, err := answers.Why(dir, ref, r.At.Truncate(time.Second), runs)
		want := fmt.Sprintf("%s works on it on %s, slot %d", r.Start.Agent, r.Start.Thread, r.Start.Slot)
		if err != nil || !strings.HasPrefix(ex.Verdict, want) || ex.Since.IsZero() {
			t.Errorf("%s at %s: got %q, %v, want %q", ref, r.At.Format(time.RFC3339Nano), ex.Verdict, err, want)
		}
	}
	return n
}

// Each start of a working day is known afterwards, with and without a supervisor, and at each time the answers of an
// agent and of a thread. After the end of the supervisor nothing is.
func TestAnswersOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSoak(t, 3)
		l := s.Start()
		s.file(Size(8*time.Hour, 2*time.Hour))
		s.Until(3*time.Hour, "the work is merged", s.Forge.Done)
		end := time.Now()
		for at := s.Exec.Runs()[0].Begin; at.Before(end); at = at.Add(Size(7*time.Minute, 17*time.Minute)) {
			for _, name := range []string{"llama", "dev-qwen"} {
				if ex, err := answers.Why(s.Dir, name, at, true); err != nil || ex.Since.After(at.Add(time.Second)) {
					t.Errorf("%s at %s: got %+v, %v, want an answer of that time", name, at, ex, err)
				}
			}
		}
		n := startsKnown(t, s.Dir, true)
		l.Stop()
		s.Check()
		if n < 10 || n != len(s.Exec.Runs()) {
			t.Errorf("got %d starts in the journal, want one for each of the %d sessions, at least 10", n, len(s.Exec.Runs()))
		}
		startsKnown(t, s.Dir, false)
		_, err := answers.Why(s.Dir, "llama", time.Now().Add(time.Hour), false)
		if err == nil || !strings.Contains(err.Error(), "no supervisor ran") {
			t.Errorf("an hour after the end: got %v, want that no supervisor ran", err)
		}
		if info, err := os.Stat(filepath.Join(s.Dir, "answers.jsonl")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v, want a file with the mode 0600", info, err)
		} else {
			t.Logf("%d starts, %d bytes", n, info.Size())
		}
	})
}
