package ledger

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Sent records that a session with a claimed item is about to be given to its executor, where it may outlive the
// supervisor. It has everything that is needed to judge the session's end, because the next supervisor may have to.
type Sent struct {
	Run      string    `json:"run"`
	Title    string    `json:"title,omitempty"`
	Head     string    `json:"head,omitempty"`
	Base     string    `json:"base,omitempty"`
	Seen     time.Time `json:"seen,omitzero"`
	Reviewed int64     `json:"reviewed,omitempty"`
	Comments []int64   `json:"comments,omitempty"`
}

// SentOf returns the record of a session that is about to be sent.
func SentOf(run string, it *threads.Item) *Sent {
	return &Sent{
		Run: run, Title: it.Title, Head: it.HeadSHA, Base: it.Base, Seen: it.Seen, Reviewed: it.Reviewed,
		Comments: slices.Clone(it.Comments),
	}
}

func (r *Sent) valid() bool { return r.Run != "" }

func (r *Sent) apply(s *State, _ time.Time) {
	if open, known := s.Open[r.Run]; known {
		sent := *r
		open.Sent = &sent
		s.Open[r.Run] = open
	}
}

// Placed records since when, and where, the program of a session on another machine runs.
type Placed struct {
	Run   string    `json:"run"`
	Place string    `json:"place"`
	Began time.Time `json:"began"`
}

func (r *Placed) valid() bool { return r.Run != "" }

func (r *Placed) apply(s *State, _ time.Time) {
	open, known := s.Open[r.Run]
	if !known {
		return
	}
	open.Place, open.Began = r.Place, r.Began
	s.Open[r.Run] = open
	if open.Chain.Number > 0 {
		s.chain(open.Chain).Place = r.Place
	}
}

// Stop records why a session is about to be ended: the reason of the scheduler or of a person. The next supervisor may
// have to judge the end, and a session that a person cancelled stays cancelled.
type Stop struct {
	Run  string       `json:"run"`
	Code threads.Code `json:"code"`
	Why  string       `json:"why"` // the code in words, with its operands
}

func (r *Stop) valid() bool { return r.Run != "" && r.Code != "" }

// apply keeps the first reason, because the program gets no second one.
func (r *Stop) apply(s *State, _ time.Time) {
	if open, known := s.Open[r.Run]; known && open.Stop == nil {
		stop := *r
		open.Stop = &stop
		s.Open[r.Run] = open
	}
}

// Outlives reports whether the session can continue after its supervisor has ended: its executor may have got it.
func (o *Open) Outlives() bool { return o.Sent != nil }

// Session returns a session that outlives its supervisor as the scheduler's Session.
func (o *Open) Session() threads.Session {
	x := threads.Session{
		RunID: o.Run, Thread: o.Thread, Slot: o.Slot, Agent: o.Agent, Login: o.Login, Role: o.Role, State: threads.Running,
		Attempt: o.Attempt, Rung: o.Rung, Started: o.At, Used: o.Used,
	}
	if !o.Began.IsZero() {
		x.Started = o.Began
	}
	if o.Stop != nil {
		x.State = threads.Stopping
	}
	key := o.Item.Of()
	x.Item = threads.Item{
		Kind: key.Kind, Ref: key.Ref, Role: key.Role, Chain: forge.Ref(o.Chain), Title: o.Sent.Title, Priority: o.Priority,
		Since: o.Ready, HeadSHA: o.Sent.Head, Base: o.Sent.Base, Seen: o.Sent.Seen, Reviewed: o.Sent.Reviewed, Cause: o.Cause,
		Comments: slices.Clone(o.Sent.Comments), Author: o.Author,
		Opener: o.Opener,
	}
	return x
}
