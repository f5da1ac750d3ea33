package advice

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// loadOf is a day of evenly spaced issues. Each is written, sent back, and written again.
func loadOf(issues int, writing, review time.Duration, skills ...string) sim.Load {
	var load sim.Load
	for i := range issues {
		load = append(load, sim.Work{
			At: day * time.Duration(i) / time.Duration(issues), Priority: 5, Skills: skills,
			Sessions: []time.Duration{writing, writing}, Review: review,
		})
	}
	return load
}

// fleet is a factory with a number of writers, who share the slots of a local server, and a number of reviewers.
func fleet(writers, slots, reviewers int) *threads.Config {
	c := sim.Fleet(writers, slots, reviewers)
	for i := range c.Threads {
		t := &c.Threads[i]
		t.Interval, t.IdleInterval, t.BreakerInterval = 10*time.Minute, 10*time.Minute, time.Hour
	}
	return c
}

func question(c *threads.Config, load sim.Load) *Question {
	trial := sim.Trial{Config: c, Load: load, Model: sim.Learn(sim.Journal{}), Seed: 1}
	return &Question{Trial: trial, Length: day, enough: 1}
}

// Each factory lacks one thing. Adding that must help most, and adding something that it has enough of must make no
// sure difference.
func TestAdvise(t *testing.T) {
	tests := []struct {
		name      string
		config    *threads.Config
		load      sim.Load
		want, not string // a change that helps, and one that does not
	}{
		{
			"a slot", fleet(3, 1, 2), loadOf(16, 80*time.Minute, 2*time.Minute),
			"one more slot on write", "one more agent on review (review)",
		},
		{
			"a reviewer", fleet(3, 2, 1), loadOf(16, 20*time.Minute, 80*time.Minute),
			"one more agent on review (review)", "one more slot on write",
		},
		{
			"nothing", fleet(3, 2, 2), loadOf(6, time.Minute, time.Minute),
			"", "one more slot on write",
		},
		{
			"an agent", fleet(1, 1, 2), loadOf(16, 80*time.Minute, 2*time.Minute),
			"one more slot on write, and an agent for it (dev)", `hold = "2m" on write`,
		},
		{
			"a skill", fleet(3, 3, 2), loadOf(16, 80*time.Minute, 2*time.Minute, "own-0"),
			"skill own-0 for every agent that writes", "skill own-1 for every agent that writes",
		},
		{
			"a dollar", poor(fleet(3, 0, 2)), loadOf(40, 5*time.Minute, time.Minute),
			"a dollar more a day for write", "max_unreviewed = 6 in place of 3",
		},
	}
	if os.Getenv("DISINTO_STORMS") == "" {
		t.Skip("thousands of trials: needs DISINTO_STORMS=1")
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := json.Marshal(tt.config)
			a := question(tt.config, tt.load).Advise()
			line := func(what string) *Line {
				at := slices.IndexFunc(a.More, func(l Line) bool { return l.What == what })
				if at < 0 {
					t.Fatalf("%q was not tried: %+v", what, a.More)
				}
				return &a.More[at]
			}
			if l := line(tt.not); l.Done.Sure() {
				t.Errorf("%q makes a sure difference: %+v", tt.not, l)
			}
			first := a.More[0].Done.certain()
			if tt.want == "" {
				if first > 0 {
					t.Errorf("%+v helps, want no change that does", a.More[0])
				}
			} else if l := line(tt.want); l.Done.Low <= 0 || l.Kind != Dollar && l.Done.certain() < first {
				t.Errorf("%+v helps most, want %+v", a.More[0], l)
			}
			if after, _ := json.Marshal(tt.config); string(after) != string(before) {
				t.Error("Advise changed the configuration of the question")
			}
		})
	}
}

// poor limits the thread of the writers to four dollars a day.
func poor(c *threads.Config) *threads.Config {
	c.Thread("write").Budget = agents.Budget{USD: 4}
	return c
}

