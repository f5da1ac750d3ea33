package control

import "codeberg.org/johba/disinto/forge/plan"

// ItemRequest names an issue or pull request: 12, #12 or owner/name#12. It is the request of cancel, retry, release and
// convoy/start.
type ItemRequest struct {
	Ref string `json:"ref"`
}

// AdoptRequest asks for a new identity.
type AdoptRequest struct{}

// TellRequest is a text for the session that writes for an issue or pull request: see agents.Message.
type TellRequest struct {
	Ref  string `json:"ref"`
	Text string `json:"text"`
	By   string `json:"by,omitempty"`
}

// PauseRequest names what to pause or resume.
type PauseRequest struct {
	// Name is a thread, an agent or a repository; empty means everything.
	Name string `json:"name"`
	By   string `json:"by,omitempty"`  // who pauses; shown beside the pause
	Why  string `json:"why,omitempty"` // likewise
}

// DrainRequest asks to finish what is begun, and to start no new work.
type DrainRequest struct {
	ThenStop bool   `json:"then_stop,omitempty"` // end the supervisor once that is done
	DryRun   bool   `json:"dry_run,omitempty"`   // report, and change nothing
	By       string `json:"by,omitempty"`
	Why      string `json:"why,omitempty"`
}

// ServiceRequest names a service. It is the request of restart, start and stop.
type ServiceRequest struct {
	Service string `json:"service"`
}

// SlingRequest hands one issue to the scheduler: an existing one by Ref, or a new one by Title.
type SlingRequest struct {
	// Ref is an existing issue, or the name of a scheduled role that runs now.
	Ref string `json:"ref,omitempty"`

	Title     string   `json:"title,omitempty"`
	Body      string   `json:"body,omitempty"`
	Repo      string   `json:"repo,omitempty"`       // empty: the factory's only repository
	Role      string   `json:"role,omitempty"`       // role whose agents may take it; its label is added
	Skills    []string `json:"skills,omitempty"`     // labels skill/X
	Priority  int      `json:"priority,omitempty"`   // label priority/N, 1 to 10; 0 adds none
	DependsOn []string `json:"depends_on,omitempty"` // references of issues
}

// ConvoyRequest makes a convoy: of existing issues, or of a plan whose tasks become issues.
type ConvoyRequest struct {
	Title   string     `json:"title,omitempty"`
	Body    string     `json:"body,omitempty"`
	Repo    string     `json:"repo,omitempty"`    // empty: the factory's only one, or the first member's
	Members []string   `json:"members,omitempty"` // references of issues
	Plan    *plan.Plan `json:"plan,omitempty"`
	Chain   bool       `json:"chain,omitempty"`  // each member depends on the one before it
	Staged  bool       `json:"staged,omitempty"` // nothing starts until convoy/start
}

// ConvoyCancelRequest cancels a convoy.
type ConvoyCancelRequest struct {
	Ref   string `json:"ref"`
	Drain bool   `json:"drain,omitempty"` // let members in work finish
	Close bool   `json:"close,omitempty"` // close the issues too
}

// UpgradeRequest names the program that replaces this one; empty means the file that this one started from.
type UpgradeRequest struct {
	Binary string `json:"binary"`
}

// RebalanceRequest makes a fleet's hub look for issues to move now.
type RebalanceRequest struct {
	DryRun bool `json:"dry_run"` // move nothing
}
