package sim

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// diary returns the journal of ten issues, one an hour: dev-a writes for 20 min, checks take 5 min, review-a reviews
// for 4 min, and the merge follows after 10 s. dev-b wrote two issues, for an hour each.
func diary() (j Journal) {
	begin := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	add := func(n int64, agent string, kind agents.Kind, at, took time.Duration, how agents.Result) {
		p := ledger.Past{
			Agent: agent, Kind: kind, Thread: "t-" + agent, Start: begin.Add(at), End: begin.Add(at + took), Outcome: how,
			Ref: ledger.Ref{Repo: "o/r", Number: n}, Ready: begin.Add(at - 3*time.Second), Role: string(kind),
		}
		if p.Chain = p.Ref; kind == agents.KindReview {
			p.Verdict = ledger.Approved
		}
		j.Past = append(j.Past, p)
	}
	const m = time.Minute
	for n := range int64(10) {
		at := time.Duration(n) * time.Hour
		add(n+1, "dev-a", agents.KindIssue, at, 20*m, agents.Done)
		add(n+1, "review-a", agents.KindReview, at+25*m, 4*m, agents.Done)
		j.Timeline.Merges = append(j.Timeline.Merges, ledger.Merged{
			Ref: ledger.Ref{Repo: "o/r", Number: 100 + n}, Chain: ledger.Ref{Repo: "o/r", Number: n + 1},
			When: begin.Add(at + 29*m + 10*time.Second),
		})
	}
	add(90, "dev-b", agents.KindIssue, 0, time.Hour, agents.Done)
	add(91, "dev-b", agents.KindIssue, 2*time.Hour, time.Hour, agents.Done)
	add(92, "dev-b", agents.KindIssue, 4*time.Hour, time.Second, agents.BackendDown)
	return j
}

func TestLearn(t *testing.T) {
	m := Learn(diary())
	got := make(map[string]Learnt)
	for _, l := range m.Learnt() {
		got[l.What] = l
	}
	for what, want := range map[string]Learnt{
		"issue, dev-a":     {P10: 20 * time.Minute, P50: 20 * time.Minute, P90: 20 * time.Minute, Sessions: 10},
		"review, review-a": {P10: 4 * time.Minute, P50: 4 * time.Minute, P90: 4 * time.Minute, Sessions: 10},
		"issue, dev-b":     {Sessions: 2, Usual: true}, // the session without a backend does not count
		"checks":           {P10: 5 * time.Minute, P50: 5 * time.Minute, P90: 5 * time.Minute, Sessions: 10},
		"merge":            {P10: 10 * time.Second, P50: 10 * time.Second, P90: 10 * time.Second, Sessions: 10},
		"people":           {P10: time.Hour, P50: time.Hour, P90: time.Hour, Usual: true},
	} {
		if want.What = what; got[what] != want {
			t.Errorf("Learnt(%s) = %+v, want %+v", what, got[what], want)
		}
	}
	for part := range uint64(20) {
		of := func(agent, thread string) time.Duration {
			return m.draw(lot{1, 1, part}, agent, thread, agents.KindIssue, "dev", 0).Took
		}
		if d := of("dev-a", "t-dev-a"); d != 20*time.Minute {
			t.Errorf("got %s for dev-a, want 20m", d)
		}
		if d := of("dev-b", "t-dev-b"); d != 20*time.Minute && d != time.Hour { // drawn from all agents
			t.Errorf("got %s for dev-b, want 20m or 1h", d)
		}
		if d := m.draw(lot{1, 1, part}, "dev-a", "", agents.KindIssue, "dev", 40*time.Minute).Took; d != time.Hour &&
			d != 50*time.Minute {
			t.Errorf("got a session of %s that has taken 40m so far, want 1h or 50m", d)
		}
	}
}

// An outage of the journal repeats at its time, and opens the breaker.
func TestOutages(t *testing.T) {
	config := fleet(2, 0, 0)
	for i := range config.Threads {
		config.Threads[i].BreakerInterval = 10 * time.Minute
	}
	load := Load{}
	for range 6 {
		load = append(load, Work{Priority: 5, Steps: []Step{{Took: 5 * time.Minute, Result: agents.Done}}})
	}
	trial := Trial{Config: config, Load: load, Policy: Ours, Seed: 1, Model: usualModel()}
	calm := trial.Run()
	trial.Outages = []Outage{{Thread: "write", Until: time.Hour, Result: agents.BackendDown, After: 10 * time.Second}}
	down := trial.Run()
	if calm.Done != 6 || down.Done != 6 || calm.Makespan > 30*time.Minute || down.Makespan < time.Hour {
		t.Errorf("got %d done in %s, and %d in %s with an outage of an hour, want 6 each", calm.Done, calm.Makespan,
			down.Done, down.Makespan)
	}
	if tries := down.Sessions - calm.Sessions; tries < 4 || tries > 12 {
		t.Errorf("got %d sessions in the outage, want 4 to 12: the breaker allows one every ten minutes", tries)
	}
	past := journalOf(&down, load)
	for i := range past {
		if past[i].End.Sub(past[i].Start) < time.Minute {
			past[i].Outcome = agents.BackendDown
		}
	}
	if got := outagesOf(past, epoch); len(got) != 1 || got[0].Until < 50*time.Minute ||
		got[0].Until > time.Hour+time.Minute {
		t.Errorf("outagesOf(journal) = %+v, want one of about an hour", got)
	}
}
