package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// starts counts the started programs by run id.
func starts(w *World) map[string]int {
	count := make(map[string]int)
	for _, r := range w.Exec.Runs() {
		count[r.Job.RunID]++
	}
	return count
}

// checkOnce fails the test for a run that started twice, and for a lost session.
func checkOnce(t *testing.T, w *World, l *Life) {
	t.Helper()
	for run, n := range starts(w) {
		if n != 1 {
			t.Errorf("%s started %d times, want once", run, n)
		}
	}
	for _, r := range l.Document().Recent {
		if r.Outcome == agents.Lost {
			t.Errorf("%s is lost: %s\n%s", r.RunID, r.Reason, w.Log.String())
		}
	}
}

// A supervisor whose sessions run elsewhere is killed at every call, before and after the call takes effect. Each run
// starts once, none is lost while its program runs, and the next supervisor continues it.
func TestElsewhereKilledAnywhere(t *testing.T) {
	for i, call := range []string{"claim", "send", "ended", "look", "release"} {
		for n := 1; n <= 3; n++ {
			for _, after := range []bool{false, true} {
				if !Storms() && (n != 1 || call != "send" && call != "ended" || after != (i%2 == 0)) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { killedElsewhere(t, call, n, after) })
				})
			}
		}
	}
}

func killedElsewhere(t *testing.T, call string, n int, after bool) {
	w := New(t)
	w.Elsewhere()
	w.Forge.Issue("one")
	w.Forge.Issue("two")
	l := restart(t, w, call, n, after)
	w.Until(2*time.Hour, "merged", w.Forge.Done)
	time.Sleep(time.Minute)
	for _, r := range l.Document().Recent {
		if r.Outcome == agents.Lost && starts(w)[r.RunID] > 0 {
			t.Errorf("%s is lost: %s\n%s", r.RunID, r.Reason, w.Log.String())
		}
	}
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview} {
		if got := len(slices.DeleteFunc(w.Exec.Runs(), func(r Run) bool { return r.Job.Kind != kind })); got != 2 {
			t.Errorf("got %d sessions of kind %s, want 2\n%s", got, kind, w.Log.String())
		}
	}
	for run, n := range starts(w) {
		if n != 1 {
			t.Errorf("%s started %d times, want once", run, n)
		}
	}
	if runs, _ := w.Engine.Unreported(l.Instance()); len(runs) > 0 {
		t.Errorf("the engine keeps %q, want none", runs)
	}
	l.Stop()
	w.Check()
	if left := w.Forge.Claimed(); len(left) > 0 {
		t.Errorf("claims left: %v", left)
	}
}

// With stop = "detach", TERM leaves sessions elsewhere and their claims. The next supervisor continues a running
// session, and learns the outcome of one that ended meanwhile.
func TestElsewhereDetach(t *testing.T) {
	for _, pause := range []time.Duration{time.Minute, time.Hour} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Elsewhere()
				w.Forge.Issue("one")
				l := w.Start()
				w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
				time.Sleep(10 * time.Second)
				place := l.Document().Sessions[0].Place
				if took := l.Stop(); took > 2*time.Second || place != "box1/"+w.Exec.Runs()[0].Job.RunID {
					t.Errorf("got place %q and a stop of %s, want box1 and the run id, and at most 2s", place, took)
				}
				if claimed := w.Forge.Claimed(); len(claimed) != 1 || !w.Exec.Runs()[0].End.IsZero() {
					t.Errorf("got claims %v and session %+v, want one claim and a running session", claimed, w.Exec.Runs()[0])
				}
				time.Sleep(pause)
				l = w.Start()
				time.Sleep(2 * time.Second)
				d := l.Document()
				if pause < 10*time.Minute && (len(d.Sessions) != 1 || d.Sessions[0].Title != "one" ||
					d.Sessions[0].Place != place ||
					d.Sessions[0].State != threads.Running) {
					t.Errorf("two seconds after the start: got sessions %+v, want the one from before, running at %s", d.Sessions,
						place)
				}
				w.Until(time.Hour, "merged", w.Forge.Done)
				checkOnce(t, w, l)
				if got := len(w.Exec.RunsOf(agents.KindIssue, 1)); got != 1 {
					t.Errorf("got %d sessions on the issue, want 1", got)
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

// With stop = "end", the sessions end with the supervisor, and their claims are released.
func TestElsewhereStopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Elsewhere()
		for i := range w.Config.Threads {
			w.Config.Threads[i].StopEnds = true
		}
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		l.Stop()
		if r := w.Exec.Runs()[0]; r.Outcome.Result != agents.Cancelled || len(w.Forge.Claimed()) > 0 {
			t.Errorf("got session %+v and claims %v, want cancelled and none", r, w.Forge.Claimed())
		}
		if kept, _ := w.Engine.Unreported(l.Instance()); len(kept) > 0 {
			t.Errorf("got kept sessions %q, want none", kept)
		}
		w.Check()
	})
}

// A session that is not in the journal is ended before anything starts, however long the engine takes to answer.
func TestElsewhereUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Stubborn = true
			return s
		}
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		l.Kill()
		l.Bury()
		if err := os.Remove(filepath.Join(w.Dir, "journal.jsonl")); err != nil {
			t.Fatal(err)
		}
		e.Down(true)
		l = w.Start()
		time.Sleep(5 * time.Minute)
		if n := len(w.Exec.Runs()); n != 1 {
			t.Errorf("got %d sessions before the engine answered, want 1", n)
		}
		waits := func() bool {
			return strings.Contains(strings.Join(l.Document().Problems, "\n"), "nothing is started before")
		}
		if !waits() {
			t.Errorf("the status does not say why nothing starts: %q", l.Document().Problems)
		}
		e.Down(false)
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		if waits() {
			t.Errorf("the status still says that nothing starts: %q", l.Document().Problems)
		}
		if r := w.Exec.Runs()[0]; r.Outcome.Result != agents.Cancelled || !strings.Contains(r.Outcome.Reason, "journal") {
			t.Errorf("got outcome %+v of the old session, want cancelled because of the journal", r.Outcome)
		}
		l.Stop()
		w.Check() // no two sessions on the issue at once
	})
}

