package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// laddered gives dev-qwen a ladder with dev-opus, an agent on the API.
func laddered(w *World) {
	for i := range w.Config.Threads {
		w.Config.Threads[i].Fallback = true
		if t := &w.Config.Threads[i]; t.Name == "anthropic" {
			t.Agents, t.MaxSessions = append([]string{"dev-opus"}, t.Agents...), 3
		}
	}
	for i := range w.Config.Agents {
		if w.Config.Agents[i].Name == "dev-qwen" {
			w.Config.Agents[i].Escalate, w.Config.Agents[i].EscalateAfter = []string{"dev-opus"}, 2
		}
	}
	opus := w.Config.Agents[0]
	opus.Name, opus.Login, opus.Thread, opus.Token = "dev-opus", "dev-opus", "anthropic", "token-of-dev-opus"
	w.Forge.Tokens["token-of-dev-opus"] = "dev-opus"
	w.Config.Agents = slices.Insert(w.Config.Agents, 1, opus)
}

// An issue that fails twice goes to the next rung, even if the supervisor is killed in between. The rung's session
// gets the earlier attempts.
func TestLadder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		laddered(w)
		issue := w.Forge.Issue("hard")
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Assignees = []string{"dev-qwen"} })
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Kind == agents.KindIssue && job.Agent != "dev-opus" {
				return Script{Outcome: agents.Outcome{Result: agents.Failed, Reason: "cannot do " + job.Agent, ExitCode: 1}}
			}
			return w.Work(job, n)
		}
		l := w.Start()
		time.Sleep(time.Minute)
		l.Kill()
		l.Bury()
		l = w.Start()
		w.Until(time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		if len(runs) != 3 || runs[0].Job.Agent != "dev-qwen" || runs[2].Job.Agent != "dev-opus" {
			t.Fatalf("got %d sessions on the issue: %+v, want 3, the first of dev-qwen and the last of dev-opus", len(runs),
				runs)
		}
		tried := agents.ParseTried(variable(runs[2].Job, "DISINTO_TRIED"))
		if len(tried) != 2 || tried[0].Reason != "cannot do dev-qwen" || tried[1].Outcome != agents.Failed {
			t.Errorf("got DISINTO_TRIED %+v for the rung, want 2 failed attempts of dev-qwen", tried)
		}
		for _, r := range runs[:2] {
			if text := variable(r.Job, "DISINTO_TRIED"); text != "" {
				t.Errorf("got DISINTO_TRIED for %s, below the ladder: %s", r.Job.Agent, text)
			}
		}
	})
}

// An issue that is assigned to an agent of a parked thread is reassigned once to a rung of its ladder, even if the
// forge refuses at first.
func TestFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		laddered(w)
		var pinned []int64
		for i := range 2 {
			n := w.Forge.Issue(fmt.Sprintf("pinned %d", i))
			w.Forge.Edit(n, func(is *forge.Issue) { is.Assignees = []string{"dev-qwen"} })
			pinned = append(pinned, n)
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			if job.Agent == "dev-qwen" {
				return Script{Outcome: agents.Outcome{
					Result: agents.Limited, Reason: "usage limit", RetryAt: time.Now().Add(10 * time.Hour), Claimed: true,
				}}
			}
			return w.Work(job, n)
		}
		began := time.Now()
		l := w.Start()
		w.Until(3*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
		for _, n := range pinned {
			var who []string
			for _, r := range w.Exec.RunsOf(agents.KindIssue, n) {
				who = append(who, r.Job.Agent)
			}
			if last := who[len(who)-1]; last != "dev-opus" || strings.Count(strings.Join(who, " "), "dev-opus") != 1 {
				t.Errorf("#%d: got sessions of %v, want the last one by dev-opus", n, who)
			}
		}
		if took := time.Since(began); took > 3*time.Hour {
			t.Errorf("it took %s, want at most 3h, though the thread is parked for 10h", took)
		}
	})
}
