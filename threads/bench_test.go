package threads

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// BenchmarkDecide measures one decision for an oversized factory: 10,000 items, 100 agents, 20 threads. "free" has no
// session yet; "full" has every slot taken, as in most ticks.
func BenchmarkDecide(b *testing.B) {
	for _, full := range []bool{false, true} {
		name := map[bool]string{false: "free", true: "full"}[full]
		b.Run(name, func(b *testing.B) {
			s := largeFactory(full)
			b.ReportAllocs()
			for b.Loop() {
				Decide(s)
			}
		})
	}
}

// BenchmarkDecideKept is "free" with every sticky slot kept for an agent whose pull request is in review.
func BenchmarkDecideKept(b *testing.B) {
	s := largeFactory(false)
	s.History = NewHistory()
	for i := range s.Config.Threads {
		t := &s.Config.Threads[i]
		if t.Overlap {
			continue
		}
		t.Hold = 4 * time.Minute
		Entry(s.History.Threads, t.Name).Returns = Returns{N: 5, Gap: 10, Back: 1}
		for slot := range t.Slots {
			p := &s.Facts.Pulls[i*4+slot]
			p.Author = t.Agents[slot]
			s.History.Slots[SlotKey{t.Name, slot}] = Warm{Agent: t.Agents[slot], Chain: p.Ref, Left: s.Now.Add(-time.Second)}
		}
	}
	v := newView(&s)
	kept := 0
	for i := range v.threads {
		kept += len(v.threads[i].kept)
	}
	if kept != 40 {
		b.Fatalf("got %d kept slots, want 40", kept)
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s)
	}
}

// BenchmarkBeside finds the free slots after the plans of the two factories of BenchmarkDecide, and of a third in
// which nothing starts: in "held" the review has no room, and every second thread has no agent with the skill.
func BenchmarkBeside(b *testing.B) {
	free, full, held := largeFactory(false), largeFactory(true), largeFactory(false)
	held.Config.Forge.MaxUnreviewed = 1
	for i := range held.Config.Agents {
		if i/5%2 == 0 {
			held.Config.Agents[i].Skills = nil
		}
	}
	for i := range held.Facts.Issues {
		held.Facts.Issues[i].Labels = []string{"backlog", "skill/go"}
	}
	for _, c := range []struct {
		name string
		s    Snapshot
	}{{"free", free}, {"full", full}, {"held", held}} {
		b.Run(c.name, func(b *testing.B) {
			plan := Decide(c.s)
			b.ReportAllocs()
			for b.Loop() {
				Beside(&c.s, &plan)
			}
		})
	}
}

