package screen

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

func TestFleetView(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	s := &fleet.Status{
		Hub: true, NextAt: at(3 * time.Minute),
		Hosts: []fleet.HostStatus{
			{Known: true, Agents: []fleet.Agent{
				{Agent: "dev-hub", Role: "dev", State: threads.LoadIdle, Idle: true, IdleSince: at(-130 * time.Second)},
				{Agent: "dev-ill", Role: "dev", State: threads.LoadSick, StateWhy: "dev-ill achieved nothing in 3 sessions", PendingCount: 15},
			}},
			{Name: "iris", Known: true, Agents: []fleet.Agent{
				{Agent: "dev-iris", Role: "dev", State: threads.LoadActive, Active: "o/r#1", PendingCount: 9},
			}},
			{Name: "loom", Known: true},
			{Name: "spark", Why: "no answer within 10s"},
		},
		Cycles: []fleet.Cycle{{
			At: at(-2 * time.Minute), TookMS: 1200, Calls: 3, Idle: []string{"dev-hub"}, Busy: []string{"iris/dev-iris"},
			Moves: []fleet.Move{
				{
					Repo: "o/r", Number: 9, From: "iris/dev-iris", To: "dev-hub", State: fleet.MoveDone,
					Why: "dev-hub idle for 2m10s, iris/dev-iris has 11 waiting",
				},
				{
					Repo: "o/r", Number: 8, From: "iris/dev-iris", To: "dev-hub", State: fleet.MoveStays, Why: "x",
					StateWhy: "it is in-progress",
				},
			},
			Stays: []fleet.Stay{
				{Repo: "o/r", Number: 2, Agent: "iris/dev-iris", Why: "moved before"},
				{Repo: "o/r", Number: 3, Agent: "iris/dev-iris", Why: "moved before"},
				{Repo: "o/r", Number: 4, Agent: "iris/dev-iris", Why: "moved before"},
				{Repo: "o/r", Number: 5, Agent: "iris/dev-iris", Why: "\x1b[31mred"},
			},
			Unknown: []string{"spark: no answer within 10s"},
		}},
	}
	want := `host    agent      role  idle   pending  state
(this)  dev-hub    dev   2m10s  0        idle
(this)  dev-ill    dev          15       sick: dev-ill achieved nothing in 3 sessions
iris    dev-iris   dev          9        active: o/r#1
loom    no agents
spark   ?                                unknown: no answer within 10s

next look in 3m00s
`
	got := View{Now: noon, Width: 120}.Fleet(s)
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rest := got[min(len(got), len(want)):]
	want = `2026-11-03T11:58:00Z; idle dev-hub; busy iris/dev-iris; 3 calls in 1.2s, 2 moves
  moved  o/r#9  iris/dev-iris -> dev-hub  dev-hub idle for 2m10s, iris/dev-iris has 11 waiting
  stays  o/r#8  iris/dev-iris -> dev-hub  it is in-progress
  stays  o/r#2  iris/dev-iris             moved before
  stays  o/r#3  iris/dev-iris             moved before
  stays  o/r#4  iris/dev-iris             moved before
  unknown spark: no answer within 10s
  and 1 more stay
`
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