// A week without the only reviewer is the worst, and a second reviewer helps most. The same question has the same
// answer.
func TestBreak(t *testing.T) {
	if os.Getenv("DISINTO_STORMS") == "" {
		t.Skip("hundreds of trials: needs DISINTO_STORMS=1")
	}
	q := question(fleet(2, 2, 1), loadOf(8, 15*time.Minute, 5*time.Minute))
	q.Length = 2 * day
	b := q.Break()
	if b.Worst == nil || !strings.Contains(b.Worst.What, "review-0 away all the time") {
		t.Fatalf("got the worst week %+v, want review-0 away all the time", b.Worst)
	}
	if got := b.Helps[0]; got.What != "one more agent on review (review)" || got.Done.Low < 3 {
		t.Errorf("got the best help %+v, want one more reviewer and at least 3 more issues done", got)
	}
	for i := 1; i < len(b.Harms); i++ {
		if b.Harms[i].Undone.certain() > b.Harms[i-1].Undone.certain() {
			t.Errorf("%s hurts more than %s", b.Harms[i].What, b.Harms[i-1].What)
		}
	}
	if b.Week.Undone.Mean < b.Plain.Undone.Mean+3 {
		t.Errorf("got %g undone issues in the worst week, want 3 more than the plain week's %g", b.Week.Undone.Mean,
			b.Plain.Undone.Mean)
	}
	q.Play = func(trials []sim.Trial) []sim.Report { // plays them in reverse order
		reports := make([]sim.Report, len(trials))
		for i := range trials {
			reports[len(trials)-1-i] = trials[len(trials)-1-i].Run()
		}
		return reports
	}
	if diff := cmp.Diff(b, q.Break()); diff != "" {
		t.Errorf("the answer depends on the order of the plays (-want +got):\n%s", diff)
	}
}

// guessed stands in for trials: it estimates the issues done in a day from slots and reviewers, less the outages.
func guessed(trials []sim.Trial) []sim.Report {
	reports := make([]sim.Report, len(trials))
	for i := range trials {
		t := &trials[i]
		write, reviewers := float64(t.Config.Thread("write").MaxSessions), 0.
		for _, a := range t.Config.Agents {
			if slices.Contains(a.Roles, "review") {
				reviewers++
			}
		}
		for _, o := range t.Outages {
			switch lost := (o.Until - o.From).Hours() / day.Hours(); {
			case o.OneIn > 1 && o.Thread == "write":
				write *= 2. / 3
			case strings.HasPrefix(o.Agent, "review"):
				reviewers -= lost
			case o.Thread == "write":
				write *= 1 - lost
			}
		}
		done := min(len(t.Load), int(4*write+float64(t.Seed%2)), int(20*reviewers))
		reports[i] = sim.Report{Issues: len(t.Load), Done: done, Open: time.Duration(len(t.Load)-done) * time.Hour}
	}
	return reports
}

// The ranks of harms and changes, and a pair that is the worst, with estimates in place of trials.
func TestRanks(t *testing.T) {
	q := question(fleet(4, 3, 1), loadOf(16, time.Minute, time.Minute))
	q.Play = guessed
	b := q.Break()
	if want := "40 issues at once on Monday, and review-0 away all the time"; b.Worst.What != want {
		t.Errorf("%q hurts most, want %q", b.Worst.What, want)
	}
	if b.Worst.Undone.Low < 40 || b.Week.Done.Mean != 0 || b.Plain.Done.Mean != 12.5 {
		t.Errorf("got worst %+v, week %+v, plain %+v, want 40 more undone, none done, and 12.5 done", b.Worst, b.Week,
			b.Plain)
	}
	var harms []string
	for _, h := range b.Harms[:4] {
		harms = append(harms, h.What)
	}
	want := []string{
		"40 issues at once on Monday", "review-0 away all the time", "the server of write gone for a day",
		"every third session on write fails",
	}
	if diff := cmp.Diff(want, harms); diff != "" {
		t.Errorf("the worst harms (-want +got):\n%s", diff)
	}
	got := b.Helps[0]
	if got.What != "one more agent on review (review)" || got.Done.Mean != 12.5 || b.Helps[1].Done.Sure() {
		t.Errorf("the worst week: got help %+v, then %+v, want one more reviewer, then no sure one", got, b.Helps[1])
	}
	a := q.Advise()
	if got := a.More[0]; got.What != "one more slot on write" || got.Done.Mean != 3.5 || a.More[1].Done.Sure() {
		t.Errorf("Advise: got more %+v, then %+v, want one more slot with 3.5 more done, then no sure one", got, a.More[1])
	}
	if got := a.Less[0]; got.What != "one slot less on write" || got.Done.Mean != -4 || a.Less[1].Done.Sure() {
		t.Errorf("Advise: got less %+v, then %+v, want one slot less with 4 fewer done, then no sure one", got, a.Less[1])
	}
	q.Play = func(trials []sim.Trial) []sim.Report { return make([]sim.Report, len(trials)) }
	if b := q.Break(); b.Worst != nil || len(b.Helps) > 0 || len(b.Harms) == 0 {
		t.Errorf("equal weeks: got %+v, want harms, but no worst one and no help", b)
	}
}

