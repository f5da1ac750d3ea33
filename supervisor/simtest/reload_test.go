package simtest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// slots returns a copy of the configuration with that many slots in the local thread.
func slots(cfg *threads.Config, n int) *threads.Config {
	next := *cfg
	next.Threads = slices.Clone(cfg.Threads)
	next.Threads[1].Slots, next.Threads[1].MaxSessions = n, n
	return &next
}

// A thread of two slots gets one. The session in the other slot goes on and is shown until it ends. Then the slot is
// gone, and one session runs at a time; with two slots again there are two.
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
			t.Fatalf("%d sessions, want 2", n)
		}
		l.Reload(slots(w.Config, 1), nil)
		time.Sleep(time.Minute)
		d := l.Document()
		if s := d.Threads[1].Slots; len(s) != 2 || len(s[1].Agents) != 1 {
			t.Errorf("while the second slot retires it is shown as %+v", s)
		}
		time.Sleep(30 * time.Minute)
		if s := l.Document().Threads[1].Slots; len(s) != 1 {
			t.Errorf("the slot that retired is still there: %+v", s)
		}
		runs := w.Exec.Runs()
		for i, r := range runs {
			if r.Job.Kind != agents.KindIssue {
				continue
			}
			if i < 2 && r.Outcome.Result != agents.Done {
				t.Errorf("a session that ran at the reload: %+v", r.Outcome)
			}
			if i >= 2 && variable(r.Job, "DISINTO_SLOT") != "0" {
				t.Errorf("started in slot %s, which is retired", variable(r.Job, "DISINTO_SLOT"))
			}
		}
		if n := len(runs); n < 5 {
			t.Errorf("only %d sessions in half an hour", n)
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

// An agent that is removed from the configuration during its session finishes it, is released under its own account,
// starts nothing more, and is gone from the status. The other agent goes on.
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
			t.Errorf("after the reload: %d sessions, %d agents", len(d.Sessions), len(d.Agents))
		}
		time.Sleep(30 * time.Minute)
		var mine []Run
		for _, r := range w.Exec.Runs() {
			if r.Job.Agent == "dev-qwen" {
				mine = append(mine, r)
			}
		}
		if len(mine) != 1 || mine[0].Outcome.Result != agents.Done {
			t.Errorf("sessions of the agent that is gone: %+v", mine)
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
