package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// journalOf returns a trial's sessions as a journal.
func journalOf(r *Report, load Load) (past []ledger.Past) {
	for _, s := range r.Spans {
		p := ledger.Past{
			Agent: s.Agent, Kind: agents.Kind(s.Kind), Ref: ledger.Ref{Repo: "o/r", Number: s.Chain},
			Thread: s.Thread, Slot: s.Slot,
			Start: epoch.Add(s.From), End: epoch.Add(s.To), Outcome: agents.Done, Role: s.Kind,
		}
		if p.Chain = p.Ref; s.Chain > 0 {
			p.Ready, p.Skills = epoch.Add(load[s.Chain-1].At), load[s.Chain-1].Skills
			p.Priority = load[s.Chain-1].Priority
		}
		if p.Kind == agents.KindReview {
			p.Verdict = ledger.Approved
			for i := range past { // earlier reviews requested changes
				if b := &past[i]; b.Kind == p.Kind && b.Chain == p.Chain {
					b.Verdict = ledger.ChangesRequested
				}
			}
		}
		past = append(past, p)
	}
	return past
}

// TestReplayIsTheSame replays the journals of trials, with about the same result: the load excludes the time for
// reading contexts, and scheduled work takes as long as it did.
func TestReplayIsTheSame(t *testing.T) {
	for seed := range sized[uint64](3, 1) {
		config := fleet(4, 2, 1)
		config.Roles = append(config.Roles, agents.Role{
			Name: "schedule", On: agents.OnSchedule, Every: time.Hour, Priority: 5, Command: []string{"work"},
		})
		config.Agents[0].Roles = append(config.Agents[0].Roles, "schedule")
		kinds := []Kind{{PerDay: 160, Together: 1, Minutes: 5, Sigma: 0.5, Sessions: 2, Review: 2, Priority: 5}}
		load := MakeKinds(kinds, sized(2., 1), seed)
		was := Trial{
			Config: config, Load: load, Policy: Ours, Seed: seed, Cache: Cache{Most: 50_000},
			Scheduled: map[string]time.Duration{"schedule": 20 * time.Minute},
		}.Run()
		past := journalOf(&was, load)
		for i := range past {
			past[i].Usage = &agents.Usage{InputTokens: 10_000} // without usage, no session reads a context
		}
		again := Replay(Journal{Past: past}, config, 7*24*time.Hour)
		again.Policy, again.Seed = Ours, seed
		is := again.Run()
		near := func(what string, a, b, within float64) {
			if b == 0 || a/b < 1-within || a/b > 1+within {
				t.Errorf("seed %d: %s: was %g, replayed %g", seed, what, b, a)
			}
		}
		near("issues", float64(is.Done), float64(was.Done), 0)
		near("turnaround", is.Turn.Mean.Hours(), was.Turn.Mean.Hours(), 0.2)
		near("scheduled work", again.Scheduled["schedule"].Hours(), 1./3, 0.05)
		near("busy", is.Used, was.Used, 0.05)
	}
}

// TestReplayOfBusySlots replays a batch of sessions of a second, twenty on each of many local servers with one slot,
// whose agents start their next session 0.1 to 0.5 s after the last. The replay takes as long: each thread has its own
// handovers, not the shortest of all, and the trial adds the time for reading contexts that Replay removed.
func TestReplayOfBusySlots(t *testing.T) {
	config := fleet(sized(20, 8), 1, 0)
	config.Threads = nil
	var past []ledger.Past
	for i := range config.Agents {
		agent := config.Agents[i].Name
		config.Agents[i].Thread = agent
		config.Threads = append(config.Threads, threads.Thread{
			Name: agent, Backend: threads.Local, Slots: 1, MaxSessions: 1, Interval: time.Minute, IdleInterval: time.Minute,
			Agents: []string{agent},
		})
		at := epoch
		for n := range 20 {
			ref := ledger.Ref{Repo: "o/r", Number: int64(1 + i + 20*n)}
			past = append(past, ledger.Past{
				Agent: agent, Thread: agent, Role: "dev", Kind: agents.KindIssue, Ref: ref, Chain: ref, Ready: epoch,
				Start: at, End: at.Add(time.Second), Outcome: agents.Refused,
			})
			at = at.Add(time.Second + time.Duration(1+(i+n)%5)*100*time.Millisecond)
		}
	}
	const week = 7 * 24 * time.Hour
	var waits []time.Duration
	for i := range past {
		waits = append(waits, past[i].Start.Sub(epoch))
	}
	was := spread(waits)
	trial := Replay(Journal{Past: past}, config, week)
	trial.Policy, trial.Seed, trial.Drain = Ours, 1, time.Minute
	is := trial.Run()
	for _, c := range [][2]time.Duration{{is.First.P50, was.P50}, {is.First.P95, was.P95}} {
		if off := c[0].Seconds()/c[1].Seconds() - 1; math.Abs(off) > 0.05 {
			t.Errorf("got waits of %[2]s, want %[1]s (%+.1[3]f %%)", c[1], c[0], 100*off)
		}
	}
}

