package sim

import (
	"testing"
	"time"
)

// holdTable is the hold of these trials. A context of their loads takes 25 to 250 s to read again.
const holdTable = 2 * time.Minute

// TestHold is the experiment behind hold. Always waiting for two minutes wins where
// verdicts come fast, and is ruinous where they do not. Waiting only while verdicts have come faster than the context
// could be read again keeps all of the gain, and loses next to nothing.
func TestHold(t *testing.T) {
	if !storms() {
		t.Skip("days of work, many times over: needs DISINTO_STORMS=1")
	}
	always := Ours
	always.Trusting = true
	ratios := make(map[time.Duration][2]float64) // at the highest load: always/never and learned/never
	for _, review := range []time.Duration{15 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		for _, busy := range []float64{0.4, 0.7, 0.95} {
			never := holdTrial(t, Ours, 0, busy, review)
			a := holdTrial(t, always, holdTable, busy, review)
			l := holdTrial(t, Ours, holdTable, busy, review)
			t.Logf("| %s | %.0f %% | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |", review, 100*busy,
				never.minutes, a.minutes, l.minutes, never.reloaded, a.reloaded, l.reloaded)
			if l.minutes > never.minutes*1.005 || l.reloaded > never.reloaded*1.005 {
				t.Errorf("review %s, busy %.2f: got %.1f min with learned verdicts, want at most the %.1f min without hold",
					review, busy, l.minutes, never.minutes)
			}
			ratios[review] = [2]float64{a.minutes / never.minutes, l.minutes / never.minutes}
		}
	}
	for review, want := range map[time.Duration]float64{15 * time.Second: 0.65, time.Minute: 0.8} {
		if got := ratios[review]; got[0] > want || got[1] > want {
			t.Errorf("review %s: got %.2f (always) and %.2f (learned) of the time without hold, want at most %.2f", review,
				got[0], got[1], want)
		}
	}
	if got := ratios[4*time.Minute]; got[0] < 1.4 {
		t.Errorf("slow reviews: got %.2f (always) of the time without hold, want at least 1.4", got[0])
	}
}

// TestHoldMixed: half of the verdicts come at once, the others after ten minutes. Their mean rules out waiting, and
// nothing is lost.
func TestHoldMixed(t *testing.T) {
	if !storms() {
		t.Skip("days of work, many times over: needs DISINTO_STORMS=1")
	}
	never, l := heldFor{}, heldFor{}
	for seed := range uint64(3) {
		load := chains(0.7, 15*time.Second, seed)
		for i := range load {
			if i%2 == 0 {
				load[i].Review = 10 * time.Minute
			}
		}
		never.add(t, Trial{Config: fleet(4, 2, 2), Load: load, Policy: Ours, Seed: 1})
		cfg := fleet(4, 2, 2)
		cfg.Thread("write").Hold = holdTable
		l.add(t, Trial{Config: cfg, Load: load, Policy: Ours, Seed: 1})
	}
	t.Logf("mixed: %.1f min without hold, %.1f with learned verdicts", never.minutes/3, l.minutes/3)
	if l.minutes > never.minutes*1.02 {
		t.Errorf("mixed: got %.1f min with learned verdicts, want about the %.1f min without hold", l.minutes/3,
			never.minutes/3)
	}
}

// heldFor sums up reports.
type heldFor struct{ minutes, reloaded float64 } // from filing to done; millions of tokens read again

func (h *heldFor) add(t *testing.T, trial Trial) {
	t.Helper()
	r := trial.Run()
	r.whole(t, "hold")
	h.minutes += r.Turn.Mean.Minutes()
	h.reloaded += float64(r.Reloaded) / 1e6
}

func holdTrial(t *testing.T, p Policy, hold time.Duration, busy float64, review time.Duration) (sum heldFor) {
	t.Helper()
	const seeds = 4
	cfg := fleet(4, 2, 2)
	cfg.Thread("write").Hold = hold
	for seed := range uint64(seeds) {
		sum.add(t, Trial{Config: cfg, Load: chains(busy, review, seed), Policy: p, Seed: 1})
	}
	return heldFor{sum.minutes / seeds, sum.reloaded / seeds}
}
