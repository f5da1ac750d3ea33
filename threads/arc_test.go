package threads

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// The tests in this file are the acceptance tests of the work-stealing design that Rebalance follows, with its
// numbers. The tests about the transport between hosts are in the packages that read hosts.

// arc is the design's fleet of five agents, each with its own skill.
const arc = `
[threads.api]
backend = "anthropic"
agents = ["dev-arc", "dev-forge", "dev-iris", "dev-loom", "dev-spark"]
[agents.dev-arc]
skills = ["arc"]
[agents.dev-forge]
skills = ["site"]
[agents.dev-iris]
skills = ["research"]
[agents.dev-loom]
skills = ["research", "zest"]
[agents.dev-spark]
skills = ["stacks-js"]
[roles.dev]
command = ["dev"]
`

// arcFleet is this fleet, with each agent idle for an hour.
type arcFleet struct {
	*scriptWorld
	last int64
}

func newArcFleet(t *testing.T) *arcFleet {
	w := newScriptWorld(t)
	var err error
	w.s.Config, err = Decode("factory.toml", "[forge]\nrepos = [\"o/r\"]\n"+arc,
		func(string) (string, bool) { return "http://forge", true })
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range w.s.Config.Agents {
		Entry(w.s.History.Agents, a.Name).IdleSince = w.s.Now.Add(-time.Hour)
	}
	return &arcFleet{scriptWorld: w}
}

// pin files n issues for an agent, each a minute younger than the one before; the first gets number 1.
func (f *arcFleet) pin(n int, agent string, labels ...string) {
	for range n {
		f.last++
		words := append([]string{"backlog", "assigned=dev-" + agent, fmt.Sprintf("created=%dm", f.last-1000)}, labels...)
		f.issue(fmt.Sprint(f.last), words)
	}
}

// busy gives agents a session on another issue.
func (f *arcFleet) busy(names ...string) {
	for _, name := range names {
		f.session([]string{"dev-" + name, "api/0", "issue", fmt.Sprint(9000 + len(f.s.Sessions))})
	}
}

// moves returns "#7 iris>loom" for each move.
func (f *arcFleet) moves() string { return moveWords(Rebalance(f.s)) }

func moveWords(moves []Move) string {
	var list []string
	for _, m := range moves {
		list = append(list, fmt.Sprintf("%s %s>%s", m.Ref.Short(), strings.TrimPrefix(m.From, "dev-"),
			strings.TrimPrefix(m.To, "dev-")))
	}
	return strings.Join(list, ", ")
}

func (f *arcFleet) load(agent string) Load {
	b := Weigh(f.s)
	i := slices.IndexFunc(b.Loads, func(l Load) bool { return l.Agent == "dev-"+agent })
	return b.Loads[i]
}

func (f *arcFleet) want(want string) {
	f.Helper()
	if got := f.moves(); got != want {
		f.Errorf("moves %q, want %q", got, want)
	}
}

// stays checks the reason for an issue that does not move.
func (f *arcFleet) stays(n int64, code Code) {
	f.Helper()
	for _, s := range Weigh(f.s).Stays {
		if s.Ref.Number == n {
			if s.Reason == nil || s.Reason.Code != code {
				f.Errorf("#%d stays for %v, want %s", n, s.Reason, code)
			}
			return
		}
	}
	f.Errorf("#%d does not stay, want %s", n, code)
}

