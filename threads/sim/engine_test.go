package sim

import (
	"testing"
	"time"
)

// TestEngine plays sessions on an engine with the measured delays of a real one: 5,000 sessions on twenty agents in
// make check. No issue is lost or done twice. While work waits, no agent is idle for longer than notice and start
// take. An issue takes longer only by the engine's delays.
func TestEngine(t *testing.T) {
	n := sized(5000, 100)
	s := shape{Arrivals: "poisson", Tasks: "session", Busy: 0.7, Agents: 20, Hours: float64(n) / 80}
	load := s.make(1)
	if len(load) < n {
		t.Fatalf("got %d issues, want more", len(load))
	}
	load = load[:n]
	here := Trial{Config: fleet(s.Agents, 0, 0), Load: load, Policy: Ours, Seed: 1}
	there := here
	there.Engine = true
	near, far := here.Run(), there.Run()
	far.whole(t, "on an engine")
	if far.Sessions != n || far.Gap.P99 > Ours.Latency+EngineStartMax {
		t.Errorf("got %d sessions, and 99 %% of gaps up to %s, want %d and at most %s", far.Sessions, far.Gap.P99, n,
			Ours.Latency+EngineStartMax)
	}
	longer := far.Turn.Mean - near.Turn.Mean
	t.Logf("%d sessions, from filing to done %s here and %s longer there", n, near.Turn.Mean, longer)
	if longer < EngineStartMin || longer > EngineStartMax+engineTellMax {
		t.Errorf("an issue takes %s longer than here, want only the delays of the engine", longer)
	}
	if far.Makespan-near.Makespan > time.Minute {
		t.Errorf("the last issue is done after %s, want at most a minute later than here (%s)", far.Makespan, near.Makespan)
	}
}
