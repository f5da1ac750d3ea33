package sim

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// TestHappened reports a journal with an issue merged after rework by two agents, one closed without a pull request,
// one sent back and left, and scheduled work, which is not an issue.
func TestHappened(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 1, time.UTC) // 1 ns: not the forge's whole second
	ref := func(n int64) ledger.Ref { return ledger.Ref(forge.Ref{Repo: "o/r", Number: n}) }
	past := func(agent string, kind agents.Kind, chain int64, start, took time.Duration) ledger.Past {
		return ledger.Past{
			Agent: agent, Kind: kind, Ref: ref(chain), Chain: ref(chain), Thread: "llama", Outcome: agents.Done,
			Ready: at, Start: at.Add(start), End: at.Add(start + took),
		}
	}
	verdict := func(p ledger.Past, v ledger.Verdict) ledger.Past {
		p.Thread, p.Verdict = "api", v
		return p
	}
	list := []ledger.Past{
		past("a", agents.KindIssue, 1, time.Hour, time.Hour),
		verdict(past("r", agents.KindReview, 1, 2*time.Hour, time.Hour), ledger.ChangesRequested),
		past("b", agents.KindRework, 1, 3*time.Hour, time.Hour),
		verdict(past("r", agents.KindReview, 1, 4*time.Hour, time.Hour), ledger.Approved),
		past("b", agents.KindIssue, 2, 4*time.Hour, time.Hour),
		past("b", agents.KindIssue, 3, 5*time.Hour, time.Hour),
		verdict(past("r", agents.KindReview, 3, 6*time.Hour, time.Hour), ledger.ChangesRequested),
		past("b", agents.KindSchedule, 0, 6*time.Hour, 2*time.Hour),
	}
	timeline := ledger.Timeline{
		Merges: []ledger.Merged{{Ref: ref(9), Chain: ref(1), When: at.Add(6 * time.Hour)}},
		Free:   []ledger.Free{{Thread: "llama", From: at.Add(-time.Hour), Until: at.Add(10 * time.Minute)}},
	}
	config := &threads.Config{
		Agents:  []agents.Agent{{Name: "a"}, {Name: "b"}, {Name: "idle"}},
		Threads: []threads.Thread{{Name: "api", Overlap: true}, {Name: "llama"}},
	}
	r := Happened(list, timeline, config, 24*time.Hour)
	want := Report{Issues: 3, Done: 2, Lost: 1, Sessions: 8, Makespan: 6 * time.Hour, Idle: 10 * time.Minute, Switches: 5}
	if r.Issues != want.Issues || r.Done != want.Done || r.Lost != want.Lost || r.Sessions != want.Sessions ||
		r.Makespan != want.Makespan || r.Idle != want.Idle || r.Switches != want.Switches {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	if r.First.Mean != 200*time.Minute || r.First.Max != 5*time.Hour || r.Turn.Mean != 330*time.Minute {
		t.Errorf("got waits %+v and turnarounds %+v, want a mean of 200m and a maximum of 5h, and a mean of 330m", r.First,
			r.Turn)
	}
	if r.Used != 6./24 { // six hours of work, by four agents (one is no longer configured) in six hours
		t.Errorf("got used %f, want 6/24", r.Used)
	}
	if r := Happened(nil, timeline, config, time.Hour); r.Issues+r.Done+r.Sessions != 0 {
		t.Errorf("Happened(no sessions) = %+v, want zeros", r)
	}
}

// TestDrain: Drain ends a trial with an issue that no agent may do, and the issue counts as waiting to the end.
// Enough ends a trial early.
func TestDrain(t *testing.T) {
	config := Fleet(1, 1, 0)
	load := Load{
		{Priority: 5, Sessions: []time.Duration{time.Hour}},
		{Priority: 5, Skills: []string{"of no agent"}, Sessions: []time.Duration{time.Hour}},
	}
	r := Trial{Config: config, Load: load, Policy: Ours, Seed: 1, Drain: 24 * time.Hour}.Run()
	if r.Done != 1 || r.Lost != 1 || r.First.N != 2 || r.First.Max < 24*time.Hour || r.First.Max > 25*time.Hour {
		t.Errorf("got %d done, %d lost, waits %+v, want one of each, and a wait of 24 to 25 hours", r.Done, r.Lost, r.First)
	}
	asked := 0
	enough := func() bool { asked++; return asked > 3 }
	r = Trial{Config: config, Load: load, Policy: Ours, Seed: 1, Enough: enough}.Run()
	if asked != 4 || r.Done != 0 {
		t.Errorf("Enough was called %d times and %d issues are done, want 4 and none", asked, r.Done)
	}
}