// A variant is played again only while that can change the answer.
func TestSettled(t *testing.T) {
	q := question(fleet(4, 3, 1), loadOf(16, time.Minute, time.Minute))
	q.enough = 0
	plain := 0
	q.Play = func(trials []sim.Trial) []sim.Report {
		for i := range trials {
			if len(trials[i].Outages) == 0 {
				plain++
			}
		}
		return guessed(trials)
	}
	harms := []harm{
		q.outage("sure", day, sim.Outage{Thread: "write"}), q.outage("nothing", day, sim.Outage{Agent: "dev-0"}),
	}
	s := q.search(2)
	for _, h := range harms {
		if one := s.run([]variant{{q.Trial.Config, []harm{h}}}, s.plain)[0]; len(one) != firstPlays {
			t.Errorf("%s was played %d times, want %d", h.name, len(one), firstPlays)
		}
	}
	if len(s.plain) != mostPlays || plain != mostPlays {
		t.Errorf("played %d times as it is, with %d reports, want %d", plain, len(s.plain), mostPlays)
	}
	base := make([]sim.Report, mostPlays)
	s.Play = func(trials []sim.Trial) []sim.Report {
		reports := make([]sim.Report, len(trials))
		for i := range reports {
			reports[i].Done = int(trials[i].Seed % 3)
		}
		return reports
	}
	if one := s.run([]variant{{config: q.Trial.Config}}, base)[0]; len(one) != mostPlays {
		t.Errorf("what is not sure was played %d times, want %d", len(one), mostPlays)
	}
}

// Sessions cost time, not issues: where scheduled roles run all the time, fewer plays are made.
func TestPlays(t *testing.T) {
	q := question(fleet(2, 2, 1), loadOf(4, time.Minute, time.Minute))
	q.enough = 0
	for _, tt := range []struct{ variants, sessions, want int }{
		{20, 800, mostPlays}, {20, 4500, leastPlays}, {30, 1000, 8}, {0, 0, mostPlays},
	} {
		if got := q.plays(tt.variants, tt.sessions); got != tt.want {
			t.Errorf("%+v: %d plays", tt, got)
		}
	}
}