func largeFactory(full bool) Snapshot {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cfg := &Config{Forge: Forge{
		Repos: []string{"o/r"}, MergeAuto: true, MaxUnreviewed: 1000, MaxReviewRounds: 5,
		MaxCIFixes: 3, MaxReviewsHour: 6, MaxSessionsDay: 100,
	}}
	cfg.Roles = []agents.Role{
		{Name: "dev", On: agents.OnIssue, Command: []string{"dev"}},
		{Name: "review", On: agents.OnReview, Command: []string{"review"}},
	}
	for i := range 20 {
		t := Thread{Name: fmt.Sprintf("t%02d", i), Backend: Local, Slots: 4, MaxSessions: 4}
		if i%2 == 0 {
			t.Backend, t.Overlap, t.MaxSessions = API, true, 5
		}
		for j := range 5 {
			role := "dev"
			if i%2 == 0 && j == 0 {
				role = "review"
			}
			a := agents.Agent{
				Name: fmt.Sprintf("%s-%02d-%d", role, i, j), Roles: []string{role}, Thread: t.Name, Token: "t",
				Skills: []string{"go"},
			}
			a.Login = a.Name
			t.Agents = append(t.Agents, a.Name)
			cfg.Agents = append(cfg.Agents, a)
		}
		cfg.Threads = append(cfg.Threads, t)
	}
	s := Snapshot{Now: now, Config: cfg}
	s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: now}}
	for n := int64(1); n <= 9900; n++ {
		is := forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: n}, Title: "do it", Labels: []string{"backlog"},
			Created: now.Add(-time.Duration(n) * time.Minute), BlockersKnown: true, AsOf: now,
		}
		if n%7 == 0 {
			is.Labels = []string{"backlog", fmt.Sprintf("priority/%d", n%10+1), "skill/go"}
		}
		if n%3 == 0 {
			is.Blockers = []forge.Blocker{{Ref: forge.Ref{Repo: "o/r", Number: n - 1}, State: forge.BlockerOpen}}
		}
		s.Facts.Issues = append(s.Facts.Issues, is)
	}
	for n := int64(10001); n <= 10100; n++ {
		s.Facts.Pulls = append(s.Facts.Pulls, forge.Pull{
			Ref: forge.Ref{Repo: "o/r", Number: n}, Title: "done", Author: cfg.Agents[n%100].Login, HeadSHA: "aa",
			Created: now.Add(-time.Duration(n) * time.Second), Mergeable: forge.MergeClean, AsOf: now,
		})
	}
	if full {
		for _, a := range cfg.Agents {
			t := cfg.Thread(a.Thread)
			slot := len(s.Sessions) % 5
			if slot >= t.Slots && !t.Overlap {
				continue
			}
			s.Sessions = append(s.Sessions, Session{
				RunID: a.Name, Thread: a.Thread, Slot: slot % t.Slots, Agent: a.Name, Role: a.Roles[0], State: Running,
				Item: Item{Kind: agents.KindIssue, Ref: forge.Ref{Repo: "x/y", Number: int64(len(s.Sessions) + 1)}},
			})
		}
	}
	return s
}

// BenchmarkRebalance weighs 10,000 pinned issues, half of them pinned to one agent.
func BenchmarkRebalance(b *testing.B) {
	s := largeFactory(false)
	s.Config.Stealing = true
	s.History = NewHistory()
	for i := range s.Config.Agents {
		Entry(s.History.Agents, s.Config.Agents[i].Name).IdleSince = s.Now.Add(-time.Hour)
	}
	for i := range s.Facts.Issues {
		who := s.Config.Agents[1]
		if i%2 == 0 {
			who = s.Config.Agents[i%len(s.Config.Agents)]
		}
		is := &s.Facts.Issues[i]
		is.Assignees, is.Labels = []string{who.Login}, []string{"backlog", "priority/8"}
	}
	if got := Weigh(s); len(got.Moves) != 10 {
		b.Fatalf("got %d moves, want 10", len(got.Moves))
	}
	b.ReportAllocs()
	for b.Loop() {
		Rebalance(s)
	}
}

// BenchmarkDecideLadder is "free" with every issue on the first rung of its writer's ladder.
func BenchmarkDecideLadder(b *testing.B) {
	s := largeFactory(false)
	s.History = NewHistory()
	var writers []string
	for i := range s.Config.Agents {
		if a := &s.Config.Agents[i]; a.Roles[0] == "dev" {
			writers = append(writers, a.Name)
		}
	}
	s.Config.Roles[0].Escalate, s.Config.Roles[0].EscalateAfter = writers[len(writers)-20:], 2
	for i := range s.Facts.Issues {
		c := Entry(s.History.Chains, s.Facts.Issues[i].Ref)
		c.Writers, c.Failures = []string{writers[i%40]}, 2
	}
	if p := Decide(s); len(p.Starts) == 0 || !slices.ContainsFunc(p.Starts, func(st Start) bool { return st.Rung == 1 }) {
		b.Fatalf("got %d starts, none of them on a rung", len(p.Starts))
	}
	b.ReportAllocs()
	for b.Loop() {
		Decide(s)
	}
}