// A session that is in the journal but not on the engine is lost: it burns no attempt, and its claim is released.
// While the engine does not answer, the session keeps its slot, and other threads work.
func TestElsewhereGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		l.Kill()
		l.Bury()
		e.find(w.Exec.Runs()[0].Job.RunID).cancel(errDead)
		time.Sleep(time.Minute)
		e.forget(w.Exec.Runs()[0].Job.RunID)
		e.Down(true)
		l = w.Start()
		time.Sleep(10 * time.Minute)
		if d := l.Document(); len(d.Sessions) != 1 || len(d.Recent) != 0 || len(w.Forge.Claimed()) != 1 {
			t.Errorf("while the engine is down: got sessions %+v and recent ones %+v, want one, none, and one claim",
				d.Sessions, d.Recent)
		}
		e.Down(false)
		w.Until(time.Minute, "lost", func() bool { return len(l.Document().Recent) == 1 })
		if r := l.Document().Recent[0]; r.Outcome != agents.Lost {
			t.Errorf("got %+v, want lost", r)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		if got := variable(w.Exec.RunsOf(agents.KindIssue, 1)[1].Job, "DISINTO_ATTEMPT"); got != "1" {
			t.Errorf("got attempt %s of the next session, want 1", got)
		}
		l.Stop()
		w.Check()
	})
}

// The executor's job has the claim, the place and the keys of folders.
func TestElsewhereJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Elsewhere()
		for i := range w.Config.Threads {
			w.Config.Threads[i].Nodes = []agents.NodeRule{{Attribute: "meta.llama", Value: "box2"}}
		}
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		issue := w.Exec.RunsOf(agents.KindIssue, 1)[0].Job
		if issue.Workspace != "dev-coder/johba_harb_1" || issue.HomeKey != "dev-coder" || issue.Instance != l.Instance() ||
			issue.Thread != "llama" || issue.Role != "dev" || issue.Issue != 1 || len(issue.Nodes) != 1 || issue.Place != "" {
			t.Errorf("got job %+v, want the folders, ids and node rule of this session", issue)
		}
		for _, v := range issue.Env {
			if strings.Contains(v, "token-of-") {
				t.Errorf("the environment has the secret %s", v)
			}
		}
		if !slices.Contains(issue.Secrets, "FORGE_TOKEN=token-of-dev-coder") {
			t.Errorf("got secrets %q, want the agent's token", issue.Secrets)
		}
		review := w.Exec.RunsOf(agents.KindReview, 2)[0].Job
		if review.Place != "box1/"+issue.RunID || review.Issue != 1 || review.Number != 2 {
			t.Errorf("got review job %+v, want the place of the writing session, and the numbers 1 and 2", review)
		}
		l.Stop()
		w.Check()
	})
}

// A lack of room on this machine does not hold a session elsewhere. A lack of room there does.
func TestElsewhereRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		w.Config.Factory.MinFreeMemory = 1000
		e.Free(999)
		w.Forge.Issue("one")
		l := w.Start(func(l *Life) { l.Room = func(string) threads.Room { return threads.Room{} } })
		time.Sleep(time.Minute)
		if d := l.Document(); len(w.Exec.Runs()) > 0 || len(d.Queue) != 1 || d.Queue[0].Code != threads.NoRoom {
			t.Errorf("with little room there: got queue %+v, want one item that waits for room", d.Queue)
		}
		e.Free(1000)
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
	})
}

// While no machine elsewhere can run a thread's sessions, nothing is claimed, and the queue says why. Unknown room
// holds nothing.
func TestElsewhereUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		e.Lacks("meta.llama = box2")
		w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(10 * time.Minute)
		d := l.Document()
		if len(w.Exec.Runs()) > 0 || len(d.Recent) > 0 || len(w.Forge.Claimed()) > 0 || len(d.Queue) != 1 ||
			d.Queue[0].Code != threads.NoNode || !strings.Contains(d.Queue[0].Why, "meta.llama = box2") {
			t.Errorf("got recent sessions %+v and queue %+v, want none, and one item without a place", d.Recent, d.Queue)
		}
		e.Lacks("")
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// An outage of the engine is on the status within 5 s, under Nomad's name and no agent's. Nothing is claimed meanwhile,
// and work starts at once after it.
func TestElsewhereDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		l := w.Start()
		time.Sleep(time.Minute)
		e.Down(true)
		time.Sleep(5 * time.Second)
		const want = control.NomadProblem + "the engine does not answer"
		if d := l.Document(); !slices.Contains(d.Problems, want) {
			t.Errorf("5 s after the outage: got problems %q, want %q", d.Problems, want)
		}
		w.Forge.Issue("one")
		time.Sleep(10 * time.Minute)
		d := l.Document()
		if len(d.Recent) > 0 || len(w.Forge.Claimed()) > 0 || len(d.Queue) != 1 ||
			d.Queue[0].Code != threads.NoNomad || d.Queue[0].Why != "the engine does not answer" {
			t.Errorf("got recent sessions %+v and queue %+v, want none, and one item that waits for Nomad", d.Recent, d.Queue)
		}
		e.Down(false)
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		if d := l.Document(); slices.Contains(d.Problems, want) {
			t.Errorf("after the outage: got problems %q", d.Problems)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}
