package control

import (
	"testing"
	"time"
)

// TestHindsightLine covers the possible results of a comparison.
func TestHindsightLine(t *testing.T) {
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	same := func(v float64) Compared { return Compared{Was: v, Is: v} }
	base := Hindsight{
		At: noon, From: noon.Add(-26 * time.Hour), Until: noon.Add(-2 * time.Hour), Whole: true, Runs: 20,
		Merged: same(28), Wait: same(2400), USD: same(3),
	}
	for want, change := range map[string]func(h *Hindsight){
		"yesterday with this file: no difference: 28 merged": func(*Hindsight) {},
		"yesterday with this file: 31 merged instead of 28, waits 12 min shorter, 0.40 USD more": func(h *Hindsight) {
			h.Merged, h.Wait, h.USD = Compared{28, 31.2, 1}, Compared{2400, 1690, -1}, Compared{3, 3.4, 1}
		},
		"yesterday with this file: 28 merged as before, waits 1h30m longer": func(h *Hindsight) {
			h.Wait, h.USD = Compared{600, 6000, 1}, Compared{3, 3.4, 0}
		},
		"yesterday with this file: 25 merged instead of 28, 0.40 USD less": func(h *Hindsight) {
			h.Merged, h.USD = Compared{28, 25, -1}, Compared{3.4, 3, -1}
		},
		"in the day up to 20 Nov 18:00 UTC with this file: no difference: 28 merged": func(h *Hindsight) {
			h.From, h.Until = noon.Add(-90*time.Hour), noon.Add(-66*time.Hour)
		},
		"in the 5h00m from 05:00 UTC with this file: no difference: 28 merged": func(h *Hindsight) {
			h.Whole, h.From = false, noon.Add(-7*time.Hour)
		},
		"in the 5h00m from 22 Nov 07:00 UTC with this file: no difference: 28 merged": func(h *Hindsight) {
			h.Whole, h.From, h.Until = false, noon.Add(-29*time.Hour), noon.Add(-24*time.Hour)
		},
		"yesterday with this file: unknown: no run finished in time": func(h *Hindsight) { h.Runs = 0 },
		"yesterday with this file: 3 runs in time, too few to tell: about 31 merged instead of 28": func(h *Hindsight) {
			h.Few, h.Runs, h.Merged = true, 3, Compared{28, 31, 0}
		},
		"yesterday with this file: 30 merged, and 28 in the journal; waits of 38 min, and 40 min in the " +
			"journal": func(h *Hindsight) {
			h.Lived, h.Merged, h.Wait = true, Compared{28, 30, 0}, Compared{2400, 2280, 0}
		},
		"yesterday with this file: no difference: 28 merged; " +
			"no session shows yet how dev-a, dev-b would work": func(h *Hindsight) {
			h.Unknown = []string{"dev-a", "dev-b"}
		},
	} {
		h := base
		change(&h)
		if got := h.Line(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
