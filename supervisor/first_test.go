package supervisor_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor/simtest"
)

// A first start with waiting work starts nothing until a person resumes. Without waiting work it starts new issues as
// they come, and so does every later start.
func TestFirstStart(t *testing.T) {
	asks := func(l *simtest.Life) { l.Ask = true }
	first := func(l *simtest.Life) bool {
		return slices.ContainsFunc(l.Document().Problems,
			func(p string) bool { return strings.HasPrefix(p, "first start: ") })
	}
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		w.Forge.Issue("two", 1)
		l := w.Start(asks)
		time.Sleep(simtest.Size(time.Hour, 10*time.Minute))
		if n := len(w.Exec.Runs()); n != 0 || !l.Document().Paused || !first(l) {
			t.Fatalf("got %d sessions, problems %q, want no session and a pause", n, l.Document().Problems)
		}
		if got := l.Document().Problems[0]; !strings.HasPrefix(got, "first start: 1 item waits: ") {
			t.Errorf("got problem %q, want 1 waiting item", got) // the second issue is blocked by the first
		}
		l.Kill() // before a person resumed
		l.Bury()
		l = w.Start(asks)
		time.Sleep(simtest.Size(time.Hour, 10*time.Minute))
		if n := len(w.Exec.Runs()); n != 0 || !l.Document().Paused {
			t.Errorf("after a kill: got %d sessions, paused %v, want a pause", n, l.Document().Paused)
		}
		told(t, l, "/v1/resume", `{}`, "everything: resumed")
		w.Until(6*time.Hour, "both are merged", func() bool { return w.Forge.Get(1).Closed && w.Forge.Get(2).Closed })
		if first(l) {
			t.Error("the problem of a first start is still shown after resume")
		}
		l.Stop()
	})
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		l := w.Start(asks)
		time.Sleep(time.Minute)
		if l.Document().Paused || first(l) {
			t.Errorf("without work: got a pause, problems %q", l.Document().Problems)
		}
		w.Forge.Issue("one")
		w.Until(6*time.Hour, "merged", func() bool { return w.Forge.Get(1).Closed })
		w.Forge.Issue("two")
		l.Kill()
		l.Bury()
		l = w.Start(asks)
		w.Until(6*time.Hour, "merged after a restart", func() bool { return w.Forge.Get(3).Closed })
		l.Stop()
	})
	synctest.Test(t, func(t *testing.T) { // Paused holds whatever work there is
		w := simtest.New(t)
		l := w.Start(func(l *simtest.Life) { l.Paused = true })
		time.Sleep(time.Minute)
		w.Forge.Issue("one")
		time.Sleep(simtest.Size(time.Hour, 10*time.Minute))
		if n := len(w.Exec.Runs()); n != 0 || !l.Document().Paused || first(l) {
			t.Errorf("with Paused: got %d sessions, paused %v", n, l.Document().Paused)
		}
		l.Stop()
	})
}
