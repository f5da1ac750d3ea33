package simtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A supervisor is killed at every write of its journal and every call, before and after the call takes effect. Each run
// starts once, none is lost while its program runs, and the next supervisor continues it and forgets it.
func TestKilledSessionsGoOn(t *testing.T) {
	calls := map[string]int{
		"synced": 24, "claim": 2, "send": 3, "ended": 3, "forget": 3, "look": 3, "release": 3, "merge": 1,
	}
	for i, call := range []string{"synced", "claim", "send", "ended", "forget", "look", "release", "merge"} {
		for n := 1; n <= calls[call]; n++ {
			for _, after := range []bool{false, true} {
				if !Storms() && (n%7 != 1 || after != (i%2 == 0)) || call == "synced" && !after {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := New(t)
						w.Outlive()
						w.Config.Factory.Keep = 30 * 24 * time.Hour
						objectOnce(w)
						w.wentOn(restart(t, w, call, n, after))
					})
				})
			}
		}
	}
}

// wentOn waits until all work of a world with lives is done, and checks that no kill of a supervisor cost a session.
func (w *World) wentOn(l *Life) {
	w.T.Helper()
	w.Until(6*time.Hour, "merged", w.Forge.Done)
	time.Sleep(time.Minute)
	for run, n := range starts(w) {
		if n != 1 {
			w.T.Errorf("%s started %d times, want once", run, n)
		}
	}
	for _, r := range l.Document().Recent {
		if r.Outcome == agents.Lost && starts(w)[r.RunID] > 0 {
			w.T.Errorf("%s is lost: %s\n%s", r.RunID, r.Reason, w.Log.String())
		}
	}
	if runs, _ := w.Shims.Unreported(l.Instance()); len(runs) > 0 {
		w.T.Errorf("the outcomes of %q are still kept, want none", runs)
	}
	l.Stop()
	w.Check()
	if left := w.Forge.Claimed(); len(left) > 0 {
		w.T.Errorf("claims left: %v", left)
	}
	said := make(map[string]int)
	for _, r := range receiptsOf(w.T, w) {
		said[r.Run]++
	}
	for _, r := range w.Exec.Runs() {
		if said[r.Job.RunID] != 1 {
			w.T.Errorf("got %d receipts of %s, want 1", said[r.Job.RunID], r.Job.RunID)
		}
		if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
			w.T.Errorf("got attempt %s of %s: a kill burnt an attempt", variable(r.Job, "DISINTO_ATTEMPT"), r.Job.Kind)
		}
	}
}

// A night with kills at random times, some of them two in a row: no session is lost or repeated, and every outcome and
// every token is counted once.
func TestKilledAllNight(t *testing.T) {
	for seed := range uint64(Size(60, 4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killedAllNight(t, seed) })
		})
	}
}

func killedAllNight(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 31))
	w := New(t)
	w.Usual()
	w.Config.Factory.Keep = 30 * 24 * time.Hour
	w.Outlive()
	issues := 3 + rng.IntN(4)
	for n := range issues {
		w.Forge.Issue(fmt.Sprint("issue ", n))
	}
	used := agents.Usage{InputTokens: 100, OutputTokens: 10}
	w.Exec.Script = func(job agents.Job, n int) Script {
		s := w.Work(job, n)
		s.Turn, s.Uses = time.Minute, used
		return s
	}
	l := w.Start()
	calls := []string{"synced", "send", "ended", "forget", "look", "release", "claim"}
	for range 10 + rng.IntN(30) {
		select {
		case <-l.Killed:
		case <-time.After(time.Duration(rng.Int64N(int64(4 * time.Minute)))):
			l.Kill()
		}
		l.Bury()
		time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Second))))
		l = w.Start(KillAt(calls[rng.IntN(len(calls))], 1+rng.IntN(20), rng.IntN(2) == 0))
	}
	l.Kill()
	l.Bury()
	l = w.Start()
	w.Until(12*time.Hour, "merged", w.Forge.Done)
	time.Sleep(time.Minute)
	var spent int64
	for _, a := range l.Document().Agents {
		spent += a.Spent.Tokens
	}
	var want agents.Usage
	for _, r := range w.Exec.Runs() {
		want = want.Add(r.Outcome.Usage)
	}
	if spent != want.Tokens() || spent == 0 {
		t.Errorf("got %d tokens of all agents, want %d", spent, want.Tokens())
	}
	if got := len(w.Exec.Runs()); got != 2*issues {
		t.Errorf("got %d sessions for %d issues, want %d\n%s", got, issues, 2*issues, w.Log.String())
	}
	w.wentOn(l)
}

// A person's release survives a kill of the supervisor at every later step: the session ends as released by hand, and
// the issue rests for a minute. A kill before the release is journalled forgets it.
func TestStopReasonSurvives(t *testing.T) {
	for call, most := range map[string]int{"synced": 3, "ended": 1, "forget": 1, "release": 1} {
		for n := 1; n <= most; n++ {
			t.Run(fmt.Sprint(call, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { releaseSurvives(t, call, n) })
			})
		}
	}
}

