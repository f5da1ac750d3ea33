package sim

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// scheduledTime is how long a scheduled role's session takes: nobody says it of a load.
const scheduledTime = 5 * time.Minute

// file opens the issue of a piece of work.
func (f *floor) file(w *Work) {
	t := &ticket{Work: *w, hidden: f.Policy.Push > 0}
	if t.Work.Repo == "" {
		t.Work.Repo = f.Config.Forge.Repos[0]
	}
	t.Issue = forge.Issue{
		Ref: forge.Ref{Repo: t.Work.Repo, Number: f.number()}, Created: f.now, Updated: f.now, BlockersKnown: true, Author: "ada", Labels: labelsOf(w),
	}
	t.label("", "")
	if a := f.Config.Agent(w.Pin); a != nil {
		t.Assignees = pinned(a.Login)
		t.Pin = a.Login
		t.hidden = false
	}
	f.tickets = append(f.tickets, t)
	if len(w.Sessions) == 0 {
		f.close(t)
	}
	f.change()
}

// number is that of the next issue or pull request. Every pull request has its issue's, and a million: so both are found
// at once.
func (f *floor) number() int64 { return int64(len(f.tickets) + 1) }

const pullNumber = 1_000_000

// ticket finds an issue by itself or by its pull request.
func (f *floor) ticket(ref forge.Ref) *ticket {
	n := int(ref.Number % pullNumber)
	if n < 1 || n > len(f.tickets) {
		return nil
	}
	return f.tickets[n-1]
}

// start takes what a session needs, and begins it once its item is claimed.
func (f *floor) start(s threads.Start) {
	x := &shift{Session: threads.Session{
		RunID: fmt.Sprintf("run-%07d", f.seen.Sessions), Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Role: s.Role,
		Login: f.Config.Agent(s.Agent).Login, Item: s.Item, State: threads.Reserved, Attempt: 1, Started: f.now,
	}}
	f.seen.Sessions++
	f.moved = true
	if f.history.Item(s.Item.Key()).PassedOver >= threads.PassedOverLimit {
		f.seen.Starved++
	}
	threads.Entry(f.history.Items, s.Item.Key()).PassedOver = 0
	if s.PassedOver != (threads.Key{}) {
		threads.Entry(f.history.Items, s.PassedOver).PassedOver++
	}
	f.shifts = append(f.shifts, x)
	if f.Policy.Claim == 0 {
		f.run(x)
	} else {
		f.after(f.Policy.Claim, func() { f.run(x) })
	}
}

// run is the start of the session's program.
func (f *floor) run(x *shift) {
	s := &x.Session
	s.State, s.Started, f.moved = threads.Running, f.now, true
	x.span = len(f.seen.Spans)
	f.seen.Spans = append(f.seen.Spans, Span{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Kind: string(s.Item.Kind), Chain: s.Item.Chain.Number, From: f.now.Sub(epoch),
	})
	if s.Item.Kind != agents.KindSchedule {
		x.ticket = f.ticket(s.Item.Ref)
	}
	takes := f.begin(x)
	f.inform(x, takes)
}

// begin notes the session on its issue and says what it has to do.
func (f *floor) begin(x *shift) time.Duration {
	t := x.ticket
	switch {
	case t == nil:
		return scheduledTime
	case !x.Item.Kind.Writes():
		return t.Review
	}
	if t.running++; t.running > 1 || t.done >= len(t.Work.Sessions) {
		f.seen.Twice++
	}
	if t.begun.IsZero() {
		t.begun = f.now
		f.seen.waited(t.Work.Priority, f.now.Sub(t.Created))
	}
	if x.Item.Kind == agents.KindIssue {
		t.Assignees = pinned(f.Config.Agent(x.Agent).Login)
		t.label(forge.LabelInProgress, "")
	}
	if w := f.history.Chain(t.Issue.Ref).Writers; !slices.Contains(w, x.Agent) {
		threads.Entry(f.history.Chains, t.Issue.Ref).Writers = append(w, x.Agent)
	}
	return t.Work.Sessions[min(t.done, len(t.Work.Sessions)-1)]
}

