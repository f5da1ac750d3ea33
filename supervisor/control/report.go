package control

import (
	"encoding/json"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Report says what a command did. It is the answer of every POST except sling, fleet/rebalance and hook.
type Report struct {
	// Subject is the item, thread or agent, such as owner/name#12.
	Subject string `json:"subject"`
	// Did lists the actions, in order, in words; empty if there was nothing to do.
	Did []string `json:"did"`
	// Note adds information for people, such as why nothing was done; often empty.
	Note string `json:"note"`
	// Pending says which steps the supervisor will still do by itself, and why; empty when all is done.
	Pending string `json:"pending"`
}

// MarshalJSON encodes an empty Did as a list.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	if r.Did == nil {
		r.Did = []string{}
	}
	return json.Marshal(plain(r))
}

// Add appends an action.
func (r *Report) Add(format string, args ...any) { r.Did = append(r.Did, fmt.Sprintf(format, args...)) }

// Line formats the answer for people.
func (r *Report) Line() string {
	parts := r.Did
	if len(parts) == 0 && r.Note == "" && r.Pending == "" {
		parts = []string{"nothing to do"}
	}
	line := r.Subject + ": " + strings.Join(parts, ", ")
	for _, more := range []string{r.Note, r.Pending} {
		switch {
		case more == "":
		case strings.HasSuffix(line, ": "):
			line += more
		default:
			line += "; " + more
		}
	}
	return line
}

// SlingReport names the session on an issue, or says why there is none yet.
type SlingReport struct {
	Repo   string `json:"repo"`
	Number int64  `json:"number"`
	Role   string `json:"role,omitempty"` // of scheduled work, whose number is 0
	Filed  bool   `json:"filed"`          // sling created the issue

	Agent  Assigned             `json:"agent"` // empty: no session yet
	Thread string               `json:"thread"`
	Slot   int                  `json:"slot"`
	State  threads.SessionState `json:"state"`

	Code     threads.Code `json:"code"`     // why there is no session
	Why      string       `json:"why"`      // the same in words
	Position int          `json:"position"` // in the queue, from 1; 0 when it is not in the queue
}

// Assigned is the name of an agent; in JSON it is null if none is assigned.
type Assigned string

// MarshalJSON encodes an empty name as null.
func (a Assigned) MarshalJSON() ([]byte, error) {
	if a == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(a))
}

// Line formats the answer for people.
func (r *SlingReport) Line() string {
	ref := forge.Ref{Repo: r.Repo, Number: r.Number}.String()
	if r.Role != "" {
		ref = r.Role + " on " + r.Repo
	}
	switch {
	case r.Agent != "":
		return fmt.Sprintf("%s is on it: %s, slot %s/%d", r.Agent, ref, r.Thread, r.Slot)
	case r.Position > 0:
		return fmt.Sprintf("%s: not yet: %s (place %d in the queue)", ref, r.Why, r.Position)
	}
	return fmt.Sprintf("%s: not yet: %s", ref, r.Why)
}

// Convoys is the answer of GET /v1/convoys.
type Convoys struct {
	Convoys []threads.Convoy `json:"convoys"`
}
