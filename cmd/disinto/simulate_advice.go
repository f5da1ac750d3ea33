package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/threads/advice"
	"codeberg.org/johba/disinto/threads/sim"
)

// adviseDays is the default of --days with --advise.
const adviseDays = 30

// searchGC is the garbage collector's target during a search, in percent.
const searchGC = 800

// progressEvery is the number of trials between two updates of the progress line.
const progressEvery = 5

// ask answers --break and --advise.
func (q *simulation) ask(ctx context.Context, c *cli, flags *pflag.FlagSet) error {
	if q.hurt && q.advise {
		return usagef("--break and --advise: want one of them")
	}
	for _, other := range []string{"against", "policy", "chart"} {
		if flags.Changed(other) {
			return usagef("--%s cannot be used with --break or --advise", other)
		}
	}
	if q.advise && !flags.Changed("days") {
		q.days = adviseDays
	}
	if _, err := q.choose(); err != nil {
		return err
	}
	config, err := pretended(q.configFile(), c)
	if err != nil {
		return err
	}
	trial, work, err := q.work(config)
	if err != nil {
		return err
	}
	trial.Seed = q.seed
	tell, end := progressOf(c)
	// Trials leave much behind and keep little: by default a third of the time would go into collecting that.
	defer debug.SetGCPercent(debug.SetGCPercent(searchGC))
	asked := advice.Question{Trial: trial, Length: q.length(&trial), Play: player(ctx, tell)}
	document := map[string]any{"version": 1, "days": q.days, "seed": q.seed}
	if q.hurt {
		b := asked.Break()
		end()
		if b == nil {
			return context.Cause(ctx)
		}
		document["break"] = b
		return c.print(q.asJSON, document, func(v screen.View) string { return v.Broken(work, b) })
	}
	a := asked.Advise()
	end()
	if a == nil {
		return context.Cause(ctx)
	}
	document["advice"] = a
	return c.print(q.asJSON, document, func(v screen.View) string { return v.Advice(work, a) })
}

// length returns the length of a trial: --days, or less if the journal is shorter.
func (q *simulation) length(t *sim.Trial) time.Duration {
	asked := time.Duration(q.days * float64(24*time.Hour))
	if q.replay == "" {
		return asked
	}
	return min(asked, q.until.Sub(t.From))
}

// player returns a function that runs trials on all processors and reports the number done to tell. When ctx is done,
// it returns no reports.
func player(ctx context.Context, tell func(done int)) func([]sim.Trial) []sim.Report {
	var done atomic.Int64
	return func(trials []sim.Trial) []sim.Report {
		reports := make([]sim.Report, len(trials))
		var next atomic.Int64
		var all sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			all.Go(func() {
				for ctx.Err() == nil {
					i := int(next.Add(1)) - 1
					if i >= len(trials) {
						return
					}
					t := trials[i]
					t.Enough = func() bool { return ctx.Err() != nil }
					reports[i] = t.Run()
					reports[i].Spans = nil // a search keeps hundreds of reports
					tell(int(done.Add(1)))
				}
			})
		}
		if all.Wait(); ctx.Err() != nil {
			return nil
		}
		return reports
	}
}

// progressOf returns functions that show the number of trials on a terminal and clear that line at the end.
func progressOf(c *cli) (tell func(done int), end func()) {
	f, ok := c.stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func(int) {}, func() {}
	}
	tell = func(done int) {
		if done%progressEvery == 0 {
			fmt.Fprintf(f, "\r%d trials done", done)
		}
	}
	return tell, func() { fmt.Fprint(f, "\r"+clearLine) }
}
