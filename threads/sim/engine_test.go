package sim

import (
	"testing"
	"time"
)

// TestEngine plays sessions on an engine that starts and reports as late as a real one was measured to: 5,000 of them
// on twenty agents in make check. None is lost or begun twice, no agent stands idle beside work for longer than it
// takes to notice and to start, and an issue takes longer by what the engine takes.
func TestEngine(t *testing.T) {
	n := sized(5000, 200)
	shape := Shape{Arrivals: "poisson", Tasks: "session", Busy: 0.7, Agents: 20, Hours: float64(n) / 80}
	load := shape.Make(1)
	if len(load) < n {
		t.Fatalf("only %d issues", len(load))
	}
	load = load[:n]
	here := Trial{Config: Fleet(shape.Agents, 0, 0), Load: load, Policy: Ours, Seed: 1}
	there := here
	there.Engine = true
	near, far := here.Run(), there.Run()
	far.whole(t, "on an engine")
	if far.Sessions != n || far.Gap.P99 > Ours.Latency+engineStartMax {
		t.Errorf("%d sessions, 99 %% of gaps are up to %s", far.Sessions, far.Gap.P99)
	}
	longer := far.Turn.Mean - near.Turn.Mean
	t.Logf("%d sessions, from filing to done %s here and %s longer there", n, near.Turn.Mean, longer)
	if longer < engineStartMin || longer > engineStartMax+engineTellMax {
		t.Errorf("an issue takes %s longer", longer)
	}
	if far.Makespan-near.Makespan > time.Minute {
		t.Errorf("the last issue is done after %s, here after %s", far.Makespan, near.Makespan)
	}
}
