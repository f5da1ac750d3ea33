package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// scheduledTime is how long a session of a scheduled role usually takes.
const scheduledTime = 5 * time.Minute

// file opens the issue of a piece of work.
func (tr *trial) file(w *Work) {
	t := &trialIssue{Work: *w, hidden: tr.Policy.Push > 0}
	if t.Work.Repo == "" {
		t.Work.Repo = tr.Config.Forge.Repos[0]
	}
	t.Issue = forge.Issue{
		Ref: forge.Ref{Repo: t.Work.Repo, Number: tr.number()}, Created: tr.now, Updated: tr.now, BlockersKnown: true,
		Author: "ada", Labels: labelsOf(w),
	}
	t.label("", "")
	if a := tr.Config.Agent(w.Pin); a != nil {
		t.Assignees = pinned(a.Login)
		t.Pin = a.Login
		t.hidden = false
	}
	tr.issues = append(tr.issues, t)
	if len(w.Sessions) == 0 {
		tr.close(t)
	}
	tr.change()
}

// number returns the number of the next issue. A pull request has its issue's number plus a million, so that each is
// found from the other.
func (tr *trial) number() int64 { return int64(len(tr.issues) + 1) }

const pullNumber = 1_000_000

// issue finds an issue by its own reference or by its pull request's.
func (tr *trial) issue(ref forge.Ref) *trialIssue {
	n := int(ref.Number % pullNumber)
	if n < 1 || n > len(tr.issues) {
		return nil
	}
	return tr.issues[n-1]
}

// start reserves agent, slot and item for a session, and runs its program once the item is claimed.
func (tr *trial) start(s threads.Start) {
	x := &trialRun{Session: threads.Session{
		RunID: fmt.Sprintf("run-%07d", tr.seen.Sessions), Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Role: s.Role,
		Login: tr.Config.Agent(s.Agent).Login, Item: s.Item, State: threads.Reserved, Attempt: 1, Rung: s.Rung,
		Started: tr.now,
	}}
	tr.seen.Sessions++
	tr.moved = true
	if tr.books.Item(s.Item.Key()).PassedOver >= threads.PassedOverLimit {
		tr.seen.Starved++
	}
	tr.note(ledger.Record{Start: startOf(&x.Session, tr.Config, s.PassedOver)})
	tr.runs = append(tr.runs, x)
	if late := tr.Policy.Claim + tr.late(engineStartMin, engineStartMax); late == 0 {
		tr.run(x)
	} else {
		tr.after(late, func() { tr.run(x) })
	}
}

// run starts the session's program.
func (tr *trial) run(x *trialRun) {
	s := &x.Session
	s.State, s.Started, tr.moved = threads.Running, tr.now, true
	x.span = len(tr.seen.Spans)
	tr.seen.Spans = append(tr.seen.Spans, Span{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Kind: string(s.Item.Kind), Chain: s.Item.Chain.Number,
		From: tr.now.Sub(epoch),
	})
	if s.Item.Kind != agents.KindSchedule {
		x.issue = tr.issue(s.Item.Ref)
	}
	takes := tr.begin(x)
	tr.perform(x, takes)
}

// begin records the session on its issue, and returns how long its work takes.
func (tr *trial) begin(x *trialRun) time.Duration {
	t := x.issue
	switch {
	case t == nil:
		return cmp.Or(tr.Scheduled[x.Role], scheduledTime)
	case !x.Item.Kind.Writes():
		return t.Review
	}
	if t.running++; t.running > 1 || t.done >= len(t.Work.Sessions) {
		tr.seen.Twice++
	}
	if t.begun.IsZero() {
		t.begun = tr.now
		tr.seen.waited(t.Work.Priority, tr.now.Sub(t.Created))
	}
	if x.Item.Kind == agents.KindIssue {
		t.Assignees = pinned(tr.Config.Agent(x.Agent).Login)
		t.label(forge.LabelInProgress, "")
	}
	return t.Work.Sessions[min(t.done, len(t.Work.Sessions)-1)]
}

// perform does the work of a session: on an API, in its own slot, or in whatever slot is free.
func (tr *trial) perform(x *trialRun, takes time.Duration) {
	th := tr.real.Thread(x.Thread)
	if l := tr.server[x.Thread]; l != nil {
		l.run(x, takes)
		return
	}
	if !th.Overlap {
		if !tr.isWarm(x) {
			tr.seen.Switches++
			takes += tr.load(x)
		}
		tr.grow(x, takes)
	}
	tr.after(takes+tr.late(engineTellMin, engineTellMax), func() { tr.ended(x) })
}