// inform has the session done where it runs: on an API, in a slot of its own, or in whatever slot is free.
func (f *floor) inform(x *shift, takes time.Duration) {
	th := f.real.Thread(x.Thread)
	if l := f.server[x.Thread]; l != nil {
		l.run(x, takes)
		return
	}
	if !th.Overlap {
		k := threads.SlotKey{Thread: x.Thread, Slot: x.Slot}
		if w := f.history.Slots[k]; w.Agent != x.Agent || w.Chain != x.Item.Chain {
			f.history.Slots[k] = threads.Warm{Agent: x.Agent, Chain: x.Item.Chain}
			f.seen.Switches++
			takes += f.load(x)
		}
		f.grow(x, takes)
	}
	f.after(takes, func() { f.leave(x) })
}

// leave is the end of a session.
func (f *floor) leave(x *shift) {
	f.shifts = slices.DeleteFunc(f.shifts, func(o *shift) bool { return o == x })
	f.seen.Spans[x.span].To = f.now.Sub(epoch)
	f.seen.busy += f.now.Sub(x.Started)
	threads.Entry(f.history.Agents, x.Agent).IdleSince = f.now
	if k := (threads.SlotKey{Thread: x.Thread, Slot: x.Slot}); f.history.Slots[k].Agent == x.Agent {
		f.history.Slots[k] = threads.Warm{Agent: x.Agent, Chain: x.Item.Chain, Left: f.now}
	}
	t := x.ticket
	switch {
	case t == nil:
		threads.Entry(f.history.Items, x.Item.Key()).LastRun = f.now
	case x.Item.Kind.Writes():
		f.written(x, t)
	default:
		f.reviewed(t, f.Config.Agent(x.Agent).Login)
	}
	f.change()
}

// written is what a writing session leaves: a pull request, a new head of it, or the issue closed.
func (f *floor) written(x *shift, t *ticket) {
	t.running--
	t.done++
	t.label("", forge.LabelInProgress)
	t.Assignees = nil
	switch {
	case len(t.Work.Sessions) == 1:
		f.close(t)
		return
	case t.pull == nil:
		t.pull = &forge.Pull{
			Ref: forge.Ref{Repo: t.Issue.Repo, Number: pullNumber + t.Number}, Author: f.Config.Agent(x.Agent).Login, Created: f.now,
			Mergeable: forge.MergeClean, Closes: []forge.Ref{t.Issue.Ref}, Head: fmt.Sprintf("fix/issue-%d", t.Number),
		}
		f.pulls = append(f.pulls, t)
	}
	t.pull.HeadSHA = fmt.Sprintf("%d", t.done)
	t.pull.Updated = f.now
	if !f.reviewers() {
		f.after(t.Review, func() {
			f.reviewed(t, "ada")
			f.change()
		})
	}
}

// reviewers reports whether agents review.
func (f *floor) reviewers() bool {
	return slices.ContainsFunc(f.Config.Roles, func(r agents.Role) bool { return r.On == agents.OnReview })
}

// reviewed is a verdict on the head.
func (f *floor) reviewed(t *ticket, by string) {
	r := forge.Review{Author: by, Verdict: forge.ChangesRequested, CommitSHA: t.pull.HeadSHA, Official: true, Submitted: f.now}
	if t.done >= len(t.Work.Sessions) {
		r.Verdict = forge.Approved
	}
	f.learn(t, r.Verdict == forge.ChangesRequested)
	t.pull.Reviews = append(slices.Clone(t.pull.Reviews), r)
	if r.Verdict == forge.Approved && !f.Config.Forge.MergeAuto { // who wants to merge by hand does so
		f.merge(t.pull.Ref)
	}
}

// learn adds a verdict to what is known of the thread that the pull request was written on.
func (f *floor) learn(t *ticket, back bool) {
	thread := f.Config.AgentByLogin(t.pull.Author).Thread
	known := f.history.Thread(thread).Returns.Learn(f.now.Sub(t.pull.Updated), back)
	if f.Policy.Trusting {
		known = threads.Returns{N: 1000, Back: 1}
	}
	threads.Entry(f.history.Threads, thread).Returns = known
}

func (f *floor) merge(ref forge.Ref) {
	t := f.ticket(ref)
	f.pulls = slices.DeleteFunc(f.pulls, func(o *ticket) bool { return o == t })
	f.close(t)
	f.change()
}

func (f *floor) close(t *ticket) {
	if t.Closed {
		f.seen.Twice++
		return
	}
	t.Closed = true
	f.left--
	f.seen.Done++
	f.seen.turnarounds = append(f.seen.turnarounds, f.now.Sub(t.Created))
	f.seen.Makespan = f.now.Sub(epoch)
}
