package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// beside returns a world of another host on the same forge, with a state directory of its own.
func (w *World) beside() *World {
	other := New(w.T)
	other.Forge = w.Forge
	return other
}

// copied returns a world of another host whose state directory is a copy of this one's.
func (w *World) copied() *World {
	other := w.beside()
	for _, name := range []string{"journal.jsonl", "instance"} {
		text, err := os.ReadFile(filepath.Join(w.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other.Dir, name), text, 0o600)
		}
		if err != nil {
			w.T.Fatal(err)
		}
	}
	return other
}

func alarmOf(d *control.Document) *control.AlarmDocument {
	if len(d.Alarms) == 1 {
		return &d.Alarms[0]
	}
	return new(control.AlarmDocument)
}

// A copied state directory: both supervisors stop starting within minutes, each tells a person once, none of the two
// releases what the other claims, and the one that adopts its directory goes on alone, as another supervisor.
func TestTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t)
		boxA, tellA := a.told()
		first := a.Start(tellA)
		time.Sleep(10 * time.Minute)
		b := a.copied()
		boxB, tellB := b.told()
		second := b.Start(tellB)
		time.Sleep(10 * time.Minute)
		for range 8 {
			a.Forge.Issue("work")
		}
		stopped := func(l *Life) bool {
			d := l.Document()
			return alarmOf(d).Code == control.Twin && d.Paused && strings.Contains(d.PausedWhy, "a second supervisor")
		}
		a.Until(20*time.Minute, "both stop", func() bool { return stopped(first) && stopped(second) })
		runs := len(a.Exec.Runs()) + len(b.Exec.Runs())
		time.Sleep(3 * time.Hour)
		if got := len(a.Exec.Runs()) + len(b.Exec.Runs()); got != runs {
			t.Errorf("after both stopped, %d sessions began", got-runs)
		}
		seen := make(map[int64]bool)
		for _, r := range append(a.Exec.Runs(), b.Exec.Runs()...) {
			if seen[r.Job.Number] {
				t.Errorf("#%d ran twice", r.Job.Number)
			}
			seen[r.Job.Number] = true
		}
		for name, box := range map[string]*mailbox{"first": boxA, "second": boxB} {
			if got := box.with("disinto adopt-state"); len(got) != 1 {
				t.Errorf("the %s told %q, want one message with what to do", name, got)
			}
		}
		if n := strings.Count(a.Log.String(), "[WARN]  a second supervisor works with a copy"); n != 1 {
			t.Errorf("got %d warnings, want 1:\n%s", n, a.Log.String())
		}
		if got := ask(first, "/v1/resume", `{}`); !strings.Contains(got, "disinto adopt-state lets") {
			t.Errorf("resume: got %s", got)
		}
		// What the other's sessions have opened waits for a person, so the one that has worked goes on.
		w, other := a, b
		if len(a.Exec.Runs()) == 0 {
			w, other, first, second = b, a, second, first
		}
		was := first.Instance()
		second.Stop()
		if got := ask(first, "/v1/adopt-state", `{}`); !strings.Contains(got, `"did":["adopted`) || first.Instance() == was {
			t.Errorf("adopt-state: got %s, and the identity %s after %s", got, first.Instance(), was)
		}
		if len(other.Exec.Runs()) == 0 {
			w.Until(8*time.Hour, "all is merged", w.Forge.Done)
		}
		if d := first.Document(); len(d.Alarms) > 0 {
			t.Errorf("after it: got alarms %+v", d.Alarms)
		}
		first.Stop()
		first = w.Start()
		time.Sleep(time.Minute)
		if first.Instance() == was {
			t.Error("a restart has the old identity again")
		}
		first.Stop()
		a.Check()
		b.Check()
	})
}

// The one that goes on need not wait for the other: its claims count as another supervisor's.
func TestTwinAdoptsBesideTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t)
		first := a.Start()
		time.Sleep(10 * time.Minute)
		b := a.copied()
		second := b.Start()
		time.Sleep(time.Minute)
		for range 4 {
			a.Forge.Issue("work")
		}
		for _, l := range []*Life{first, second} {
			a.Until(20*time.Minute, "both stop", func() bool { return alarmOf(l.Document()).Code == control.Twin })
		}
		if len(b.Exec.Runs()) == 0 {
			a, b, first, second = b, a, second, first
		}
		busy := len(second.Document().Sessions) > 0
		if got := ask(second, "/v1/adopt-state", `{}`); busy && !strings.Contains(got, "cannot adopt") {
			t.Errorf("adopt-state beside sessions: got %s", got)
		}
		a.Until(time.Hour, "its sessions end", func() bool { return len(second.Document().Sessions) == 0 })
		ask(second, "/v1/adopt-state", `{}`)
		a.Until(2*time.Hour, "it goes on", func() bool {
			return len(b.Exec.RunsOf(agents.KindIssue, 3))+len(b.Exec.RunsOf(agents.KindIssue, 4)) == 2
		})
		if d := first.Document(); !d.Paused || len(d.Sessions) > 0 {
			t.Errorf("the other: got paused %t, %d sessions", d.Paused, len(d.Sessions))
		}
		first.Stop()
		second.Stop()
		a.Check()
		b.Check()
	})
}

// Without a twin, and beside one, only the pause that the twin caused ends.
func TestAdoptKeepsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		l := w.Start()
		ask(l, "/v1/pause", `{}`)
		ask(l, "/v1/pause", `{"name":"dev-qwen"}`)
		was := l.Instance()
		if got := ask(l, "/v1/adopt-state", `{}`); !strings.Contains(got, `"did":["adopted`) || l.Instance() == was {
			t.Errorf("adopt-state: got %s", got)
		}
		paused := 0
		for _, a := range l.Document().Agents {
			if a.Name == "dev-qwen" && a.Paused {
				paused++
			}
		}
		if d := l.Document(); !d.Paused || paused != 1 {
			t.Errorf("after adopt-state: got paused %t, and %d paused agents", d.Paused, paused)
		}
		l.Stop()
		w.Check()
	})
}

// Two factories of their own with the same accounts on one forge: both work, and each tells once that budgets count per
// host.
func TestSharedAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t)
		b := a.beside()
		b.Host = "iris"
		box, tell := a.told()
		one, two := a.Start(tell), b.Start()
		for range 12 {
			a.Forge.Issue("work")
		}
		a.Until(8*time.Hour, "all is merged", a.Forge.Done)
		got := box.with("budgets, windows and limits count on each host alone")
		if len(got) != 1 || !strings.Contains(got[0], "on iris") {
			t.Errorf("got messages %q, want one that names the host", got)
		}
		if len(a.Exec.Runs()) == 0 || len(b.Exec.Runs()) == 0 {
			t.Errorf("got %d and %d sessions, want some on each", len(a.Exec.Runs()), len(b.Exec.Runs()))
		}
		one.Stop()
		two.Stop()
		a.Check()
		b.Check()
	})
}