// TestReplayOfPins replays a batch in which every second issue was pinned to one of four agents. The replay keeps the
// pins, so these issues wait as long as before, and are not shared by all four agents.
func TestReplayOfPins(t *testing.T) {
	config := fleet(4, 0, 0)
	var load Load
	for i := range 40 {
		w := Work{Priority: 5, Sessions: []time.Duration{10 * time.Minute}}
		if i%2 == 0 {
			w.Pin = "dev-0"
		}
		load = append(load, w)
	}
	was := newTrial(Trial{Config: config, Load: load, Policy: Ours, Seed: 1})
	was.open()
	for !was.finished() && was.Next() {
		was.settle()
	}
	lived := was.report()
	past := slices.Clone(was.books.Past)
	for i := range past {
		past[i].Ready = epoch
	}
	again := Replay(Journal{Past: past}, config, 24*time.Hour)
	again.Policy, again.Seed = Ours, 1
	if is := again.Run(); is.First.P95 < lived.First.P95*9/10 || is.First.P95 > lived.First.P95*11/10 {
		t.Errorf("95 %% wait at most %s, replayed %s, want within a tenth", lived.First.P95, is.First.P95)
	}
}

// TestReplay turns a journal's sessions into a load with one entry for each issue.
func TestReplay(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 1, time.UTC) // 1 ns: not the forge's whole second
	session := func(kind agents.Kind, number, chain int64, start, took time.Duration) ledger.Past {
		ref := func(n int64) forge.Ref { return forge.Ref{Repo: "owner/name", Number: n} }
		return ledger.Past{
			Agent: "x", Kind: kind, Ref: ledger.Ref(ref(number)), Chain: ledger.Ref(ref(chain)),
			Start: at.Add(start), End: at.Add(start + took),
		}
	}
	config := &threads.Config{Forge: threads.Forge{Repos: []string{"owner/name"}}}
	waited := session(agents.KindIssue, 5, 5, 5*time.Hour, time.Hour)
	waited.Ready, waited.Priority, waited.Skills = at.Add(30*time.Minute), 2, []string{"nobody's"}
	load := Replay(Journal{Past: []ledger.Past{
		session(agents.KindIssue, 1, 1, 0, time.Hour),
		session(agents.KindReview, 3, 1, time.Hour, 10*time.Minute),
		session(agents.KindIssue, 2, 2, 90*time.Minute, 30*time.Minute),
		session(agents.KindRework, 3, 1, 2*time.Hour, 20*time.Minute),
		session(agents.KindReview, 3, 1, 3*time.Hour, 20*time.Minute),
		session(agents.KindIssue, 8, 8, -25*time.Hour, time.Hour), // on the day before
		session(agents.KindIssue, 7, 7, 4*time.Hour, -time.Minute),
		session(agents.KindIssue, 6, 6, 5*time.Hour, 100*365*24*time.Hour),
		waited,
	}}, config, 24*time.Hour).Load
	if len(load) != 3 || load[2].At != 90*time.Minute || load[0].Review != 15*time.Minute ||
		len(load[0].Sessions) != 2 || load[0].Sessions[1] != 20*time.Minute {
		t.Errorf("got load %+v, want 3 issues, the first with 2 sessions and reviews of 15m, the last at 90m", load)
	}
	if w := load[1]; w.At != 30*time.Minute || w.Priority != 2 || len(w.Skills) != 0 || len(w.Sessions) != 1 {
		t.Errorf("got the issue that waited as %+v, want it at 30m with priority 2, no skill and 1 session", w)
	}
	if len(Replay(Journal{}, config, time.Hour).Load) > 0 {
		t.Error("Replay of an empty journal has a load")
	}
}

