package simtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// A supervisor is killed at every call, before and after the call takes effect. There is a call between any two
// journal records. The next supervisor has only the journal. Every issue still has one effective implementation, its
// pull request is merged once, and no claim is lost. One pass after the restart, every claim has a session.
func TestF1_KilledAnywhere(t *testing.T) {
	calls := map[string]int{ // how many calls to try: one per kind of work
		"prepare": 1, "scan": 6, "whoami": 2, "claim": 3, "run": 3, "look": 3, "release": 3, "merge": 1,
	}
	for i, call := range slices.Sorted(maps.Keys(calls)) {
		for n := 1; n <= calls[call]; n++ {
			for _, after := range []bool{false, true} {
				if !Storms() && (i == 2 || i > 4 || n != 1+i%calls[call] || after != (i%2 == 0)) { // four calls, each once
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { killedAt(t, call, n, after) })
				})
			}
		}
	}
}

// objectOnce gives a slow world one issue, whose pull request gets changes requested once.
func objectOnce(w *World) {
	w.Slow()
	w.Forge.Issue("one")
	w.Exec.Script = func(job agents.Job, n int) Script {
		s := w.Work(job, n)
		first := len(w.Forge.Pulls()) == 1 && len(w.Forge.Pulls()[0].Reviews) == 0
		if job.Kind == agents.KindReview && first {
			s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
		}
		return s
	}
}

// restart starts a supervisor that is killed at a call, and then the next one.
func restart(t *testing.T, w *World, call string, n int, after bool) *Life {
	t.Helper()
	l := w.Start(KillAt(call, n, after))
	select {
	case <-l.Killed:
	case <-time.After(2 * time.Hour):
		t.Fatalf("%s was called fewer than %d times", call, n)
	}
	l.Bury()
	w.logf("---- killed ----\n")
	return w.Start()
}

func killedAt(t *testing.T, call string, n int, after bool) {
	w := New(t)
	objectOnce(w)
	l := restart(t, w, call, n, after)
	time.Sleep(30 * time.Second)
	running := len(slices.DeleteFunc(w.Exec.Runs(), func(r Run) bool { return !r.End.IsZero() }))
	if claims := w.Forge.Claimed(); len(claims) > running {
		t.Errorf("30 s after the restart: got %d running sessions and the claims %v, want no more claims than sessions\n%s",
			running, claims, w.Log.String())
	}
	w.Until(2*time.Hour, "merged", w.Forge.Done)
	time.Sleep(time.Minute)
	l.Stop()
	w.Check()

	if left := w.Forge.Claimed(); len(left) > 0 {
		t.Errorf("claims left: %v", left)
	}
	if pulls := w.Forge.Pulls(); len(pulls) != 1 || !pulls[0].Merged || len(pulls[0].Reviews) != 2 {
		t.Errorf("got pull requests %+v, want one that is merged after 2 reviews", pulls)
	}
	effective := make(map[string]int)
	for _, r := range w.Exec.Runs() {
		if r.Outcome.Result == agents.Done {
			effective[string(r.Job.Kind)]++
		}
	}
	if fmt.Sprint(effective) != "map[issue:1 review:2 rework:1]" {
		t.Errorf("got effective sessions %v, want map[issue:1 review:2 rework:1]\n%s", effective, w.Log.String())
	}
	for _, r := range w.Exec.Runs() {
		if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
			t.Errorf("got attempt %s of %s: a lost session burnt an attempt", variable(r.Job, "DISINTO_ATTEMPT"), r.Job.Kind)
		}
	}
}

// A crash in the middle of a journal line loses only that line.
func TestTornJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(time.Minute)
		l.Kill()
		l.Bury()
		path := filepath.Join(w.Dir, "journal.jsonl")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = append([]byte("no line of ours\n"), text...)
		if err := os.WriteFile(path, append(text, `{"at":"2000-01-01T00:00:00Z","end":{"ru`...), 0o600); err != nil {
			t.Fatal(err)
		}
		l = w.Start()
		w.Until(time.Hour, "merged", w.Forge.Done)
		d := l.Document()
		l.Stop()
		w.Check()
		if len(d.Problems) != 1 || !strings.Contains(d.Problems[0], "1 lines of the journal were corrupt") {
			t.Errorf("got problems %v, want one about a corrupt line", d.Problems)
		}
		aside, err := os.ReadFile(filepath.Join(w.Dir, "journal.corrupt"))
		if err != nil || string(aside) != "no line of ours\n" {
			t.Errorf("journal.corrupt: got %q, %v, want the corrupt line", aside, err)
		}
		lost := slices.ContainsFunc(w.Exec.Runs(), func(r Run) bool {
			return r.Job.Kind == agents.KindIssue && !r.End.IsZero()
		})
		if n := len(w.Exec.RunsOf(agents.KindIssue, 1)); !lost || n != 2 {
			t.Errorf("got %d sessions on the issue, want 2, the first one lost", n)
		}
	})
}

// A supervisor without its journal learns what it needs from the forge, and no claim is lost.
func TestJournalDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		l := w.Start()
		time.Sleep(time.Minute)
		l.Kill()
		l.Bury()
		if err := os.Remove(filepath.Join(w.Dir, "journal.jsonl")); err != nil {
			t.Fatal(err)
		}
		l = w.Start()
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("claims left: %v", left)
		}
	})
}

// A review that was posted before the machine ended counts: it is not paid for again.
func TestLostReviewCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Forge.Issue("one")
		posted := make(chan struct{})
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview && n == 1 {
				review := s.Do
				s.Takes, s.Do = time.Hour, nil
				time.AfterFunc(time.Minute, func() { review(); close(posted) })
			}
			return s
		}
		l := w.Start()
		<-posted
		time.Sleep(time.Second)
		l.Kill()
		l.Bury()
		w.logf("---- killed ----\n")
		l = w.Start()
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		pull := w.Forge.Pulls()[0].Number
		if n := len(w.Exec.RunsOf(agents.KindReview, pull)); n != 1 {
			t.Errorf("got %d review sessions, want 1\n%s", n, w.Log.String())
		}
		const want = "approved, although it was lost: the supervisor ended under it"
		if past := l.Document().Recent; !slices.ContainsFunc(past, func(r control.RecentDocument) bool {
			return r.Outcome == agents.Done && r.Reason == want
		}) {
			t.Errorf("got %+v, want a session that ended with %q", past, want)
		}
		l.Stop()
		w.Check()
	})
}
