package control

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Hindsight says what another factory.toml would have changed about the newest day of the journal.
type Hindsight struct {
	At    time.Time `json:"at"`            // when it was asked
	From  time.Time `json:"from"`          // of what was played
	Until time.Time `json:"until"`         // when the newest session ended
	Whole bool      `json:"whole"`         // from From to Until is a day: the journal is old enough
	Runs  int       `json:"runs"`          // under each configuration; both met the same luck
	Few   bool      `json:"few,omitempty"` // too few runs were over in time to tell a difference from chance
	// Lived says that nothing tells the configuration of that day: the first numbers are counted from the journal.
	Lived  bool     `json:"lived,omitempty"`
	Merged Compared `json:"merged"`
	Wait   Compared `json:"wait_seconds"` // of an issue for its first session
	USD    Compared `json:"usd"`
	// Unknown are the agents of which no session tells how they work now: new ones, and those with another model, role
	// or program. They count as before, or as the others of their thread.
	Unknown []string `json:"unknown,omitempty"`
}

// Compared is a number under both configurations, on the average of the runs.
type Compared struct {
	Was float64 `json:"was"`
	Is  float64 `json:"is"`
	// Differs says which way it went, 1 or -1; 0 where chance would explain the difference.
	Differs int `json:"differs"`
}

// Line is a hindsight in a line.
func (h *Hindsight) Line() string {
	text := h.when() + " with this file: " + h.result()
	if len(h.Unknown) > 0 {
		text += "; no session tells yet how " + strings.Join(h.Unknown, ", ") + " would work"
	}
	return text
}

// when names what was played.
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
		return "no run was over in time, so that nothing is known"
	case h.Lived:
		return fmt.Sprintf("%.0f merged, where the journal tells of %.0f, and waits of %s, where it tells of %s",
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

// about writes seconds without what no simulation knows.
func about(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Minute)
	if d < time.Hour {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return About(d)
}
