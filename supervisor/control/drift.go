package control

import (
	"fmt"
	"strings"
	"time"
)

// Drift compares the waits of issues with those that earlier sessions predict.
type Drift struct {
	At   time.Time  `json:"at"`   // time of the check
	Fits bool       `json:"fits"` // no evidence against the model of the factory
	Days []DriftDay `json:"days"` // the newest three that can be judged, newest first
	// Misses means that waits were longer (1) or shorter (-1) than predicted on two days of three; 0: neither.
	Misses int `json:"misses"`
	// Changes lists what differs in these days from before, the largest effect on time first.
	Changes []DriftChange `json:"changes"`
}

// DriftDay is a day in UTC.
type DriftDay struct {
	Day    string    `json:"day"`    // such as 2026-11-23
	Issues int       `json:"issues"` // filed on that day
	Misses int       `json:"misses"` // as in Drift
	Half   DriftWait `json:"half_seconds"`
	Most   DriftWait `json:"most_seconds"` // of 95 % of the issues
}

// DriftWait is how long a share of the issues waited for their first sessions, and the prediction: at most Low in one
// run of ten, Middle in five, High in nine.
type DriftWait struct {
	Low    float64 `json:"low"`
	Middle float64 `json:"middle"`
	High   float64 `json:"high"`
	Real   float64 `json:"real"`
}

// DriftChange is a difference from before: in seconds, or for failures and outages as a share.
type DriftChange struct {
	Kind  string  `json:"kind"`  // agent, checks, forge, people, failures or outages
	What  string  `json:"what"`  // such as "issue, dev-qwen" or "merge"
	Was   float64 `json:"was"`   // median
	Is    float64 `json:"is"`    // median of the newest three days
	Times int     `json:"times"` // observations in these days
}

// Line describes a drift in one line.
func (d *Drift) Line() string {
	var parts []string
	for i := range d.Days {
		if day := &d.Days[i]; d.Misses != 0 && day.Misses == d.Misses {
			parts = append(parts, day.words())
			break
		}
	}
	for i := range d.Changes {
		parts = append(parts, d.Changes[i].words())
	}
	switch {
	case !d.Fits:
		return "the model of the factory no longer fits: " + strings.Join(parts, "; ")
	case len(d.Days) == 0:
		return "no day can be judged yet"
	}
	return "the model of the factory fits: " + d.Days[0].words()
}

// words describes the wait that fits least.
func (d *DriftDay) words() string {
	w, who := &d.Half, "half of the issues"
	if d.Misses != 0 && w.Real >= w.Low && w.Real <= w.High {
		w, who = &d.Most, "95 % of the issues"
	}
	return fmt.Sprintf("on %s %s waited up to %s, and %s to %s were expected", d.Day, who, brief(w.Real),
		brief(w.Low), brief(w.High))
}

// words describes the change and its size.
func (c *DriftChange) words() string {
	what, agent, _ := strings.Cut(c.What, ", ")
	text := map[string]string{
		"agent": agent + " takes %s for " + what + " sessions", "checks": "checks take %s", "people": "people take %s",
		"failures": "%s of the sessions fail", "outages": "%s of the sessions meet no backend or a usage limit,",
	}[c.Kind]
	show := brief
	switch c.Kind {
	case "forge":
		text = map[string]string{
			"merge": "the forge merges %s after an approval", "handover": "the next session starts %s after the last",
		}[c.What]
		if text == "" {
			text = "a new issue waits %s beside a free agent"
		}
		if c.Is > c.Was {
			text = "the forge answers late: " + text
		}
	case "failures", "outages":
		show = func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
	}
	text = strings.Replace(text, "%s", show(c.Is), 1)
	of := "time"
	if c.Kind == "failures" || c.Kind == "outages" {
		of = "session"
	}
	return fmt.Sprintf("%s instead of %s (%s in 3 days)", text, show(c.Was), Count(c.Times, of))
}

// brief writes times below two minutes in seconds, and longer ones in minutes.
func brief(seconds float64) string {
	if d := time.Duration(seconds * float64(time.Second)); d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return about(seconds)
}