func TestArc(t *testing.T) {
	tests := []struct {
		name string
		run  func(*arcFleet)
	}{
		{"I1 a queue that is empty is idle, with nothing pending", func(f *arcFleet) {
			if l := f.load("loom"); l.State != LoadIdle || l.Pending != 0 || l.IdleSince.IsZero() {
				f.Errorf("got load %+v, want idle without pending issues", l)
			}
		}},
		{"I2 looking again changes nothing", func(f *arcFleet) {
			before := f.load("loom").IdleSince
			f.s.Now = f.s.Now.Add(time.Minute)
			if !f.load("loom").IdleSince.Equal(before) {
				f.Error("a second look changed IdleSince")
			}
		}},
		{"I3 a start ends idleness before anything runs", func(f *arcFleet) {
			f.session([]string{"dev-loom", "api/0", "issue", "9", "claiming"})
			if l := f.load("loom"); l.State != LoadActive || !l.IdleSince.IsZero() {
				f.Errorf("got load %+v, want active", l)
			}
		}},
		{"I4 a long session is no idleness", func(f *arcFleet) {
			f.session([]string{"dev-loom", "api/0", "issue", "9", "started=-299s"})
			if l := f.load("loom"); l.State != LoadActive {
				f.Errorf("got load %+v, want active", l)
			}
		}},
		{"I5 a gated agent is neither idle nor busy", func(f *arcFleet) {
			f.busy("arc", "forge", "spark")
			f.pin(9, "iris", "skill/research")
			f.s.History.Paused[Pause{Agent: "dev-iris"}] = PauseNote{PausedAt: f.s.Now}
			f.want("")
			if l := f.load("iris"); l.State != LoadGated || l.Why.Code != Paused || l.Pending != 9 {
				f.Errorf("got load %+v, want gated with 9 pending", l)
			}
			delete(f.s.History.Paused, Pause{Agent: "dev-iris"})
			Entry(f.s.History.Agents, "dev-loom").Hold(time.Time{}, "limit")
			f.want("")
		}},
		{"I5 a sick agent is neither idle nor busy", func(f *arcFleet) {
			f.busy("iris")
			f.pin(15, "iris", "skill/research")
			crew := Crew{Agent: "dev-iris"}
			f.s.History.Failing[crew] = &Streak{Failures: []Failure{{Item: "o/r#1"}}, Probes: 1}
			f.want("")
			if l := f.load("iris"); l.State != LoadSick || l.Why.Code != AgentFailing || l.Pending != 15 {
				f.Errorf("got load %+v, want sick with 15 pending", l)
			}
			f.s.History.Failing[crew].Probes = 0
			f.want("#15 iris>loom, #14 iris>loom, #13 iris>loom")
		}},
		{"I6 an agent with unknown idle time is neither idle nor busy", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research")
			Entry(f.s.History.Agents, "dev-loom").IdleSince = time.Time{}
			f.want("")
		}},
		{"I7 an idle time in the future does not count", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research")
			Entry(f.s.History.Agents, "dev-loom").IdleSince = f.s.Now.Add(time.Hour)
			f.want("")
		}},
		{"M1 idle for two minutes", func(f *arcFleet) {
			f.busy("iris")
			f.pin(6, "iris", "skill/research")
			for _, c := range []struct {
				idle time.Duration
				want string
			}{
				{119999 * time.Millisecond, ""}, {120 * time.Second, "#6 iris>loom"}, {120001 * time.Millisecond, "#6 iris>loom"},
			} {
				Entry(f.s.History.Agents, "dev-loom").IdleSince = f.s.Now.Add(-c.idle)
				f.want(c.want)
			}
		}},
		{"M2 short gaps do not count", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research")
			for range 10 { // a task of 15 s, a gap of 20 s
				Entry(f.s.History.Agents, "dev-loom").IdleSince = f.s.Now
				f.s.Now = f.s.Now.Add(20 * time.Second)
				f.want("")
				f.s.Now = f.s.Now.Add(15 * time.Second)
			}
		}},
		{"B1 five pending issues are few, six are many", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "skill/research")
			f.want("")
			f.pin(1, "iris", "skill/research")
			f.want("#6 iris>loom")
		}},
		{"B2 busy is decided again after each move", func(f *arcFleet) {
			f.busy("iris")
			f.pin(3, "iris", "priority/1", "skill/research")
			f.pin(3, "iris", "priority/8")
			f.want("#6 iris>arc")
			f.stays(5, NotBusy)
		}},
		{"B3 resting issues and running issues are not pending", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "skill/research")
			f.pin(1, "iris", "skill/research", "in-progress")
			f.pin(1, "iris", "skill/research", "blocked-by=1")
			f.pin(1, "iris", "skill/research")
			Entry(f.s.History.Items, Key{Kind: "issue", Ref: f.ref("8")}).CoolDown = f.s.Now.Add(time.Hour)
			if l := f.load("iris"); l.Pending != 5 {
				f.Errorf("got %d pending, want 5", l.Pending)
			}
			f.want("")
		}},
		{"B4 the longest queue first", func(f *arcFleet) {
			f.busy("arc", "forge", "iris", "spark")
			f.pin(6, "arc", "priority/9")
			f.pin(15, "spark", "priority/8")
			f.want("#21 spark>loom, #20 spark>loom, #19 spark>loom")
		}},
		{"P1 urgent work stays", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "priority/1", "skill/research")
			for p, moves := range map[int]bool{1: false, 2: false, 3: false, 4: false, 5: true, 10: true} {
				f.last = 5
				f.pin(1, "iris", fmt.Sprintf("priority/%d", p), "skill/research")
				if got := f.moves() != ""; got != moves {
					f.Errorf("P%d moves: got %v", p, got)
				}
			}
			f.last = 5
			f.pin(1, "iris", "priority/4", "skill/research")
			f.stays(6, TooUrgent)
		}},
		{"P2 the least urgent first, then the newest", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "priority/1", "skill/research")
			f.pin(1, "iris", "priority/5", "skill/research")
			f.pin(1, "iris", "priority/9", "skill/research")
			f.pin(1, "iris", "priority/7", "skill/research")
			f.want("#7 iris>loom, #8 iris>loom, #6 iris>loom")
			f.pin(1, "iris", "priority/9", "skill/research")
			f.want("#9 iris>loom, #7 iris>loom, #8 iris>loom")
		}},
		{"P3 a long queue is searched to its end", func(f *arcFleet) {
			f.busy("iris", "arc", "forge", "loom")
			f.pin(22, "iris", "priority/2")
			f.pin(3, "iris", "priority/8")
			f.want("#25 iris>spark, #24 iris>spark, #23 iris>spark")
		}},
		{"S1 an issue that moved never moves again", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research", "stolen")
			f.want("")
			f.stays(9, StolenBefore)
			Entry(f.s.History.Chains, f.ref("9")).SetAttempt(Attempt{Kind: "issue", Count: 2})
			f.want("")
		}},
		{"S2 a label that only resembles stolen does not count", func(f *arcFleet) {
			f.busy("iris")
			f.pin(6, "iris", "skill/research", "stolen/x", "not-stolen")
			f.want("#6 iris>loom")
		}},
		{"S4 three moves are three issues", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research")
			f.want("#9 iris>loom, #8 iris>loom, #7 iris>loom")
		}},
		{"D1 only an agent with the skill", func(f *arcFleet) {
			f.busy("arc", "forge", "spark", "loom")
			f.pin(6, "spark", "priority/6", "skill/stacks-js")
			f.want("")
			f.stays(6, NoSkill)
			f.pin(6, "loom", "priority/6", "skill/research")
			f.want("#12 loom>iris")
		}},
		{"D2 all skills, not one of them", func(f *arcFleet) {
			f.busy("loom")
			f.pin(6, "loom", "skill/research", "skill/zest")
			f.want("")
			f.stays(6, NoSkill)
		}},
		{"D3 one skill of the agent and one that no agent has", func(f *arcFleet) {
			f.busy("iris")
			f.pin(6, "iris", "skill/research", "skill/github")
			f.want("")
		}},
		{"X1 without skill labels only little urgent issues", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "priority/1")
			f.pin(1, "iris", "priority/8")
			f.want("#6 iris>arc")
			f.last = 5
			f.pin(1, "iris", "priority/7")
			f.want("")
			f.stays(6, NoSkillSaid)
			f.last = 5
			f.pin(1, "iris", "priority/8", "skill/cobol")
			f.want("")
		}},
		{"X2 a skill label without a skill", func(f *arcFleet) {
			f.busy("iris")
			f.pin(5, "iris", "priority/1")
			f.pin(1, "iris", "priority/9", "skill/")
			f.want("")
			f.stays(6, NoSkillSaid)
		}},
		{"A1 a running issue stays", func(f *arcFleet) {
			f.pin(7, "iris", "skill/research")
			f.session([]string{"dev-iris", "api/0", "issue", "7"})
			f.want("#6 iris>loom")
			Entry(f.s.History.Chains, f.ref("6")).Writers = []string{"dev-iris"}
			f.want("#5 iris>loom")
			f.stays(6, WorkBegun)
		}},
		{"C1 three for one agent", func(f *arcFleet) {
			f.busy("iris")
			f.pin(14, "iris", "skill/research")
			f.want("#14 iris>loom, #13 iris>loom, #12 iris>loom")
			f.stays(11, StealLimit)
			for n := 12; n <= 14; n++ {
				f.issue(fmt.Sprint(n), []string{"backlog", "closed"})
			}
			f.want("#11 iris>loom, #10 iris>loom, #9 iris>loom")
		}},
		{"C2 ten at a time", func(f *arcFleet) {
			f.busy("iris")
			f.pin(17, "iris", "priority/8")
			f.want("#17 iris>arc, #16 iris>arc, #15 iris>arc, #14 iris>forge, #13 iris>forge, #12 iris>forge, " +
				"#11 iris>loom, #10 iris>loom, #9 iris>loom, #8 iris>spark")
			f.stays(7, StealLimit)
		}},
		{"K1 no idle agent: no queue is searched", func(f *arcFleet) {
			f.busy("arc", "forge", "iris", "loom", "spark")
			f.pin(9, "iris", "skill/research")
			if b := Weigh(f.s); b.Paired() || len(b.Stays)+len(b.Moves) > 0 {
				f.Errorf("got balance %+v, want no stays and no moves", b)
			}
		}},
		{"K2 no busy agent: no queue is searched", func(f *arcFleet) {
			f.busy("iris")
			f.pin(4, "iris", "skill/research")
			if b := Weigh(f.s); b.Paired() || len(b.Stays)+len(b.Moves) > 0 {
				f.Errorf("got balance %+v, want no stays and no moves", b)
			}
		}},
		{"U1 every agent's queue is a queue", func(f *arcFleet) {
			f.busy("arc")
			f.pin(6, "arc", "priority/8")
			f.want("#6 arc>forge")
		}},
		{"U2 every issue that stays says why", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research", "skill/zest", "priority/3")
			b := Weigh(f.s)
			if !b.Paired() || len(b.Moves) > 0 || len(b.Stays) != 9 {
				f.Fatalf("got balance %+v, want 9 stays and no moves", b)
			}
			for _, s := range b.Stays {
				if s.Reason == nil || s.Reason.Text() == "" {
					f.Errorf("%s stays without a reason", s.Ref)
				}
			}
		}},
		{"off", func(f *arcFleet) {
			f.busy("iris")
			f.pin(9, "iris", "skill/research")
			f.s.Config.Stealing = false
			f.want("")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(newArcFleet(t)) })
	}
}

