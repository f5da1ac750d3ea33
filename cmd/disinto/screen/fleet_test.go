package screen

import (
	"time"

	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// fleetStatus returns the status of a hub with a host that answers, one without agents and an unknown one.
func fleetStatus() *fleet.Status {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	return &fleet.Status{
		Hub: true, NextAt: at(3 * time.Minute),
		Hosts: []fleet.HostStatus{
			{Known: true, Agents: []fleet.Agent{
				{Agent: "dev-hub", Role: "dev", State: threads.LoadIdle, Idle: true, IdleSince: at(-130 * time.Second)},
				{
					Agent: "dev-ill", Role: "dev", State: threads.LoadSick, StateWhy: "dev-ill achieved nothing in 3 sessions",
					PendingCount: 15,
				},
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
}
