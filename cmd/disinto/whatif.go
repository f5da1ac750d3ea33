//go:build linux

package main

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// whatIf replays the last days with the current configuration and, if the request has changes, with the changed
// configuration. It stops when ctx is done.
func whatIf(ctx context.Context, q supervisor.WhatIf) (*control.Simulation, error) {
	change, err := changeOf(&q.Ask)
	if err != nil {
		return nil, err
	}
	changed, differs, err := change.Of(q.Config)
	if err != nil {
		return nil, control.Invalid("cannot simulate: %s", err)
	}
	days := time.Duration(q.Ask.Days) * 24 * time.Hour
	trial := sim.Replay(sim.Journal{Past: q.Past, Timeline: q.Timeline}, q.Config, days)
	if len(trial.Load) == 0 {
		return nil, control.Conflict("nothing to simulate: no session worked on an issue in the last %d days", q.Ask.Days)
	}
	happened := sim.Happened(q.Past, q.Timeline, q.Config, days)
	answer := &control.Simulation{
		Days: q.Ask.Days, Sessions: happened.Sessions, Changes: []string{}, Happened: played(&happened),
	}
	trial.Policy, trial.Drain, trial.Enough = sim.Ours, days, func() bool { return ctx.Err() != nil }
	play := func(config *threads.Config) control.Played {
		trial.Config = config
		r := trial.Run()
		return played(&r)
	}
	answer.Now = play(q.Config)
	if len(differs) > 0 {
		is := play(changed)
		answer.Changes, answer.Changed = differs, &is
	}
	if ctx.Err() != nil {
		return nil, control.NotNow("cannot simulate %d days in time on this machine: ask for fewer days", q.Ask.Days)
	}
	return answer, nil
}

// changeOf parses the requested changes.
func changeOf(ask *control.SimulateRequest) (*sim.Change, error) {
	change := &sim.Change{Slots: ask.Slots, Without: ask.Without, Hold: make(map[string]time.Duration)}
	for thread, text := range ask.Hold {
		hold, err := time.ParseDuration(text)
		if err != nil {
			return nil, control.Invalid("cannot read %q as the hold of %s: want a time such as 4m", text, thread)
		}
		change.Hold[thread] = hold
	}
	return change, nil
}

func played(r *sim.Report) control.Played {
	return control.Played{
		Issues: r.Issues, Done: r.Done, LastDone: r.Makespan.Seconds(), MeanTurn: r.Turn.Mean.Seconds(),
		MeanWait: r.First.Mean.Seconds(), MaxWait: r.First.Max.Seconds(), Idle: r.Idle.Seconds(), Busy: r.Used,
		Switches: r.Switches,
	}
}