// TestArcG1 is the design's G1: the five safeguards together, on 10,000 random fleets.
func TestArcG1(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	f := newArcFleet(t)
	names := []string{"arc", "forge", "iris", "loom", "spark"}
	moved, fleets := 0, 1000 // of the 10,000 that make check plays
	if os.Getenv("DISINTO_STORMS") != "" {
		fleets = 10_000
	}
	for n := range fleets {
		f.last, f.s.Facts.Issues, f.s.Sessions = 0, nil, nil
		for _, name := range names {
			Entry(f.s.History.Agents, "dev-"+name).IdleSince = f.s.Now.Add(-time.Duration(rng.IntN(240)) * time.Second)
			if rng.IntN(3) > 0 {
				f.busy(name)
				f.fill(rng, name)
			}
		}
		before := f.s
		b := Weigh(f.s)
		moved += len(b.Moves)
		if why := f.broken(&before, &b); why != "" {
			t.Fatalf("fleet %d: %s: %s", n, why, moveWords(b.Moves))
		}
	}
	if moved < fleets/10 {
		t.Errorf("got %d moves, want more from these fleets", moved)
	}
}

// fill gives an agent up to a dozen issues. It creates them without a script, which would be slow for 10,000 fleets.
func (f *arcFleet) fill(rng *rand.Rand, agent string) {
	for range rng.IntN(13) {
		f.last++
		is := forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: f.last}, Created: f.s.Now.Add(time.Duration(rng.IntN(100)-200) * time.Minute),
			BlockersKnown: true, AsOf: f.s.Now, Assignees: []string{"dev-" + agent}, Labels: []string{"backlog"},
		}
		is.Labels = append(is.Labels, fmt.Sprintf("priority/%d", 1+rng.IntN(10)))
		if rng.IntN(2) == 0 {
			is.Labels = append(is.Labels, []string{"skill/research", "skill/zest", "skill/site"}[rng.IntN(3)])
		}
		if rng.IntN(5) == 0 {
			is.Labels = append(is.Labels, "stolen")
		}
		f.s.Facts.Issues = append(f.s.Facts.Issues, is)
	}
}

// broken returns the safeguard that a balance breaks; empty if it breaks none.
func (f *arcFleet) broken(s *Snapshot, b *Balance) string {
	left, got, seen := make(map[string]int), make(map[string]int), make(map[forge.Ref]bool)
	for _, l := range b.Loads {
		left[l.Agent] = l.Pending
	}
	for _, m := range b.Moves {
		is := s.Facts.Issue(m.Ref)
		left[m.From]--
		got[m.To]++
		switch {
		case seen[m.Ref] || is.Has("stolen"):
			return m.Ref.String() + " moves twice"
		case got[m.To] > 3:
			return m.To + " takes more than three"
		case left[m.From] < 5:
			return m.From + " is left with fewer than five"
		case s.Now.Sub(s.History.Agent(m.To).IdleSince) < 2*time.Minute:
			return m.To + " was not idle long enough"
		case slices.ContainsFunc(s.Sessions, func(x Session) bool { return x.Agent == m.To }):
			return m.To + " works"
		case forge.Priority(is.Labels) < 5:
			return m.Ref.String() + " is urgent"
		}
		seen[m.Ref] = true
	}
	if len(b.Moves) > 10 {
		return "more than ten"
	}
	return ""
}
