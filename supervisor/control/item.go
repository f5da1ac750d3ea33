package control

import (
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// ItemDocument is the life of an issue or pull request: the answer of GET /v1/show and of `disinto show --json`.
type ItemDocument struct {
	Repo    string    `json:"repo"`
	Number  int64     `json:"number"`
	Kind    string    `json:"kind"` // issue or pull
	Title   string    `json:"title"`
	Author  string    `json:"author"`
	Labels  []string  `json:"labels"`
	State   string    `json:"state"` // open, closed or merged
	FiledAt time.Time `json:"filed_at,omitzero"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Verdict string    `json:"verdict"` // the verdict of why, in one line
	Mend    string    `json:"mend"`    // a person's remedy; empty if waiting is right

	// Waited says what it waited for and how long, longest first, as far back as the supervisor's answers are kept.
	Waited []WaitDocument `json:"waited,omitempty"`

	Pulls    []PullDocument    `json:"pulls"`             // for an issue, all its pull requests; else itself
	Sessions []PastDocument    `json:"sessions"`          // ended, on the issue and its pull requests, oldest first
	Running  []SessionDocument `json:"running,omitempty"` // on any of them

	// DependsOn are the issues that it depends on, and Blocks those that wait for it, as far back as the facts go.
	DependsOn []threads.Member `json:"depends_on,omitempty"`
	Blocks    []threads.Member `json:"blocks,omitempty"`
}

// WaitDocument is the time that an item waited for one thing.
type WaitDocument struct {
	For     string       `json:"for,omitempty"` // such as "#12"; empty if only the code says it
	Code    threads.Code `json:"code"`
	Seconds int64        `json:"seconds"`
}

// The states of an issue or pull request.
const (
	StateOpen   = "open"
	StateClosed = "closed"
	StateMerged = "merged"
)

// PullDocument is a pull request in the life of an issue.
type PullDocument struct {
	Number   int64            `json:"number"`
	Title    string           `json:"title"`
	Author   string           `json:"author"`
	Head     string           `json:"head"` // branch
	HeadSHA  string           `json:"head_sha"`
	State    string           `json:"state"` // open, closed or merged
	OpenedAt time.Time        `json:"opened_at,omitzero"`
	EndedAt  time.Time        `json:"ended_at,omitzero"`
	Reviews  []ReviewDocument `json:"reviews"` // oldest first
}

// ReviewDocument is a review and its words.
type ReviewDocument struct {
	Author  string    `json:"author"`
	Verdict string    `json:"verdict"` // approved, changes or comment
	At      time.Time `json:"at"`
	Words   string    `json:"words"`
	HeadSHA string    `json:"head_sha"` // the commit that it was given for
}

// PastDocument is a session that has ended.
type PastDocument struct {
	ledger.Past
	Log string `json:"log"` // the path of its log; empty if it no longer exists
}

// HistoryDocument is the answer of GET /v1/history and of `disinto history --json`.
type HistoryDocument struct {
	Sessions []PastDocument `json:"sessions"` // oldest first

	// Timeline lists the events other than sessions. It is left out if the query names an agent.
	ledger.Timeline
}

// ItemOf returns the forge's part of an item's life; nil if it has neither an issue nor a pull request.
func ItemOf(item forge.Ref, look forge.ItemFacts) *ItemDocument {
	d := &ItemDocument{Repo: item.Repo, Number: item.Number, Labels: []string{}, Pulls: []PullDocument{}}
	pulls := look.Pulls
	switch {
	case look.Pull != nil:
		p := look.Pull
		d.Kind, d.Title, d.Author, d.State = "pull", p.Title, p.Author, stateOf(p)
		d.FiledAt, d.EndedAt, d.Labels = p.Created, p.Ended, append(d.Labels, p.Labels...)
		pulls = []forge.Pull{*p}
	case look.Issue != nil:
		is := look.Issue
		d.Kind, d.Title, d.Author, d.State = "issue", is.Title, is.Author, StateOpen
		d.FiledAt, d.EndedAt, d.Labels = is.Created, is.Ended, append(d.Labels, is.Labels...)
		if is.Closed {
			d.State = StateClosed
		}
	default:
		return nil
	}
	for i := range pulls {
		d.Pulls = append(d.Pulls, pullOf(&pulls[i]))
		if d.State == StateClosed && pulls[i].Merged {
			d.State = StateMerged
		}
	}
	return d
}

func pullOf(p *forge.Pull) PullDocument {
	d := PullDocument{
		Number: p.Number, Title: p.Title, Author: p.Author, Head: p.Head, HeadSHA: p.HeadSHA, State: stateOf(p),
		OpenedAt: p.Created, EndedAt: p.Ended, Reviews: []ReviewDocument{},
	}
	for _, r := range p.Reviews {
		d.Reviews = append(d.Reviews, ReviewDocument{
			Author: r.Author, Verdict: verdicts[r.Verdict], At: r.Submitted, Words: r.Body, HeadSHA: r.CommitSHA,
		})
	}
	return d
}

var verdicts = map[forge.Verdict]string{
	forge.Approved: "approved", forge.ChangesRequested: "changes", forge.Commented: "comment",
}

func stateOf(p *forge.Pull) string {
	switch {
	case p.Merged:
		return StateMerged
	case p.Closed:
		return StateClosed
	}
	return StateOpen
}
