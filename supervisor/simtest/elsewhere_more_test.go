package simtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// A session that no node can run ends with the reason, burns no attempt, releases its claim, and is tried again.
func TestElsewhereNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		e.Full(true)
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(2*time.Minute, "both agents wait", func() bool {
			q := l.Document().Queue
			return len(q) == 1 && q[0].Code == threads.NoPlace && strings.Contains(q[0].Why, "meta.llama")
		})
		if d := l.Document(); d.Recent[0].Outcome != agents.NoPlace || len(w.Forge.Claimed()) > 0 {
			t.Errorf("got recent sessions %+v and claims %v, want no-place and none", d.Recent, w.Forge.Claimed())
		}
		time.Sleep(20 * time.Minute)
		if n := len(l.Document().Recent); n < 4 || n > 12 {
			t.Errorf("got %d tries in 20 minutes, want 4 to 12", n)
		}
		e.Full(false)
		w.Until(4*time.Hour, "merged", w.Forge.Done)
		if got := variable(w.Exec.RunsOf(agents.KindIssue, 1)[0].Job, "DISINTO_ATTEMPT"); got != "1" {
			t.Errorf("got attempt %s, want 1", got)
		}
		l.Stop()
		w.Check()
	})
}

// The log of a session elsewhere is at the usual path: while it runs, after a restart, and when the engine has
// forgotten the session. Only our account may read it, and max_log limits it.
func TestElsewhereLog(t *testing.T) {
	for _, most := range []int64{0, 36} {
		synctest.Test(t, func(t *testing.T) {
			w := New(t)
			w.Elsewhere()
			w.Config.Factory.MaxLog = most
			w.Forge.Issue("one")
			l := w.Start()
			w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
			run := w.Exec.Runs()[0].Job.RunID
			name := filepath.Join("logs", "dev-coder", run+".log")
			hello := "hello from " + run + "\n"
			time.Sleep(time.Second)
			if got := readLog(t, filepath.Join(w.Dir, name)); got != hello {
				t.Errorf("while the session runs: got log %q, want %q", got, hello)
			}
			l.Stop()
			l = w.Start()
			w.Until(2*time.Hour, "merged", w.Forge.Done)
			want := hello + "goodbye\n"
			if most > 0 {
				want = hello
			}
			if got := readLog(t, filepath.Join(w.Dir, name)); got != want {
				t.Errorf("at the end: got log %q, want %q", got, want)
			}
			found, err := supervisor.FindLogs(w.Dir, control.LogQuery{Of: "1", Session: run})
			if err != nil || len(found.Shown) != 1 || found.Shown[0].RunID != run {
				t.Errorf("FindLogs = %+v, %v", found, err)
			}
			l.Stop()
		})
	}
}

func readLog(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v of the log, want 0600", info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// At an upgrade the supervisor ends while nothing but programs is under way, and the next one finds them in the
// journal: on this machine and elsewhere.
func TestUpgrade(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, m, _, in := outlive(t)
			if elsewhere {
				w.Elsewhere()
			}
			w.Forge.Issue("one")
			l := w.Start(in)
			w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
			time.Sleep(10 * time.Second)
			before := l.Document()
			replaced := errors.New("another supervisor")
			err := l.Quiet(context.Background(), func() error { l.Kill(); return replaced })
			if !errors.Is(err, replaced) {
				t.Fatal(err)
			}
			l.Bury()
			l = w.Start(in, func(l *Life) { l.Upgrades, l.Paused = 1, true })
			time.Sleep(time.Second)
			d := l.Document()
			if len(d.Sessions) != 1 || d.Sessions[0].RunID != w.Exec.Runs()[0].Job.RunID || d.Paused || d.Upgrades != 1 ||
				!d.StartedAt.Equal(before.StartedAt) || !d.UpgradedAt.After(before.StartedAt) || len(d.Problems) > 0 {
				t.Errorf("after the upgrade: got %+v, want the session from before, and one upgrade", d)
			}
			w.Until(2*time.Hour, "merged", w.Forge.Done)
			checkOnce(t, w, l)
			if got := len(m.log()); got != 4 {
				t.Errorf("got services %q, want each command once", m.log())
			}
			l.Stop()
			w.Check()
		})
	}
}

// Quiet refuses to end the supervisor while a claim is under way, and after a failure work continues.
func TestNotQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Outlive()
		var claims atomic.Bool
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "claim" && claims.CompareAndSwap(false, true) {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a claim is under way", claims.Load)
		begun, why := time.Now(), errors.New("it does not run")
		err := l.Quiet(context.Background(), func() error {
			if time.Since(begun) < 15*time.Second || len(w.Exec.Runs()) != 1 {
				t.Errorf("ended after %s, with %d sessions, want after the claim", time.Since(begun), len(w.Exec.Runs()))
			}
			return why
		})
		if !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// A supervisor that follows one that died says so, and how many sessions went on.
func TestCrashIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _, in := outlive(t)
		w.Forge.Issue("one")
		l := w.Start(in)
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		l.Kill()
		l.Bury()
		l = w.Start(in, func(l *Life) { l.Crashes, l.CrashWhy, l.PID = 2, "killed by SIGKILL", 5 })
		time.Sleep(time.Second)
		const want = "because it died (killed by SIGKILL); 1 session went on; so far it died 2 times"
		if d := l.Document(); len(d.Problems) != 1 || !strings.Contains(d.Problems[0], want) || d.PID != 5 {
			t.Errorf("got problems %q of process %d, want %q of 5", d.Problems, d.PID, want)
		}
		l.Stop()
	})
}
