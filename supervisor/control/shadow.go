package control

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// ShadowDocument describes the decisions of another build of the program, which [factory] decide names.
type ShadowDocument struct {
	Path    string    `json:"path"`
	Version string    `json:"version,omitempty"` // from its last answer
	AskedAt time.Time `json:"asked_at,omitzero"` // time of its last answer
	Error   string    `json:"error,omitempty"`   // why the newest question got no answer
	Total   Shadow    `json:"total"`             // since the supervisor started, or the program was configured
	Days    []Shadow  `json:"days"`              // newest first, at most ShadowDays; days in UTC
	Differs []Differs `json:"differences"`       // last seen first, at most ShadowDiffers
}

// Bounds of the lists in a ShadowDocument.
const (
	ShadowDays    = 7
	ShadowDiffers = 50
)

// Shadow counts decisions.
type Shadow struct {
	Day         string `json:"day,omitempty"` // such as 2026-11-23; left out of a total
	Decisions   int    `json:"decisions"`     // compared decisions
	Differing   int    `json:"differing"`     // those that differed
	Differences int    `json:"differences"`   // items with a pair of reasons, each counted once per day
	Skipped     int    `json:"skipped"`       // decisions that a newer one overtook
	Failed      int    `json:"failed"`        // questions without an answer
}

// Differs is an item that another build decides differently.
type Differs struct {
	Repo   string    `json:"repo"`
	Number int64     `json:"number"` // 0 for scheduled work
	Role   string    `json:"role,omitempty"`
	Here   string    `json:"here"`   // the decision in force, in words that follow "would"
	Shadow string    `json:"shadow"` // the other build's decision
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Times  int       `json:"times"` // number of decisions
}

// Line describes today's findings in one line.
func (d *ShadowDocument) Line(now time.Time) string {
	today := Shadow{}
	if len(d.Days) > 0 && d.Days[0].Day == now.UTC().Format(time.DateOnly) {
		today = d.Days[0]
	}
	name := strings.TrimSpace(d.Version + " " + d.Path)
	switch {
	case d.Error != "":
		return fmt.Sprintf("%s does not answer: %s", name, d.Error)
	case d.AskedAt.IsZero():
		return name + " has not been asked yet"
	case today.Differing == 0:
		return fmt.Sprintf("%s decides the same: %s today", name, Count(today.Decisions, "decision"))
	}
	return fmt.Sprintf("%s decides otherwise: %s today, in %d of %s", name, Count(today.Differences, "difference"),
		today.Differing, Count(today.Decisions, "decision"))
}

// Words describes the difference in one line.
func (d *Differs) Words(version string) string {
	on := ""
	if at := (forge.Ref{Repo: d.Repo, Number: d.Number}); !at.IsZero() {
		on = " on " + at.String()
	}
	if d.Role != "" {
		on += " (" + d.Role + ")"
	}
	return fmt.Sprintf("shadow %s%s: it would %s; in charge: %s", version, on, d.Shadow, d.Here)
}
