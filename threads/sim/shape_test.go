package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// shape describes a generated load.
type shape struct {
	// Arrivals is poisson, bursts (of twelve), overnight (poisson, and twelve for one agent at 3:00) or batch (all at
	// once).
	Arrivals string
	// Tasks is dispatch (10 to 300 s, as in the design), unclipped (the same, up to 2641 s) or session (8 min on average).
	Tasks  string
	Busy   float64 // mean share of all agents' time
	Owners int     // number of agents with the skills for an issue: 1, 2, or 0 for all
	Chain  float64 // mean number of an issue's writing sessions; 0 and 1: one, without a review
	Review time.Duration
	Agents int
	Hours  float64
}

// dispatchCounts are how many of 2,929 tasks of a real fleet had priority 1, 2 and so on.
var dispatchCounts = []int{166, 90, 329, 674, 735, 179, 417, 299, 40}

// make generates the load of a shape. Equal seeds give equal loads.
func (s shape) make(seed uint64) Load {
	m := &shaper{shape: s, rng: rand.New(rand.NewPCG(seed, 2))}
	var load Load
	end := time.Duration(s.Hours * float64(time.Hour))
	rate := s.Busy * float64(s.Agents) / m.mean().Seconds() // issues per second
	burst := 1
	if s.Arrivals == "bursts" {
		burst = 12
	}
	for at := gap(m.rng, rate/float64(burst)); at < end; at += gap(m.rng, rate/float64(burst)) {
		for range burst {
			load = append(load, m.work(at, m.rng.IntN(s.Agents)))
		}
	}
	switch s.Arrivals {
	case "overnight":
		for range 12 {
			load = append(load, m.work(3*time.Hour, 0))
		}
		slices.SortStableFunc(load, func(a, b Work) int { return cmp.Compare(a.At, b.At) })
	case "batch":
		for i := range load {
			load[i].At = 0
		}
	}
	return load
}

// shaper generates a load.
type shaper struct {
	shape
	rng *rand.Rand
}

// mean returns the mean total time of an issue's writing sessions.
func (m *shaper) mean() time.Duration {
	one := map[string]time.Duration{
		"dispatch": 83 * time.Second, "unclipped": 93 * time.Second, "session": 8 * time.Minute,
	}[m.Tasks]
	return time.Duration(max(1, m.Chain) * float64(one))
}

// task returns the length of one session. Four fifths of the measured tasks are lognormal with these numbers.
func (m *shaper) task() time.Duration {
	z := m.rng.NormFloat64()
	switch m.Tasks {
	case "session":
		const sigma = 0.8
		return seconds(480 * math.Exp(sigma*z-sigma*sigma/2))
	case "unclipped":
		return seconds(min(2641, math.Exp(4.118+0.908*z)))
	}
	return seconds(min(300, max(10, math.Exp(4.118+0.908*z))))
}

// work generates one issue. owner is the first agent with its skills.
func (m *shaper) work(at time.Duration, owner int) Work {
	w := Work{At: at, Priority: m.priority(), Review: m.Review}
	switch m.Owners {
	case 1:
		w.Skills = []string{fmt.Sprintf("own-%d", owner)}
	case 2:
		w.Skills = []string{fmt.Sprintf("pair-%d", owner)}
	}
	for range sessionsOf(m.rng, m.Chain) {
		w.Sessions = append(w.Sessions, m.task())
	}
	return w
}

func (m *shaper) priority() int {
	n := m.rng.IntN(2929)
	for i, count := range dispatchCounts {
		if n -= count; n < 0 {
			return i + 1
		}
	}
	return len(dispatchCounts)
}

// fleet returns a configuration for generated loads. Each writing agent has one skill of its own and one in common
// with each neighbour. If slots is positive, the writers share a local server with that many slots; otherwise each
// has a slot on an API. Reviewers are on an API.
func fleet(writers, slots, reviewers int) *threads.Config {
	cfg := &threads.Config{
		Name: "fleet",
		Forge: threads.Forge{
			Repos: []string{"o/r"}, MergeAuto: true, MaxUnreviewed: 3, MaxReviewRounds: 1000, MaxCIFixes: 3,
			MaxReviewsHour: 6, MaxSessionsDay: 100,
		},
		Stealing: true,
		Roles:    []agents.Role{{Name: "dev", On: agents.OnIssue, Command: []string{"work"}}},
	}
	write := threads.Thread{Name: "write", Backend: threads.API, Overlap: true, Slots: writers, MaxSessions: writers}
	if slots > 0 {
		write = threads.Thread{Name: "write", Backend: threads.Local, Slots: slots, MaxSessions: slots}
	}
	for i := range writers {
		a := agents.Agent{Name: fmt.Sprintf("dev-%d", i), Roles: []string{"dev"}, Thread: "write", Token: "t"}
		before := (i + writers - 1) % writers
		a.Skills = []string{fmt.Sprintf("own-%d", i), fmt.Sprintf("pair-%d", i), fmt.Sprintf("pair-%d", before)}
		slices.Sort(a.Skills)
		cfg.Agents, write.Agents = append(cfg.Agents, a), append(write.Agents, a.Name)
	}
	if reviewers > 0 {
		review := threads.Thread{
			Name: "review", Backend: threads.API, Overlap: true, Slots: reviewers, MaxSessions: reviewers,
		}
		for i := range reviewers {
			a := agents.Agent{Name: fmt.Sprintf("review-%d", i), Roles: []string{"review"}, Thread: "review", Token: "t"}
			cfg.Agents, review.Agents = append(cfg.Agents, a), append(review.Agents, a.Name)
		}
		cfg.Roles = append(cfg.Roles, agents.Role{Name: "review", On: agents.OnReview, Command: []string{"review"}})
		cfg.Threads = append(cfg.Threads, review)
	}
	cfg.Threads = append(cfg.Threads, write)
	for i := range cfg.Agents {
		cfg.Agents[i].Login = cfg.Agents[i].Name
	}
	return cfg
}
