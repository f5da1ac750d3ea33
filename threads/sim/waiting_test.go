package sim

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Await adds the issues that could be worked on by the end of the day and have no session yet, at the time from which
// they could be worked on.
func TestAwait(t *testing.T) {
	at := func(h int) time.Time { return epoch.Add(time.Duration(h) * time.Hour) }
	is := func(number int64, created int, labels ...string) forge.Issue {
		return forge.Issue{Ref: forge.Ref{Repo: "o/r", Number: number}, Created: at(created), Labels: labels}
	}
	with := func(is forge.Issue, change func(*forge.Issue)) forge.Issue {
		change(&is)
		return is
	}
	waiting := forge.LabelBacklog
	facts := &forge.Facts{
		Issues: []forge.Issue{
			is(1, 1, waiting), // has a session
			is(2, -5, waiting, "priority/2"),
			is(3, 3, forge.LabelInProgress),
			is(4, 30, waiting), // filed after the day
			is(5, 4),
			is(6, 4, waiting, forge.LabelNeedsHuman),
			with(is(7, 4, waiting), func(is *forge.Issue) { is.Closed = true }),
			with(is(8, 4, waiting), func(is *forge.Issue) { is.Assignees = []string{"ada"} }),
			with(is(9, 5, waiting), func(is *forge.Issue) { is.Assignees = []string{"DEV-1"} }),
			with(is(10, 4, waiting), func(is *forge.Issue) { is.Blockers = []forge.Blocker{{State: forge.BlockerOpen}} }),
			is(11, 4, waiting), // has a pull request
			with(is(12, 2, waiting), func(x *forge.Issue) {
				x.Blockers = []forge.Blocker{{Ref: forge.Ref{Repo: "o/r", Number: 13}, State: forge.BlockerClosed}}
			}),
			with(is(13, 1), func(is *forge.Issue) { is.Closed, is.Ended = true, at(6) }),
		},
		Pulls: []forge.Pull{{Ref: forge.Ref{Repo: "o/r", Number: 99}, Closes: []forge.Ref{{Repo: "o/r", Number: 11}}}},
	}
	trial := Trial{Config: Fleet(2, 1, 0), From: at(0), Load: Load{{At: 4 * time.Hour, Priority: 5}}}
	trial.Await([]ledger.Past{{Chain: ledger.Ref{Repo: "o/r", Number: 1}}}, facts, at(24))
	want := []Work{
		{Priority: 2, drawn: true},
		{At: 3 * time.Hour, Priority: 5, drawn: true},
		{At: 4 * time.Hour, Priority: 5},
		{At: 5 * time.Hour, Priority: 5, Pin: "dev-1", drawn: true},
		{At: 6 * time.Hour, Priority: 5, drawn: true},
	}
	if len(trial.Load) != len(want) {
		t.Fatalf("got load %+v, want other issues", trial.Load)
	}
	for i, w := range want {
		got := trial.Load[i]
		if got.At != w.At || got.Priority != w.Priority || got.Pin != w.Pin || got.drawn != w.drawn {
			t.Errorf("load[%d] = %+v, want %+v", i, got, w)
		}
	}
	trial.Policy, trial.Model, trial.Drain = Ours, usualModel(), time.Hour
	if r := trial.Run(); r.First.N != 4 || r.Sessions < 4 { // the issue of the load has no session
		t.Errorf("got waits %+v, want 4", r.First)
	}
}
