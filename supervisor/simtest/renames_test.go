package simtest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// renamed returns a copy of the configuration in which dev-coder is dev-new and llama is box.
func renamed(cfg *threads.Config, from bool) *threads.Config {
	next := *cfg
	next.Agents, next.Threads = slices.Clone(cfg.Agents), slices.Clone(cfg.Threads)
	next.Agents[0].Name, next.Agents[0].Thread, next.Agents[1].Thread = "dev-new", "box", "box"
	next.Threads[1].Name, next.Threads[1].Agents = "box", []string{"dev-new", "dev-qwen"}
	if from {
		next.Agents[0].RenamedFrom, next.Threads[1].RenamedFrom = "dev-coder", "llama"
	}
	slices.SortFunc(next.Agents, func(a, b agents.Agent) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(next.Threads, func(a, b threads.Thread) int { return strings.Compare(a.Name, b.Name) })
	return &next
}

// shown returns an agent and a thread of the status.
func shown(l *Life, agent, thread string) (a control.AgentDocument, th control.ThreadDocument) {
	d := l.Document()
	for _, x := range d.Agents {
		if x.Name == agent {
			a = x
		}
	}
	for _, x := range d.Threads {
		if x.Name == thread {
			th = x
		}
	}
	return a, th
}

// An agent and a thread that a reload, or the file of the next start, renames keep their pause, what they used today
// and their history. Without renamed_from the reload says what it drops.
func TestRenames(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := New(t)
			w.Forge.Issue("work")
			w.Exec.Script = func(job agents.Job, n int) Script {
				s := w.Work(job, n)
				s.Outcome = agents.Outcome{Result: agents.Done, Usage: agents.Usage{InputTokens: 1000}}
				return s
			}
			l := w.Start()
			w.Until(6*time.Hour, "merged", w.Forge.Done)
			ask(l, "/v1/pause", `{"name":"dev-coder"}`)
			ask(l, "/v1/pause", `{"name":"llama"}`)
			oldAgent, oldThread := shown(l, "dev-coder", "llama")
			if oldAgent.Done == 0 || oldThread.Spent.Tokens == 0 || !oldAgent.Paused || !oldThread.Paused {
				t.Fatalf("got %+v and %+v, want work and pauses", oldAgent, oldThread)
			}
			was := w.Config
			w.Config = renamed(was, true)
			if restart {
				l.Stop()
				l = w.Start()
				time.Sleep(time.Minute)
			} else {
				l.Reload(w.Config, nil)
			}
			a, th := shown(l, "dev-new", "box")
			if a.Done != oldAgent.Done || a.Spent.Tokens != oldAgent.Spent.Tokens || !a.Paused || !th.Paused ||
				th.Spent.Tokens != oldThread.Spent.Tokens {
				t.Errorf("restart %t: got %+v and %+v, want what was before", restart, a, th)
			}
			w.Forge.Issue("more")
			time.Sleep(time.Hour)
			if n := len(w.Exec.Runs()); n != 2 {
				t.Errorf("got %d sessions, want no more beside the pauses", n)
			}
			if log := w.Log.String(); strings.Contains(log, "is gone, and with it") {
				t.Errorf("nothing is dropped, and the log says\n%s", log)
			}
			l.Reload(was, nil)
			for _, want := range []string{
				"[WARN]  agent dev-new is gone, and with it its pause and what it used today (1000 tokens, $0.00): if it has " +
					`another name now, renamed_from = "dev-new"`,
				"[WARN]  thread box is gone, and with it its pause and what it used today",
			} {
				if !strings.Contains(w.Log.String(), want) {
					t.Errorf("want %q in the log:\n%s", want, w.Log.String())
				}
			}
			l.Stop()
		})
	}
}
