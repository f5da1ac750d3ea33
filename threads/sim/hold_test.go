package sim

import (
	"testing"
	"time"
)

// TestHold is the experiment behind what CONTRIBUTING says of keeping a slot empty for the agent whose pull request is being
// reviewed. Always waiting two minutes wins where verdicts come fast, and is ruinous where they do not. Waiting only while
// verdicts have come faster than the context could be read again keeps nearly all of that, and loses next to nothing.
func TestHold(t *testing.T) {
	if ordinary < enough {
		t.Skip("the same arithmetic, ten times slower")
	}
	always := Ours
	always.Hold = 2 * time.Minute
	learned := always
	learned.Learn = true
	ratios := make(map[time.Duration][2]float64) // at the highest load: of always and learned to never
	for _, review := range []time.Duration{15 * time.Second, time.Minute, 4 * time.Minute} {
		for _, busy := range []float64{0.4, 0.7, 0.95} {
			never, a, l := holdTrial(t, Ours, busy, review), holdTrial(t, always, busy, review), holdTrial(t, learned, busy, review)
			t.Logf("| %s | %.0f %% | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |", review, 100*busy, never.minutes, a.minutes, l.minutes,
				never.reloaded, a.reloaded, l.reloaded)
			if l.minutes > never.minutes*1.02 {
				t.Errorf("review %s, busy %.2f: %.1f min with what was learned, %.1f without", review, busy, l.minutes, never.minutes)
			}
			ratios[review] = [2]float64{a.minutes / never.minutes, l.minutes / never.minutes}
		}
	}
	for review, want := range map[time.Duration]float64{15 * time.Second: 0.75, time.Minute: 0.9} {
		if got := ratios[review]; got[0] > want || got[1] > want {
			t.Errorf("review %s: holding makes it %.2f and %.2f, want at most %.2f", review, got[0], got[1], want)
		}
	}
	if got := ratios[4*time.Minute]; got[0] < 1.4 || got[1] > 1.001 {
		t.Errorf("slow reviews: always holding makes it %.2f, learning %.2f", got[0], got[1])
	}
}

// heldFor is what a policy comes to on average.
type heldFor struct{ minutes, reloaded float64 } // to done; millions of tokens read again

func holdTrial(t *testing.T, p Policy, busy float64, review time.Duration) (sum heldFor) {
	t.Helper()
	const seeds = 5
	for seed := range uint64(seeds) {
		r := Trial{Config: Fleet(4, 2, 2), Load: chains(busy, review, seed), Policy: p, Seed: 1}.Run()
		r.whole(t, "hold")
		sum.minutes += r.Turn.Mean.Minutes() / seeds
		sum.reloaded += float64(r.Reloaded) / 1e6 / seeds
	}
	return sum
}
