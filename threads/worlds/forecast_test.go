package worlds

import (
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// TestForecastWorlds continues moments of generated worlds, with sessions that run, rest, wait for people or were
// dropped by a reload. Nothing may be merged or start before the moment, and the world must not change.
func TestForecastWorlds(t *testing.T) {
	m := sim.Learn(sim.Journal{})
	moments := 0
	for seed := range sized[uint64](200, 2) {
		w := newWorld(seed, nil)
		w.populate()
		w.shell.boot(true)
		w.After(w.within(span{0, w.size.act}), w.people)
		for range 40 {
			for range 25 {
				w.step()
			}
			if w.shell.down || w.rng.IntN(8) > 0 {
				continue
			}
			s := w.shell.snapshot()
			before := spelled(&s)
			o := sim.NewForecast(s, m).Run(seed, sim.Ask{Horizon: 24 * time.Hour, Decisions: 300})
			moments++
			for _, fate := range o.Fates {
				running := slices.ContainsFunc(s.Sessions, func(x threads.Session) bool {
					return x.Item.Ref == fate.Ref ||
						x.Item.Chain == fate.Ref
				})
				switch {
				case !fate.Merged.IsZero() && fate.Merged.Before(s.Now):
					t.Errorf("world %d: got %+v, merged before %s", seed, fate, s.Now)
				case !fate.Start.IsZero() && fate.Start.Before(s.Now) && !running:
					t.Errorf("world %d: got %+v, started before %s", seed, fate, s.Now)
				}
			}
			if after := spelled(&s); after != before {
				t.Fatalf("world %d: the forecast changed\n%s\nto\n%s", seed, before, after)
			}
		}
	}
	t.Logf("%d moments", moments)
}