// late is a time that an engine takes; none without one.
func (tr *trial) late(from, to time.Duration) time.Duration {
	if !tr.Engine {
		return 0
	}
	return from + time.Duration(tr.rng.Int64N(int64(to-from)))
}

// ended is the end of a session.
func (tr *trial) ended(x *trialRun) {
	tr.runs = slices.DeleteFunc(tr.runs, func(o *trialRun) bool { return o == x })
	tr.seen.Spans[x.span].To = tr.now.Sub(epoch)
	tr.remember(x)
	t := x.issue
	switch {
	case t == nil:
	case x.Item.Kind.Writes():
		tr.written(x, t)
	default:
		tr.reviewed(t, tr.Config.Agent(x.Agent).Login)
	}
	tr.change()
}

// remember records that a session is done and its claim is off.
func (tr *trial) remember(x *trialRun) {
	end := &ledger.End{Run: x.RunID, Result: agents.Done, Talk: tr.contextOf(x)}
	if u, known := tr.Uses[Line{x.Thread, x.Item.Kind}]; known {
		end.Usage = &u
	}
	review := x.Item.Kind == agents.KindReview
	if review {
		end.Verdict = ledger.VerdictOf(x.issue.verdict())
		if p := x.issue.pull; end.Verdict == ledger.Approved {
			end.Approved = &threads.Approval{Head: p.HeadSHA, Base: p.Base, MergeBase: p.MergeBase}
		}
	}
	if m := tr.memories[x.Thread]; m != nil {
		m.use(x.Agent, x.issue, end.Talk)
	}
	tr.note(ledger.Record{End: end})
	if x.issue != nil {
		tr.note(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
	}
	if review && tr.Policy.Trusting {
		thread := tr.Config.AgentByLogin(x.issue.pull.Author).Thread
		ledger.Entry(tr.books.Threads, thread).Returns = threads.Returns{N: 1000, Back: 1}
	}
}

// written applies the effect of a writing session: a pull request, a new head of it, or the issue closed.
func (tr *trial) written(x *trialRun, t *trialIssue) {
	t.running--
	t.done++
	t.label("", forge.LabelInProgress)
	t.Assignees = nil
	switch {
	case len(t.Work.Sessions) == 1:
		tr.close(t)
		return
	case t.pull == nil:
		t.pull = &forge.Pull{
			Ref:    forge.Ref{Repo: t.Issue.Repo, Number: pullNumber + t.Number},
			Author: tr.Config.Agent(x.Agent).Login, Created: tr.now,
			Mergeable: forge.MergeClean, Closes: []forge.Ref{t.Issue.Ref}, Head: fmt.Sprintf("fix/issue-%d", t.Number),
			Base: "main",
		}
		tr.pulls = append(tr.pulls, t)
	}
	t.pull.HeadSHA = fmt.Sprintf("%d", t.done)
	t.pull.Updated = tr.now
	if !tr.reviewers() {
		tr.after(t.Review, func() {
			tr.reviewed(t, "ada")
			tr.change()
		})
	}
}

// reviewers reports whether agents review.
func (tr *trial) reviewers() bool {
	return slices.ContainsFunc(tr.Config.Roles, func(r agents.Role) bool { return r.On == agents.OnReview })
}

// reviewed posts a verdict on the head.
func (tr *trial) reviewed(t *trialIssue, by string) {
	r := forge.Review{Author: by, Verdict: t.verdict(), CommitSHA: t.pull.HeadSHA, Official: true, Submitted: tr.now}
	t.pull.Reviews = append(slices.Clone(t.pull.Reviews), r)
	if r.Verdict == forge.Approved && !tr.Config.Forge.MergeAuto { // a person merges at once
		tr.merge(t.pull.Ref)
	}
}

// verdict returns the verdict of a review now. Every writing session but the last is answered with a request for
// changes.
func (t *trialIssue) verdict() forge.Verdict {
	if t.done < len(t.Work.Sessions) {
		return forge.ChangesRequested
	}
	return forge.Approved
}

func (tr *trial) merge(ref forge.Ref) {
	t := tr.issue(ref)
	tr.pulls = slices.DeleteFunc(tr.pulls, func(o *trialIssue) bool { return o == t })
	tr.close(t)
	tr.change()
}

func (tr *trial) close(t *trialIssue) {
	if t.Closed {
		tr.seen.Twice++
		return
	}
	t.Closed = true
	tr.left--
	tr.seen.Done++
	tr.seen.turnarounds = append(tr.seen.turnarounds, tr.now.Sub(t.Created))
	tr.seen.Makespan = tr.now.Sub(epoch)
}
