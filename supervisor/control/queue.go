package control

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Status says in a word what an open item waits for.
type Status string

// The statuses, in the order in which people should look at them.
const (
	NeedsYou   Status = "needs-you" // only a person can let it continue, and may not know it
	Running    Status = "running"   // a session works on it
	Queued     Status = "queued"    // it starts as soon as an agent and a slot are free
	InReview   Status = "in-review" // its pull request, or another session on it, has to end first
	Merging    Status = "merging"   // its checks or its merge
	Blocked    Status = "blocked"   // another issue has to be done first
	BackingOff Status = "backing-off"
	Limited    Status = "limited" // by a rate limit or a budget
	Paused     Status = "paused"
	Held       Status = "held" // a person chose that it waits
	Scheduled  Status = "scheduled"
	Unlabelled Status = "unlabelled" // it is not labelled backlog
)

// Statuses are all statuses, in the same order.
var Statuses = []Status{
	NeedsYou, Running, Queued, InReview, Merging, Blocked, BackingOff, Limited, Paused, Held, Scheduled, Unlabelled,
}

// statuses has the codes whose class does not decide the status.
var statuses = map[threads.Code]Status{
	threads.HasSession: Running, threads.NotBacklog: Unlabelled, threads.NotDue: Scheduled,
	threads.HasPull: InReview, threads.ChainBusy: InReview, threads.Unreviewed: InReview,
	threads.MergedNotClosed: Merging, threads.CIPending: Merging, threads.MergeAgain: Merging,
	threads.MergeLate: Merging, threads.MergeQueued: Merging,
	threads.CoolDown: BackingOff, threads.AgentHeld: BackingOff, threads.NoAnswer: BackingOff,
	threads.ThreadDown: BackingOff,
	threads.ThreadPark: Limited, threads.OverBudget: Limited, threads.OverWindow: Limited, threads.WindowKept: Limited,
	threads.ReviewLimit: Limited, threads.OpenerLimit: Limited, threads.Paused: Paused, threads.Draining: Paused,
}

// Status returns the item's status.
func (q *QueueDocument) Status() Status {
	known, is := statuses[q.Code]
	switch {
	case q.NeedsPerson:
		return NeedsYou
	case is:
		return known
	case q.Code.Ends() == threads.ByChoice:
		return Held
	case q.Code.Class() == threads.Blocked && q.Code.Ends() == threads.ByItself:
		return Blocked
	}
	return Queued
}

// QueueQuery chooses open items: a page of those that every field fits which is not empty.
type QueueQuery struct {
	Status Status
	Repo   string
	Agent  string // whom the reason names
	Kind   agents.Kind
	Text   string // part of the title or of the reference
	Rows   int    // of a page; 0 chooses none
	Page   int    // from 1 on
}

// ReadQueueQuery reads the query of GET /v1/state; nil without rows, which asks for all items.
func ReadQueueQuery(v url.Values) (*QueueQuery, error) {
	if v.Get("rows") == "" {
		return nil, nil
	}
	q := &QueueQuery{
		Status: Status(v.Get("status")), Repo: v.Get("repo"), Agent: v.Get("agent"), Kind: agents.Kind(v.Get("kind")),
		Text: strings.ToLower(strings.TrimSpace(v.Get("q"))), Page: 1,
	}
	for name, n := range map[string]*int{"rows": &q.Rows, "page": &q.Page} {
		said := v.Get(name)
		if said == "" {
			continue
		}
		var err error
		if *n, err = strconv.Atoi(said); err != nil || *n < 0 || name == "page" && *n < 1 {
			return nil, Invalid("cannot read %q as a number of %ss", said, strings.TrimSuffix(name, "s"))
		}
	}
	if q.Status != "" && !slices.Contains(Statuses, q.Status) {
		return nil, Invalid("cannot choose items by the status %q: %s", q.Status, listed(Statuses))
	}
	return q, nil
}

