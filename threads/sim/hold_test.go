package sim

import (
	"testing"
	"time"
)

// holdTable is the hold of these trials. A context of their loads takes 25 to 250 s to read again.
const holdTable = 2 * time.Minute

// TestHold: waiting while verdicts have come faster than the context could be read again gains much where they come
// fast, and loses next to nothing where they do not.
func TestHold(t *testing.T) {
	if !storms() {
		t.Skip("days of work, many times over: needs DISINTO_STORMS=1")
	}
	ratios := make(map[time.Duration]float64) // of the time without hold, at the highest load
	for _, review := range []time.Duration{15 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute} {
		for _, busy := range []float64{0.4, 0.7, 0.95} {
			never, l := holdTrial(t, 0, busy, review), holdTrial(t, holdTable, busy, review)
			t.Logf("| %s | %.0f %% | %.1f | %.1f | %.1f | %.1f |", review, 100*busy, never.minutes, l.minutes, never.reloaded,
				l.reloaded)
			if l.minutes > never.minutes*1.005 || l.reloaded > never.reloaded*1.005 {
				t.Errorf("review %s, busy %.2f: got %.1f min with learned verdicts, want at most the %.1f min without hold",
					review, busy, l.minutes, never.minutes)
			}
			ratios[review] = l.minutes / never.minutes
		}
	}
	for review, want := range map[time.Duration]float64{15 * time.Second: 0.65, time.Minute: 0.8} {
		if got := ratios[review]; got > want {
			t.Errorf("review %s: got %.2f of the time without hold, want at most %.2f", review, got, want)
		}
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

func holdTrial(t *testing.T, hold time.Duration, busy float64, review time.Duration) (sum heldFor) {
	t.Helper()
	const seeds = 4
	cfg := fleet(4, 2, 2)
	cfg.Thread("write").Hold = hold
	for seed := range uint64(seeds) {
		sum.add(t, Trial{Config: cfg, Load: chains(busy, review, seed), Policy: Ours, Seed: 1})
	}
	return heldFor{sum.minutes / seeds, sum.reloaded / seeds}
}
