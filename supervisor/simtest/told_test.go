package simtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// A session that fails without a reason is logged with its last line of output and the path of its log. A session
// with a reason is logged with that. Both survive a restart.
func TestFailureIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("mute")
		w.Forge.Issue("says why")
		w.Exec.Script = func(job agents.Job, _ int) Script {
			out := agents.Outcome{
				Result: agents.Failed, Reason: "work: exit status 22", ExitCode: 22,
				Tail: "cloning\ncurl: (22) 404 for http://x:token-of-dev-qwen@forge\n\n",
			}
			if job.Number == 2 {
				out.Claimed, out.Reason = true, "the tests are red"
			}
			return Script{Takes: time.Minute, Outcome: out}
		}
		l := w.Start()
		time.Sleep(90 * time.Second)
		check := func(d *control.Document, dir string) {
			t.Helper()
			if len(d.Recent) != 2 {
				t.Fatalf("got %d ended sessions, want 2", len(d.Recent))
			}
			for _, r := range d.Recent {
				want := "curl: (22) 404 for http://x:[secret]@forge"
				if r.Number == 2 {
					want = ""
				}
				if r.LastLine != want || r.Log != fmt.Sprintf("%s/logs/%s/%s.log", dir, r.Agent, r.RunID) {
					t.Errorf("#%d: got last line %q and log %q, want %q and the agent's folder", r.Number, r.LastLine, r.Log, want)
				}
			}
		}
		d := l.Document()
		check(d, w.Dir)
		for _, r := range d.Recent {
			want := fmt.Sprintf("[%s #1] implementation failed (attempt 1 of 5): work: exit status 22: "+
				"curl: (22) 404 for http://x:[secret]@forge (%s)", r.Agent, r.Log)
			if r.Number == 2 {
				want = fmt.Sprintf("[%s #2] implementation failed (attempt 1 of 5): the tests are red (%s)", r.Agent, r.Log)
			}
			if !strings.Contains(w.Log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, w.Log.String())
			}
		}
		l.Kill()
		l.Bury()
		l = w.Start()
		time.Sleep(time.Second)
		check(l.Document(), w.Dir)
		l.Stop()
	})
}

// If the machine has no room for another process, no attempt is burnt and no agent counts as failed. The thread
// starts nothing for a minute, and scheduled work stays due.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		began := time.Now()
		full := func() bool { return time.Since(began) < 30*time.Minute }
		l := w.Start(func(l *Life) { l.Executor = &crowded{l.Executor, full} })
		time.Sleep(20 * time.Minute)
		d := l.Document()
		if len(w.Exec.Runs()) != 0 || d.Threads[1].ParkedWhy != "no room for another process" || d.Agents[0].Failed != 0 {
			t.Errorf("without room: got %d sessions, thread %+v, agent %+v, want none, parked for lack of room, and no failure",
				len(w.Exec.Runs()), d.Threads[1], d.Agents[0])
		}
		if left := w.Forge.Claimed(); len(left) > 0 && len(d.Sessions) == 0 {
			t.Errorf("claims left: %v", left)
		}
		w.Until(time.Hour, "merged", w.Forge.Done)
		for _, want := range []string{"[WARN]  thread llama is backing off until ", "[INFO]  thread llama is free again"} {
			if !strings.Contains(w.Log.String(), want) {
				t.Errorf("want %q in the log:\n%s", want, w.Log.String())
			}
		}
		runs := w.Exec.RunsOf(agents.KindIssue, 1)
		if len(runs) != 1 || variable(runs[0].Job, "DISINTO_ATTEMPT") != "1" || runs[0].Begin.Sub(began) > 32*time.Minute {
			t.Errorf("with room again: got sessions %+v, want one at attempt 1 within 32m", runs)
		}
		l.Stop()
		w.Check()
	})
}

// crowded is an executor on a machine without room for another process.
type crowded struct {
	supervisor.Executor
	full func() bool
}

func (c *crowded) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if c.full() {
		return agents.Outcome{Result: agents.NoRoom, Reason: "no room for another process", ExitCode: 1}
	}
	return c.Executor.Run(ctx, job, started)
}

// One of two repositories is gone, so every scan has an error. Work in the other one continues: our claim without a
// session is released, and the issue is done.
func TestOneRepositoryMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gone = "johba/gone"
		w := New(t)
		w.Config.Forge.Repos = []string{gone, Repo}
		issue := w.Forge.Issue("claimed by us, in a forgotten life")
		w.Forge.Edit(issue, func(is *forge.Issue) {
			is.Labels, is.Assignees = with(is.Labels, forge.LabelInProgress), []string{"dev-qwen"}
		})
		l := w.Start(func(l *Life) { l.Forge = &halfForge{l.Forge, gone} })
		w.Until(2*time.Minute, "the claim is released and the issue starts", func() bool {
			return len(w.Exec.RunsOf(agents.KindIssue, issue)) == 1
		})
		if d := l.Document(); d.Forge.OK || !strings.Contains(d.Forge.Error, gone) {
			t.Errorf("got forge %+v, want an error that names %s", d.Forge, gone)
		}
		w.Until(time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// halfForge lacks one of the repositories.
type halfForge struct {
	supervisor.Forge
	gone string
}

func (f *halfForge) Scan(ctx context.Context) (forge.Facts, error) {
	facts, err := f.Forge.Scan(ctx)
	if err == nil {
		facts.Repos = append([]forge.Repo{{Name: f.gone}}, facts.Repos...)
		err = fmt.Errorf("cannot scan: %s: %w", f.gone, forge.ErrNotFound)
	}
	return facts, err
}
