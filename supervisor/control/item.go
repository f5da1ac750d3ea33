package control

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
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

	// NotRead is the forge's error if it did not answer: the rest is then of the last scan and the journal.
	NotRead string `json:"not_read,omitempty"`
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
	// Kept is how many sessions are kept one by one, the first of which ended at From, and Ever is how many there were;
	// all are zero unless sessions of the time are no longer kept so.
	Kept int       `json:"kept,omitempty"`
	From time.Time `json:"from,omitzero"`
	Ever int64     `json:"ever,omitempty"`

	// Timeline lists the events other than sessions. It is left out if the query names an agent, a repository or an
	// outcome.
	ledger.Timeline
}

// HistoryQuery selects ended sessions. An empty field selects all.
type HistoryQuery struct {
	Agent, Repo string
	Outcome     agents.Result
	Since       time.Time
}

// ReadHistoryQuery reads the query of GET /v1/history: agent, repo and outcome are names, since is a time (RFC 3339).
func ReadHistoryQuery(query url.Values) (q HistoryQuery, err error) {
	q.Agent, q.Repo, q.Outcome = query.Get("agent"), query.Get("repo"), agents.Result(query.Get("outcome"))
	if q.Outcome != "" && !slices.Contains(agents.Results, q.Outcome) {
		return q, fmt.Errorf("no outcome is called %q: want one of %s", q.Outcome,
			strings.Trim(fmt.Sprint(agents.Results), "[]"))
	}
	if said := query.Get("since"); said != "" {
		if q.Since, err = time.Parse(time.RFC3339, said); err != nil {
			return q, fmt.Errorf("cannot read %q as a time: write it as 2026-01-31T12:00:00Z", said)
		}
	}
	return q, nil
}

// Fits reports whether the query selects a session.
func (q *HistoryQuery) Fits(p *ledger.Past) bool {
	return (q.Agent == "" || p.Agent == q.Agent) && (q.Repo == "" || strings.EqualFold(p.Ref.Repo, q.Repo)) &&
		(q.Outcome == "" || p.Outcome == q.Outcome) && !p.End.Before(q.Since)
}

// Forgotten says which sessions of the time are no longer listed; empty if none is.
func (d *HistoryDocument) Forgotten() string {
	if d.Kept == 0 {
		return ""
	}
	return fmt.Sprintf("lists sessions from %s UTC on: the newest %d of %d are kept; disinto report has the sums of the "+
		"others", minute(d.From), d.Kept, d.Ever)
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
			Author: r.Author, Verdict: verdicts[r.Verdict], At: r.Submitted, HeadSHA: r.CommitSHA,
			Words: strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(r.Body), "reviewed by "+r.Author)),
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
