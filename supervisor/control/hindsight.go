package control

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Hindsight says what another factory.toml would have changed about the journal's newest day.
type Hindsight struct {
	At    time.Time `json:"at"`            // time of the request
	From  time.Time `json:"from"`          // start of the replayed span
	Until time.Time `json:"until"`         // when the newest session ended
	Whole bool      `json:"whole"`         // From to Until is a whole day: the journal is old enough
	Runs  int       `json:"runs"`          // runs under each configuration, with the same random numbers
	Few   bool      `json:"few,omitempty"` // too few runs finished in time to distinguish a difference from chance
	// Lived means that the configuration of that day is unknown: the Was numbers are counted from the journal.
	Lived  bool     `json:"lived,omitempty"`
	Merged Compared `json:"merged"`
	Wait   Compared `json:"wait_seconds"` // wait of an issue for its first session
	USD    Compared `json:"usd"`
	// Unknown lists the agents without a session in their present form: new ones, and those with another model, role or
	// program. The simulation gives them their earlier sessions' outcomes, or those of the other agents of their thread.
	Unknown []string `json:"unknown,omitempty"`
}

// Compared is a number under both configurations, averaged over the runs.
type Compared struct {
	Was float64 `json:"was"`
	Is  float64 `json:"is"`
	// Differs is the direction of the difference, 1 or -1; 0 if chance could explain it.
	Differs int `json:"differs"`
}

// Line formats a hindsight in one line.
func (h *Hindsight) Line() string {
	text := h.when() + " with this file: " + h.result()
	if len(h.Unknown) > 0 {
		text += "; no session shows yet how " + strings.Join(h.Unknown, ", ") + " would work"
	}
	return text
}

// when names the replayed span.
func (h *Hindsight) when() string {
	switch past := h.At.Sub(h.Until); {
	case !h.Whole:
		form := "15:04 MST"
		if past > 18*time.Hour {
			form = "2 Jan 15:04 MST"
		}
		return fmt.Sprintf("in the %s from %s", About(h.Until.Sub(h.From)), h.From.Format(form))
	case past > 24*time.Hour:
		return "in the day up to " + h.Until.Format("2 Jan 15:04 MST")
	}
	return "yesterday"
}

func (h *Hindsight) result() string {
	merged := math.Round(h.Merged.Was)
	switch {
	case h.Runs == 0:
		return "unknown: no run finished in time"
	case h.Lived:
		return fmt.Sprintf("%.0f merged, and %.0f in the journal; waits of %s, and %s in the journal",
			h.Merged.Is, merged, about(h.Wait.Is), about(h.Wait.Was))
	case h.Few:
		return fmt.Sprintf("%s in time, too few to tell: about %.0f merged instead of %.0f", Count(h.Runs, "run"),
			h.Merged.Is, merged)
	case h.Merged.Differs == 0 && h.Wait.Differs == 0 && h.USD.Differs == 0:
		return fmt.Sprintf("no difference: %.0f merged", merged)
	}
	parts := []string{fmt.Sprintf("%.0f merged as before", merged)}
	if h.Merged.Differs != 0 {
		parts[0] = fmt.Sprintf("%.0f merged instead of %.0f", h.Merged.Is, merged)
	}
	if by := h.Wait.Is - h.Wait.Was; h.Wait.Differs != 0 {
		parts = append(parts, "waits "+about(math.Abs(by))+map[int]string{1: " longer", -1: " shorter"}[h.Wait.Differs])
	}
	if by := h.USD.Is - h.USD.Was; h.USD.Differs != 0 {
		parts = append(parts, fmt.Sprintf("%.2f USD%s", math.Abs(by), map[int]string{1: " more", -1: " less"}[h.USD.Differs]))
	}
	return strings.Join(parts, ", ")
}

// about formats seconds without the precision that a simulation lacks.
func about(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return About(d)
}
