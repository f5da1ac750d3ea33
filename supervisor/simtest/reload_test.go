package simtest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// slots returns a copy of the configuration with the given number of slots on the local thread.
func slots(cfg *threads.Config, n int) *threads.Config {
	next := *cfg
	next.Threads = slices.Clone(cfg.Threads)
	next.Threads[1].Slots, next.Threads[1].MaxSessions = n, n
	return &next
}

// A thread with two slots gets one. The session in the other slot continues, and is shown until it ends. Then the
// slot is gone, and one session runs at a time. With two slots again, two run.
func TestG5_ShrinkSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxUnreviewed = 100
		for range 8 {
			w.Forge.Issue("work")
		}
		l := w.Start()
		time.Sleep(time.Minute)
		if n := len(w.Exec.Runs()); n != 2 {
			t.Fatalf("got %d sessions, want 2", n)
		}
		l.Reload(slots(w.Config, 1), nil)
		time.Sleep(time.Minute)
		d := l.Document()
		if s := d.Threads[1].Slots; len(s) != 2 || len(s[1].Agents) != 1 {
			t.Errorf("while the second slot retires: got slots %+v, want 2, the second one busy", s)
		}
		time.Sleep(30 * time.Minute)
		if s := l.Document().Threads[1].Slots; len(s) != 1 {
			t.Errorf("got slots %+v, want one", s)
		}
		runs := w.Exec.Runs()
		for i, r := range runs {
			if r.Job.Kind != agents.KindIssue {
				continue
			}
			if i < 2 && r.Outcome.Result != agents.Done {
				t.Errorf("got outcome %+v of a session that ran at the reload, want done", r.Outcome)
			}
			if i >= 2 && variable(r.Job, "DISINTO_SLOT") != "0" {
				t.Errorf("a session started in the retired slot %s", variable(r.Job, "DISINTO_SLOT"))
			}
		}
		if n := len(runs); n < 5 {
			t.Errorf("got %d sessions in half an hour, want at least 5", n)
		}
		l.Reload(slots(w.Config, 2), nil)
		w.Until(2*time.Minute, "both slots work", func() bool { return busySlots(l) == 2 })
		w.Until(3*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

func withoutAgent(list []agents.Agent, name string) []agents.Agent {
	return slices.DeleteFunc(slices.Clone(list), func(a agents.Agent) bool { return a.Name == name })
}

func busySlots(l *Life) (n int) {
	for _, s := range l.Document().Threads[1].Slots {
		n += len(s.Agents)
	}
	return n
}

// An agent that is removed from the configuration finishes its session. Its own account releases the claim, it starts
// nothing more, and it is gone from the status. The other agent continues.
func TestRemovedAgentDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Forge.MaxUnreviewed = 100
		for range 6 {
			w.Forge.Issue("work")
		}
		l := w.Start()
		time.Sleep(time.Minute)
		next := *w.Config
		next.Agents = withoutAgent(w.Config.Agents, "dev-qwen")
		next.Threads = slices.Clone(w.Config.Threads)
		next.Threads[1].Agents = []string{"dev-coder"}
		l.Reload(&next, nil)
		time.Sleep(time.Minute)
		d := l.Document()
		if len(d.Sessions) != 2 || len(d.Agents) != 3 {
			t.Errorf("after the reload: got %d sessions and %d agents, want 2 and 3", len(d.Sessions), len(d.Agents))
		}
		time.Sleep(30 * time.Minute)
		var mine []Run
		for _, r := range w.Exec.Runs() {
			if r.Job.Agent == "dev-qwen" {
				mine = append(mine, r)
			}
		}
		if len(mine) != 1 || mine[0].Outcome.Result != agents.Done {
			t.Errorf("got sessions %+v of the removed agent, want one that is done", mine)
		}
		w.Until(3*time.Hour, "merged", w.Forge.Done)
		time.Sleep(time.Minute)
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("claims left: %v", left)
		}
		l.Stop()
		w.Check()
	})
}

// A start by a person, perhaps with another key in its environment, tries at once an agent whose model did not answer.
// A start after a crash does not, because the key is the same; but it does not bring back what a reload has ended.
func TestStartAfterAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		w.Exec.Script = func(agents.Job, int) Script {
			return Script{Takes: time.Second, Outcome: agents.Outcome{Result: agents.Unanswered, Reason: "invalid key"}}
		}
		l := w.Start()
		time.Sleep(3 * time.Hour) // the holds are an hour long
		for _, crashes := range []int{1, 0} {
			before := len(w.Exec.Runs())
			l.Kill()
			l.Bury()
			l = w.Start(func(l *Life) { l.Crashes = crashes })
			time.Sleep(5 * time.Second)
			if ran := len(w.Exec.Runs()) > before; ran != (crashes == 0) {
				t.Errorf("a start after %d crashes: sessions start: %v\n%s", crashes, ran, w.Log.String())
			}
		}
		ask(l, "/v1/pause", `{}`)
		l.Reload(w.Config, nil)
		before := len(w.Exec.Runs())
		l.Kill()
		l.Bury()
		l = w.Start(func(l *Life) { l.Crashes = 1 })
		time.Sleep(time.Second)
		ask(l, "/v1/resume", `{}`)
		time.Sleep(5 * time.Second)
		if len(w.Exec.Runs()) == before {
			t.Errorf("a crash after a reload brings the holds back:\n%s", w.Log.String())
		}
		l.Kill()
		l.Bury()
	})
}
