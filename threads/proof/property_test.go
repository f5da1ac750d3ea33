package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// rounds returns the number of factories that a property is tried on: ten times as many with DISINTO_STORMS=1.
func rounds(some int) int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return 10 * some
	}
	return some
}

// rota is a random factory with scheduled roles, one agent for issues, and few slots.
func rota(t *testing.T, rng *rand.Rand) *threads.Config {
	names, roles := []string{`"dev-a"`}, "[roles.dev]\ncli = \"claude\"\n"
	for i := range 1 + rng.IntN(4) {
		role := fmt.Sprintf("tidy%d", i)
		names = append(names, fmt.Sprintf("%q", role+"-a"))
		roles += fmt.Sprintf("[roles.%s]\non = \"schedule\"\ncli = \"claude\"\nevery = \"%dm\"\npriority = %d\n", role,
			10+rng.IntN(200), 1+rng.IntN(8))
	}
	text := fmt.Sprintf("[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n"+
		"[threads.llama]\nbackend = \"local\"\nmax_concurrent = %d\nagents = [%s]\n", 1+rng.IntN(3),
		strings.Join(names, ", "))
	return decode(t, text+roles)
}

// TestCrowdedAsProven plays trials of random factories with scheduled sessions of random length. Without an objection
// of the proof, each trial must start the issue; with one, the trial with the longest sessions must not.
func TestCrowdedAsProven(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	crowded, free := 0, 0
	for i := range rounds(10) {
		c := rota(t, rng)
		objects := slices.ContainsFunc(Prove(c, nil), func(f Finding) bool { return f.Claim == "order" && f.Weight == Hint })
		begun := func(length func(*agents.Role) time.Duration) bool {
			scheduled := make(map[string]time.Duration)
			for i := range c.Roles {
				scheduled[c.Roles[i].Name] = min(length(&c.Roles[i]), c.Roles[i].Timeout)
			}
			load := sim.Load{{Priority: forge.DefaultPriority, Sessions: []time.Duration{time.Minute}}}
			trial := sim.Trial{
				Config: c, Load: load, Policy: sim.Ours, Seed: uint64(i), Scheduled: scheduled, Drain: 5 * 24 * time.Hour,
			}
			report := trial.Run()
			return report.Done == len(load)
		}
		if objects {
			crowded++
			if begun(func(*agents.Role) time.Duration { return lengths[len(lengths)-1] }) {
				t.Errorf("factory %d: the issue starts although the proof objects", i)
			}
			continue
		}
		free++
		for range 4 {
			if !begun(func(*agents.Role) time.Duration { return time.Duration(1+rng.IntN(150)) * time.Minute }) {
				t.Errorf("factory %d: the issue never starts although the proof does not object", i)
			}
		}
	}
	if crowded == 0 || free == 0 {
		t.Errorf("%d crowded factories and %d others, want some of both", crowded, free)
	}
}

// TestCostAsProven lets agents of random factories use as much as their limits allow in a night. The total may exceed
// the bound only by one session each time that a limit is reached.
func TestCostAsProven(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range rounds(10) {
		limits := []string{
			fmt.Sprintf("budget = { usd_per_day = %d }\n", 1+rng.IntN(60)),
			fmt.Sprintf("windows = [{ length = \"%dh\", usd = %d }]\n", 1+rng.IntN(24), 1+rng.IntN(60)),
			fmt.Sprintf("budget = { usd_per_day = %d }\nwindows = [{ length = \"5h\", usd = %d }, { length = \"7d\", usd = "+
				"%d }]\n",
				1+rng.IntN(60), 1+rng.IntN(20), 20+rng.IntN(60)),
		}
		c := decode(t, strings.Replace(sound, "budget = { usd_per_day = 20.0 }\n", limits[rng.IntN(len(limits))], 1))
		p := &prover{config: given(c)}
		usd := p.bounded(c.Thread("api"), money)
		each := 0.5 + 3*rng.Float64()
		used := spree(c, "dev-opus", each, time.Duration(rng.IntN(24))*time.Hour)
		if used > usd.most+usd.times*each || used == 0 {
			t.Errorf("factory %d: a night used $%.2f, want more than 0 and at most $%.2f by %s, plus sessions of $%.2f", i, used,
				usd.most, usd.by, each)
		}
	}
}

// spree returns the dollars that an agent uses in a night, with one session of ten minutes after the other. The night
// starts at the given time of day.
func spree(c *threads.Config, agent string, each float64, begins time.Duration) (used float64) {
	w := newWorld(given(c))
	w.now = threads.Day(w.now).Add(begins)
	for end := w.now.Add(night); w.now.Before(end); {
		w.issues = nil
		w.file(nil, agent)
		plan := w.plan()
		i := slices.IndexFunc(plan.Starts, func(s threads.Start) bool { return s.Agent == agent })
		if i < 0 {
			w.now = w.now.Add(step)
			continue
		}
		run := w.starts(&plan.Starts[i])
		w.now = w.now.Add(10 * time.Minute)
		u := agents.Usage{CostUSD: each}
		w.books.Apply(ledger.Record{At: w.now, Used: &ledger.Used{Run: run, Usage: u}})
		w.ends(run, agents.Done, 0)
		used = math.Round(1e6*(used+each)) / 1e6
	}
	return used
}