// An agent is away for a week, and for a day; in a factory that is played for a day only once.
func TestAway(t *testing.T) {
	q := question(fleet(2, 2, 1), loadOf(8, time.Minute, time.Minute))
	for length, want := range map[time.Duration]string{
		day: "all the time", week: "for a week, for a day",
	} {
		q.Length = length
		var got []string
		for _, h := range q.harms() {
			if rest, ok := strings.CutPrefix(h.name, "review-0 away "); ok {
				got = append(got, rest)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: review-0 is away %q, want %s", length, got, want)
		}
	}
	a, b := harm{name: "a week", agent: "x"}, harm{name: "a day", agent: "x"}
	list := []tried{{variant: variant{harms: []harm{a}}}, {variant: variant{harms: []harm{b}}}}
	if got := differing(append(list, tried{variant: variant{harms: []harm{{}}}})); len(got) != 2 {
		t.Errorf("%d weeks differ, want 2", len(got))
	}
}

// Break and Advise return nil when Play ends the search, at whichever call.
func TestStop(t *testing.T) {
	q := question(fleet(2, 2, 1), loadOf(4, 15*time.Minute, 5*time.Minute))
	for calls := range 3 {
		n := 0
		q.Play = func(trials []sim.Trial) []sim.Report {
			if n++; n > calls {
				return nil
			}
			reports := make([]sim.Report, len(trials))
			for i := range reports {
				reports[i] = sim.Report{Issues: 4, Done: 4 - i/leastPlays%4}
			}
			return reports
		}
		if b := q.Break(); b != nil {
			t.Errorf("Play ended the search after %d calls: Break returned %+v, want nil", calls, b)
		}
		n = 0
		if a := q.Advise(); a != nil && calls < 3 {
			t.Errorf("Play ended the search after %d calls: Advise returned %+v, want nil", calls, a)
		}
	}
}

// The names of the changes and harms that are tried: only those that can make a difference. No change may add a
// problem to the configuration.
func TestTried(t *testing.T) {
	c := fleet(3, 2, 1)
	c.Routes = []threads.Route{{Skill: "own-0", Agents: []string{"dev-0"}}}
	c.Agents[0].Budget = agents.Budget{Tokens: 1000}
	c.Thread("review").Budget = agents.Budget{USD: 2}
	c.Forge.MaxUnreviewed = 3
	var got []string
	for _, x := range append(more(c), fewer(c)...) {
		got = append(got, x.name)
		if problems := x.config.Problems(); len(problems) > len(c.Problems()) {
			t.Errorf("%s adds problems: %v", x.name, problems)
		}
		if !slices.IsSortedFunc(x.config.Agents, func(a, b agents.Agent) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: the agents are not sorted", x.name)
		}
	}
	want := []string{
		"one more agent on review (dev)", "one more agent on review (review)", "one more slot on write",
		"one more agent on write (dev)", "max_unreviewed = 6 in place of 3", `hold = "2m" on write`,
		"skill own-0 for every agent that writes", "skill own-1 for every agent that writes",
		"skill own-2 for every agent that writes", "skill pair-0 for every agent that writes",
		"a dollar more a day for review", "a tenth more tokens a day for dev-0", "one slot less on write", "without dev-0",
		"without dev-1", "without dev-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	s := question(c, loadOf(4, time.Minute, time.Minute)).search(1)
	s.Trial.From = time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC) // a Monday
	s.Length = 8 * day
	got = nil
	for _, h := range s.harms() {
		got = append(got, h.name)
	}
	want = []string{
		"dev-0 away for a week", "dev-1 away for a week", "dev-2 away for a week", "review-0 away for a week",
		"review at its usage limit for a day", "every third session on review fails", "the server of write gone for a day",
		"every third session on write fails", "the forge down for an hour", "40 issues at once on Monday",
		"dev-0 away for a day", "dev-1 away for a day", "dev-2 away for a day", "review-0 away for a day",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("harms (-want +got):\n%s", diff)
	}
	if _, at := monday(s.Trial.From, s.Length); at != 6*day+23*time.Hour {
		t.Errorf("the next Monday at nine is %s away, want 6 days and 23 hours", at)
	}
}

// The numbers of variants and of plays have bounds, even in a large factory.
func TestBounds(t *testing.T) {
	c := fleet(64, 32, 64)
	q := question(c, loadOf(1000, time.Minute, time.Minute))
	q.enough = 0
	q.Play = func(trials []sim.Trial) []sim.Report { // of three sessions for each issue
		reports := make([]sim.Report, len(trials))
		for i := range reports {
			reports[i].Sessions = 3 * len(trials[i].Load)
		}
		return reports
	}
	if n := len(more(c)); n > mostChanges {
		t.Errorf("%d changes, want at most the limit", n)
	}
	if n := len(fewer(c)); n > mostChanges {
		t.Errorf("%d changes that remove something, want at most the limit", n)
	}
	s := q.search(1 + mostHarms + allPairs + mostChanges)
	if n := len(s.harms()); n > mostHarms {
		t.Errorf("%d harms, want at most the limit", n)
	}
	if len(s.loads) != leastPlays {
		t.Errorf("%d plays of 1,000 issues, want the fewest", len(s.loads))
	}
	for n := leastPlays; n <= mostPlays; n++ {
		if student[n] == 0 {
			t.Errorf("no quantile for %d plays", n)
		}
	}
}

// A difference that every play shows is sure. One that varies in sign is not.
func TestFigure(t *testing.T) {
	for _, tt := range []struct {
		list []float64
		mean float64
		sure bool
	}{
		{[]float64{1, 1, 1, 1, 1, 1}, 1, true},
		{[]float64{-2, -3, -2, -3, -2, -3}, -2.5, true},
		{[]float64{0, 0, 0, 0, 0, 0}, 0, false},
		{[]float64{1, 0, 0, 0, 0, 0}, 1. / 6, false},
		{[]float64{5, -5, 5, -5, 5, -4}, 1. / 6, false},
	} {
		f := figureOf(tt.list)
		if off := f.Mean - tt.mean; off > 1e-9 || off < -1e-9 || f.Sure() != tt.sure || f.Low > f.Mean || f.High < f.Mean {
			t.Errorf("figureOf(%v) = %+v", tt.list, f)
		}
	}
}