func releaseSurvives(t *testing.T, call string, n int) {
	w := New(t)
	w.Outlive()
	w.Exec.Script = func(job agents.Job, n int) Script {
		s := w.Work(job, n)
		s.Stubborn = true
		return s
	}
	w.Forge.Issue("one")
	l := w.Start()
	w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
	time.Sleep(10 * time.Second)
	KillAt(call, n, true)(l)
	go ask(l, "/v1/release", `{"ref":"1"}`)
	select {
	case <-l.Killed:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s was called fewer than %d times", call, n)
	}
	l.Bury()
	l = w.Start()
	time.Sleep(10 * time.Second)
	recent := l.Document().Recent
	if len(recent) != 1 || recent[0].Outcome != agents.Cancelled || recent[0].Reason != "released by hand" {
		t.Errorf("got %+v, want one session that was released by hand\n%s", recent, w.Log.String())
	}
	time.Sleep(30 * time.Second)
	if runs := w.Exec.Runs(); len(runs) != 1 {
		t.Errorf("got %d sessions within 40 s, want 1", len(runs))
	}
	l.Stop()
	w.Check()
}

// The end of the container ends its sessions: they are lost, which burns no attempt, and their work starts again.
func TestContainerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		shims := w.Outlive()
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		l.Kill()
		l.Bury()
		shims.End()
		l = w.Start()
		time.Sleep(time.Second)
		if d := l.Document(); len(d.Recent) != 1 || d.Recent[0].Outcome != agents.Lost ||
			d.Recent[0].Reason != "the supervisor ended under it" {
			t.Errorf("got %+v, want one lost session", d.Recent)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		runs := w.Exec.RunsOf(agents.KindIssue, 1)
		if len(runs) != 2 || variable(runs[1].Job, "DISINTO_ATTEMPT") != "1" {
			t.Errorf("got sessions %+v, want a second one at attempt 1", runs)
		}
		l.Stop()
		w.Check()
	})
}

// A session that a person released stays released, even if the container ends before the session has.
func TestContainerEndsARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		shims := w.Outlive()
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		KillAt("synced", 1, true)(l)
		go ask(l, "/v1/release", `{"ref":"1"}`)
		<-l.Killed
		l.Bury()
		shims.End()
		l = w.Start()
		time.Sleep(time.Second)
		if d := l.Document(); len(d.Recent) != 1 || d.Recent[0].Outcome != agents.Cancelled ||
			d.Recent[0].Reason != "released by hand" {
			t.Errorf("got %+v, want one session that was released by hand", d.Recent)
		}
		l.Stop()
		w.Check()
	})
}

// What a status says of a session stays the same in the next supervisor, and a stop ends it.
func TestAdoptedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Outlive()
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		before := l.Document().Sessions
		l.Kill()
		l.Bury()
		l = w.Start()
		time.Sleep(time.Second)
		after := l.Document().Sessions
		if len(before) != 1 || len(after) != 1 || before[0].PID != 7 || before[0].Sandbox == "" {
			t.Fatalf("got sessions %+v, then %+v, want the same one", before, after)
		}
		before[0].LastOutputAt = after[0].LastOutputAt
		if fmt.Sprintf("%+v", before[0]) != fmt.Sprintf("%+v", after[0]) {
			t.Errorf("got session %+v, then %+v, want no difference", before[0], after[0])
		}
		if !strings.Contains(w.Log.String(), "disinto continues 1 session that started before it") {
			t.Error("the log does not say that a session goes on")
		}
		l.Stop()
		if r := w.Exec.Runs()[0]; r.Outcome.Result != agents.Cancelled || len(w.Forge.Claimed()) > 0 {
			t.Errorf("after a stop: got %+v and claims %v, want cancelled and none", r.Outcome, w.Forge.Claimed())
		}
		w.Check()
	})
}

// A supervisor that is killed after it has written a session's receipt, and before the end is journalled, leaves one
// receipt: the next one gets the outcome again, and writes no second.
func TestReceiptBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Outlive()
		w.Config.Factory.Keep = 30 * 24 * time.Hour
		w.Forge.Issue("one")
		journal := func() string {
			text, err := os.ReadFile(filepath.Join(w.Dir, "journal.jsonl"))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		l := w.Start(func(l *Life) {
			l.Meters.Synced = func(time.Duration) {
				if strings.Contains(journal(), `"end":{`) {
					l.Kill()
				}
			}
		})
		<-l.Killed
		l.Bury()
		text := journal()
		text = text[:strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1]
		if err := os.WriteFile(filepath.Join(w.Dir, "journal.jsonl"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, _ := os.ReadDir(filepath.Join(w.Dir, "receipts")); strings.Contains(text, `"end":{`) || len(list) != 1 {
			t.Fatalf("want one receipt, and no end in the journal:\n%s", text)
		}
		w.wentOn(w.Start())
	})
}