// TestReplayKeepsWindows replays nine issues of a dollar each with a window of three dollars an hour. No hour has
// more than three of them, and all are done in the end.
func TestReplayKeepsWindows(t *testing.T) {
	config := fleet(2, 1, 0)
	load := Load{}
	for range 9 {
		load = append(load, Work{Priority: 5, Sessions: []time.Duration{5 * time.Minute}})
	}
	was := Trial{Config: config, Load: load, Policy: Ours, Seed: 1}.Run()
	past := journalOf(&was, load)
	for i := range past {
		past[i].Usage = &agents.Usage{InputTokens: 7, CostUSD: 1}
	}
	again := Replay(Journal{Past: past}, config, 24*time.Hour)
	again.Policy, again.Seed = Ours, 1
	if u := again.Uses[Line{past[0].Thread, agents.KindIssue}]; u.CostUSD != 1 || u.InputTokens != 7 {
		t.Errorf("got usage %+v of a session, want $1 and 7 tokens", u)
	}
	free := again.Run()
	config.Threads = slices.Clone(config.Threads)
	config.Threads[0].Windows = []threads.Window{{Length: time.Hour, Budget: agents.Budget{USD: 3}}}
	config.Threads[0].Reserve = 0.1
	held := again.Run()
	if free.Done != 9 || free.Makespan > time.Hour || held.Done != 9 || held.Makespan < 3*time.Hour {
		t.Errorf("got %d done in %s without a window and %d in %s with it, want 9 each, and at least 3h with it", free.Done,
			free.Makespan, held.Done, held.Makespan)
	}
	for _, first := range held.Spans {
		n := 0
		for _, s := range held.Spans {
			if s.To >= first.To && s.To <= first.To+time.Hour {
				n++
			}
		}
		if n > 3 {
			t.Errorf("%d sessions ended in the hour from %s, want at most 3", n, first.To)
		}
	}
}

// TestTrialClimbs plays an issue that is rejected three times. The ladder takes it from its agent after the second
// time.
func TestTrialClimbs(t *testing.T) {
	config := fleet(2, 0, 1)
	config.Agents[0].Escalate, config.Agents[0].EscalateAfter = []string{"dev-1"}, 2
	five := 5 * time.Minute
	load := Load{{Priority: 5, Pin: "dev-0", Review: time.Minute, Sessions: []time.Duration{five, five, five, five}}}
	r := Trial{Config: config, Load: load, Policy: Ours, Seed: 1}.Run()
	var wrote []string
	for _, s := range r.Spans {
		if s.Kind != string(agents.KindReview) {
			wrote = append(wrote, s.Agent)
		}
	}
	if want := []string{"dev-0", "dev-0", "dev-1", "dev-1"}; r.Done != 1 || !slices.Equal(wrote, want) {
		t.Errorf("got %d done, written by %v, want 1, by %v", r.Done, wrote, want)
	}
}

// The forge's times are whole seconds: half a second early on average. Other times, and times at which a session has
// started, are exact.
func TestFiled(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ ready, start, want time.Duration }{
		{0, time.Minute, halfSecond},
		{0, 200 * time.Millisecond, 200 * time.Millisecond},
		{0, -time.Minute, -time.Minute},
		{1, time.Minute, 1},
		{time.Minute + 1, time.Second, time.Second},
	} {
		if got := filed(&ledger.Past{Ready: at.Add(tt.ready), Start: at.Add(tt.start)}).Sub(at); got != tt.want {
			t.Errorf("filed(ready after %s, started after %s) = %s, want %s", tt.ready, tt.start, got, tt.want)
		}
	}
	if got := filed(&ledger.Past{Start: at}); !got.Equal(at) {
		t.Errorf("filed(ready unknown) = %s, want the start", got)
	}
}
