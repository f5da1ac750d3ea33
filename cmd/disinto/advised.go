//go:build linux

package main

import (
	"context"
	"time"

	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/advice"
	"codeberg.org/johba/disinto/threads/sim"
)

// advised replays the last days with variations of the current configuration, until ctx is done.
func advised(ctx context.Context, q supervisor.WhatIf) (*control.Advice, error) {
	journal := sim.Journal{Past: q.Past, Timeline: q.Timeline}
	trial := sim.Replay(journal, q.Config, time.Duration(q.Ask.Days)*24*time.Hour)
	if len(trial.Load) == 0 {
		return nil, control.Conflict("nothing to replay: no session worked on an issue in the last %s",
			control.Count(q.Ask.Days, "day"))
	}
	trial.Await(q.Past, &q.Facts, journal.Newest())
	trial.Seed = 1
	asked := advice.Question{Trial: trial, Length: journal.Newest().Sub(trial.From), Play: inTurn(ctx)}
	a := asked.Advise()
	if a == nil {
		return nil, control.NotNow("cannot replay %s often enough in time on this machine: ask for fewer days",
			control.Count(q.Ask.Days, "day"))
	}
	return &control.Advice{
		Days: q.Ask.Days, Sessions: len(q.Past), Plays: a.Plays, Now: outcome(&a.Now), More: advisedLines(a.More),
		Less: advisedLines(a.Less),
	}, nil
}

// inTurn runs trials one after the other, to leave processors to the supervisor. When ctx is done, it returns no
// reports.
func inTurn(ctx context.Context) func([]sim.Trial) []sim.Report {
	return func(trials []sim.Trial) (reports []sim.Report) {
		for i := range trials {
			trials[i].Enough = func() bool { return ctx.Err() != nil }
			r := trials[i].Run()
			if r.Spans = nil; ctx.Err() != nil {
				return nil
			}
			reports = append(reports, r)
		}
		return reports
	}
}

func advisedLines(lines []advice.Line) []control.AdvisedLine {
	list := make([]control.AdvisedLine, 0, len(lines))
	for i := range lines {
		l := &lines[i]
		list = append(list, control.AdvisedLine{What: l.What, Kind: l.Kind, AdviceOutcome: outcome(&l.Outcome)})
	}
	return list
}

func outcome(o *advice.Outcome) control.AdviceOutcome {
	figure := func(f advice.Figure) control.AdviceFigure { return control.AdviceFigure(f) }
	return control.AdviceOutcome{
		Issues: figure(o.Issues), Done: figure(o.Done), Waits: figure(o.Waits), Open: figure(o.Open), USD: figure(o.USD),
	}
}
