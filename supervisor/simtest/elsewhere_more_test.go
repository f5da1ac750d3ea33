package simtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
			found, err := supervisor.FindLogs(w.Dir, control.LogQuery{Of: "1"})
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

// An upgrade in place does not hand over sessions elsewhere: the next image finds them in the journal, and continues
// them.
func TestElsewhereUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Elsewhere()
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session runs", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(10 * time.Second)
		became := errors.New("another image")
		err := l.HandOver(context.Background(), func(h supervisor.Handover, _ *os.File) error {
			if len(h.Sessions) > 0 {
				t.Errorf("got sessions %+v handed over, want none", h.Sessions)
			}
			l.Kill()
			return became
		})
		if !errors.Is(err, became) {
			t.Fatal(err)
		}
		l.Bury()
		l = w.Start(func(l *Life) { l.Inherited = &supervisor.Handover{Version: supervisor.HandoverVersion, Upgrades: 1} })
		time.Sleep(time.Second)
		if d := l.Document(); len(d.Sessions) != 1 || d.Sessions[0].RunID != w.Exec.Runs()[0].Job.RunID {
			t.Errorf("after the upgrade: got sessions %+v, want the one from before", d.Sessions)
		}
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		checkOnce(t, w, l)
		l.Stop()
		w.Check()
	})
}
