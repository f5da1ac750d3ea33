package simtest

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// archived is the client's error for an archived repository.
type archived struct{}

func (archived) Error() string {
	return Repo + " is archived: unarchive it, or take it out of [forge] repos"
}
func (archived) Unwrap() error { return forge.ErrOff }

// The repository is archived during a session. That burns no attempt and holds no agent. Nothing starts, one problem
// says what to do, and work continues by itself when the repository is back.
func TestArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		var off, first atomic.Bool
		w.Forge.Fail(func(_ context.Context, call string) error {
			if off.Load() && slices.Contains([]string{"maywork", "claim", "release", "comment", "merge", "close"}, call) {
				w.Forge.Shut(archived{}.Error())
				return archived{}
			}
			return nil
		})
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind == agents.KindIssue && first.CompareAndSwap(false, true) {
				s := reports(10*time.Second, agents.Failed, "push: 403")
				s.Do = func() { off.Store(true) }
				return s
			}
			return w.Work(job, n)
		}
		l := w.Start()
		time.Sleep(Size(time.Hour, 20*time.Minute))
		d := l.Document()
		if n := len(w.Exec.Runs()); n != 1 {
			t.Errorf("got %d sessions, want 1", n)
		}
		if r := d.Recent[0]; r.Outcome != agents.Cancelled || r.Reason != (archived{}).Error() {
			t.Errorf("got outcome %s: %s, want cancelled: %s", r.Outcome, r.Reason, archived{}.Error())
		}
		if q := d.Queue[0]; q.Code != threads.RepoOff || q.Why != (archived{}).Error() || q.NeedsPerson {
			t.Errorf("got code %s: %s, want repo-off: %s", q.Code, q.Why, archived{}.Error())
		}
		if n := strings.Count(strings.Join(d.Problems, "\n"), "archived"); n != 1 {
			t.Errorf("got %d problems that name it: %q, want 1", n, d.Problems)
		}
		for _, a := range d.Agents {
			if a.State == "held" {
				t.Errorf("%s is held: %s", a.Name, a.Why)
			}
		}
		off.Store(false)
		w.Forge.Shut("")
		time.Sleep(Size(4*time.Hour, time.Hour))
		l.Stop()
		w.Check()
		for _, r := range w.Exec.Runs() {
			if attempt := variable(r.Job, "DISINTO_ATTEMPT"); attempt != "1" {
				t.Errorf("got attempt %s of %s #%d, want 1", attempt, r.Job.Kind, r.Job.Number)
			}
		}
		if !w.Forge.Done() {
			t.Error("the work was not finished")
		}
	})
}
