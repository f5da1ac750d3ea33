package simtest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Five issues wait in a repository whose setup fails at its base commit. No attempt is counted, the repository rests
// longer each time, and people are told once, after three times in a row. When setup succeeds again, work goes on.
func TestSetupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Repos = []threads.Repo{{Name: Repo, Setup: agents.Commands{
			Argv: [][]string{{"npm", "ci"}}, Timeout: time.Minute,
		}}}
		for range 5 {
			w.Forge.Issue("wants npm")
		}
		broken := true
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind != agents.KindIssue {
				return w.Work(job, n)
			}
			step := agents.Step{Phase: agents.PhaseSetup, Command: "npm ci", Exit: 1}
			if broken {
				return Script{Takes: 30 * time.Second, Outcome: agents.Outcome{
					Result: agents.SetupFailed, Reason: "npm ci, exit 1", Claimed: true, Steps: []agents.Step{step},
				}}
			}
			step.Exit = 0
			s := w.Work(job, n)
			s.Outcome.Steps = []agents.Step{step}
			return s
		}
		l := w.Start()
		told := func() int {
			return len(slices.DeleteFunc(l.Document().Problems, func(p string) bool {
				return !strings.HasPrefix(p, "setup of "+Repo+" fails: npm ci, exit 1, ")
			}))
		}
		time.Sleep(10 * time.Minute)
		if told() != 0 {
			t.Errorf("after two failures: got the problems %q", l.Document().Problems)
		}
		w.Until(time.Hour, "people are told", func() bool { return told() == 1 })
		time.Sleep(5 * time.Hour)
		d := l.Document()
		if n := len(w.Exec.Runs()); n > 5+2*10 || told() != 1 || d.Agents[0].Failed+d.Agents[1].Failed > 0 {
			t.Errorf("got %d sessions, the problems %q, agents %+v", n, d.Problems, d.Agents)
		}
		for _, q := range d.Queue {
			if q.Code != threads.SetupFailed || q.NeedsPerson {
				t.Errorf("#%d: got %s: %s", q.Number, q.Code, q.Why)
			}
		}
		for _, r := range w.Exec.Runs() {
			if variable(r.Job, "DISINTO_ATTEMPT") != "1" {
				t.Errorf("#%d: attempt %s", r.Job.Number, variable(r.Job, "DISINTO_ATTEMPT"))
			}
		}
		broken = false
		w.Until(4*time.Hour, "merged", w.Forge.Done)
		if told() != 0 {
			t.Errorf("after a success: got the problems %q", l.Document().Problems)
		}
		l.Stop()
		w.Check()
	})
}

// A program can blame a setup only where there is one, and the status says what a session does beside its agent.
func TestSetupWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		since := time.Now()
		w.Exec.Script = func(job agents.Job, _ int) Script {
			job.Doing(agents.Doing{Phase: agents.PhaseSetup, Since: since})
			return Script{Takes: time.Minute, Outcome: agents.Outcome{
				Result: agents.SetupFailed, Reason: "so it says", Claimed: true,
			}}
		}
		l := w.Start()
		w.Until(time.Minute, "it runs", func() bool {
			d := l.Document()
			return len(d.Sessions) == 1 && d.Sessions[0].Doing == agents.Doing{Phase: agents.PhaseSetup, Since: since}
		})
		w.Until(5*time.Minute, "it has failed", func() bool { return len(l.Document().Recent) > 0 })
		if r := l.Document().Recent[0]; r.Outcome != agents.Failed || !strings.Contains(r.Reason, "without a setup") {
			t.Errorf("got %+v", r)
		}
		l.Stop()
	})
}

// A repository whose base commit cannot be verified is one problem, until the commands pass.
func TestVerifyBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Repos = []threads.Repo{{Name: Repo, Verify: agents.Commands{
			Argv: [][]string{{"go", "test"}}, Timeout: time.Minute,
		}}}
		for range 3 {
			w.Forge.Issue("wants tests")
		}
		verdict := agents.VerifyBroken
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindIssue {
				s.Outcome.Verified = &agents.Verified{Verdict: verdict, Words: "go test, exit 1", Base: "ba5eba5eba5e"}
			}
			return s
		}
		l := w.Start()
		const line = "verify-broken: verify of " + Repo + " fails at its base commit ba5eba5eba: go test, exit 1; work is " +
			"handed in all the same"
		w.Until(time.Hour, "people are told", func() bool { return slices.Contains(l.Document().Problems, line) })
		verdict = agents.GreenFirst
		w.Forge.Issue("later")
		w.Until(4*time.Hour, "merged", w.Forge.Done)
		if got := l.Document().Problems; slices.Contains(got, line) {
			t.Errorf("got the problems %q", got)
		}
		l.Stop()
		w.Check()
	})
}