func listed(list []Status) string {
	var names []string
	for _, s := range list {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// fits reports whether an item is one of the query's, whatever its status.
func (q *QueueQuery) fits(d *QueueDocument) bool {
	return (q.Repo == "" || d.Repo == q.Repo) && (q.Agent == "" || d.Agent == q.Agent) &&
		(q.Kind == "" || d.Kind == q.Kind) &&
		(q.Text == "" || strings.Contains(strings.ToLower(d.Title), q.Text) ||
			strings.Contains(forge.Ref{Repo: d.Repo, Number: d.Number}.String(), q.Text))
}

// WaitingDocument counts the open items, of which a query chooses some.
type WaitingDocument struct {
	Queue    int `json:"queue"`
	Unqueued int `json:"unqueued"`
	// Statuses counts the items that fit the query, by status, whatever status it asks for.
	Statuses map[Status]int `json:"statuses"`
	// Fits counts the items of the query's status, of which Queue has a page.
	Fits int `json:"fits"`
	// Needs are the items that need a person, whether they fit or not: the oldest first, at most NeedsLimit of NeedYou.
	NeedYou int             `json:"need_you"`
	Needs   []QueueDocument `json:"needs"`
	// Closed are items that are not open any more, if the query has a text: see QueueQuery.Closed.
	Closed []ClosedDocument `json:"closed,omitempty"`
}

// ClosedDocument is an item that is not open any more.
type ClosedDocument struct {
	Repo   string    `json:"repo"`
	Number int64     `json:"number"`
	Title  string    `json:"title"`
	Last   time.Time `json:"last"` // when its last session ended
}

// ClosedLimit is how many closed items a WaitingDocument has.
const ClosedLimit = 20

// Closed returns the items of ended sessions that the query's text fits and that are not open, the newest first.
func (q *QueueQuery) Closed(past []ledger.Past, open func(forge.Ref) bool) (list []ClosedDocument) {
	if q.Text == "" || q.Status != "" {
		return nil
	}
	seen := make(map[ledger.Ref]bool)
	for i := len(past) - 1; i >= 0 && len(list) < ClosedLimit; i-- {
		p := &past[i]
		d := &QueueDocument{Repo: p.Ref.Repo, Number: p.Ref.Number, Title: p.Title, Agent: p.Agent, Kind: p.Kind}
		if p.Ref.Number == 0 || seen[p.Ref] || !q.fits(d) {
			continue
		}
		if seen[p.Ref] = true; !open(forge.Ref(p.Ref)) {
			list = append(list, ClosedDocument{p.Ref.Repo, p.Ref.Number, p.Title, p.End})
		}
	}
	return list
}

// NeedsLimit is how many items that need a person a WaitingDocument has.
const NeedsLimit = 10

// Choose keeps the query's items in Queue, and one page of the items that are not queued in Unqueued. A query for a
// text finds these too, and the items that run.
func (d *Document) Choose(q *QueueQuery) {
	w := &WaitingDocument{
		Queue: len(d.Queue), Unqueued: len(d.Unqueued), Statuses: make(map[Status]int), Needs: []QueueDocument{},
	}
	first := (max(q.Page, 1) - 1) * q.Rows
	chosen := make([]QueueDocument, 0, min(q.Rows, len(d.Queue)))
	look := func(item *QueueDocument, status Status, waits bool) {
		if item.NeedsPerson {
			w.Needs = append(w.Needs, *item)
		}
		if !q.fits(item) {
			return
		}
		w.Statuses[status]++
		if q.Status != status && (q.Status != "" || !waits && q.Text == "") {
			return
		}
		if w.Fits++; w.Fits > first && len(chosen) < q.Rows {
			chosen = append(chosen, *item)
		}
	}
	for i := range d.Sessions {
		look(d.Sessions[i].item(), Running, false)
	}
	for i := range d.Queue {
		look(&d.Queue[i], d.Queue[i].Status(), true)
	}
	for i := range d.Unqueued {
		status := Unlabelled
		if d.Unqueued[i].NeedsPerson {
			status = NeedsYou
		}
		look(&d.Unqueued[i], status, status == NeedsYou)
	}
	slices.SortStableFunc(w.Needs, func(a, b QueueDocument) int { return a.Since.Compare(b.Since) })
	w.NeedYou = len(w.Needs)
	w.Needs = w.Needs[:min(len(w.Needs), NeedsLimit)]
	d.Waiting, d.Queue, d.Unqueued = w, chosen, d.Unqueued[:min(len(d.Unqueued), q.Rows)]
}

// item returns the session's item as if it waited.
func (x *SessionDocument) item() *QueueDocument {
	return &QueueDocument{
		Repo: x.Repo, Number: x.Number, Kind: x.Kind, Title: x.Title, Code: threads.HasSession, Agent: x.Agent,
		Why: threads.Reason{Code: threads.HasSession, Agent: x.Agent}.Text(), Since: x.StartedAt,
	}
}
