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

// scheduledTime is the usual length of a scheduled session.
const scheduledTime = 5 * time.Minute

// The delays of sessions on an engine elsewhere, those of a real one under load: from a claim to the start of the
// program, and from the program's end to its report.
const (
	EngineStartMin, EngineStartMax = 200 * time.Millisecond, 6 * time.Second
	engineTellMin, engineTellMax   = 200 * time.Millisecond, 1200 * time.Millisecond
)

// The kinds of draws in a trial. The number of the issue or of the draw distinguishes draws of one kind.
const (
	lotHandover = iota + 1
	lotClaim
	lotMerge
	lotPeople
	lotScheduled
	lotPlan
	lotNotice
	lotChecks = 1 << 8  // plus the number of the push
	lotWrite  = 1 << 12 // plus the number of the session
	lotReview = 1 << 16
)

// file opens the issue of a piece of work.
func (tr *trial) file(w *Work) {
	t := &trialIssue{Work: *w, hidden: tr.Policy.Push > 0}
	if t.Work.Repo == "" {
		t.Work.Repo = tr.Config.Forge.Repos[0]
	}
	t.Issue = forge.Issue{
		Ref: forge.Ref{Repo: t.Work.Repo, Number: tr.number()}, Created: tr.Now, Updated: tr.Now, BlockersKnown: true,
		Author: "ada", Labels: labelsOf(w), Talk: forge.Talk{Known: true},
	}
	tr.regroup(t)
	if a := tr.Config.Agent(w.Pin); a != nil {
		tr.assignTo(t, pinned(a.Login))
		t.Pin = a.Login
		t.hidden = false
	}
	tr.issues = append(tr.issues, t)
	tr.at[t.Issue.Ref] = t
	if len(w.Sessions)+len(w.Steps) == 0 && !w.drawn {
		tr.close(t)
	}
	tr.outside()
}

// number returns the number of the next issue. A pull request has its issue's number plus a million, so that each
// leads to the other.
func (tr *trial) number() int64 {
	tr.numbered++
	return tr.numbered
}

const pullNumber = 1_000_000

// issue returns an issue by its own reference or by its pull request's.
func (tr *trial) issue(ref forge.Ref) *trialIssue { return tr.at[ref] }

// start reserves agent, slot and item for a session, and runs its program after the claim.
func (tr *trial) start(s threads.Start) {
	x := &trialRun{Session: threads.Session{
		RunID: fmt.Sprintf("run-%07d", tr.seen.Sessions), Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Role: s.Role,
		Login: tr.Config.Agent(s.Agent).Login, Item: s.Item, State: threads.Reserved, Attempt: s.Attempt, Rung: s.Rung,
		Started: tr.Now,
	}}
	if role := tr.Config.Role(s.Role); role != nil {
		x.PerSession, x.PerIssue = role.PerSession, role.PerIssue
	}
	tr.seen.Sessions++
	tr.moved = true
	if tr.books.Item(s.Item.Key()).PassedOver >= threads.PassedOverLimit {
		tr.seen.Starved++
	}
	record := StartOf(&x.Session, tr.Config, s.PassedOver)
	if t := tr.issue(s.Item.Ref); t != nil && s.Item.Kind == agents.KindIssue {
		record.Pinned = slices.Contains(t.Assignees, x.Login) && !t.Has(forge.LabelInProgress)
	}
	tr.record(ledger.Record{Start: record})
	x.reserved = tr.Now
	tr.runs = append(tr.runs, x)
	late := tr.Policy.Claim + tr.late(x, EngineStartMin, EngineStartMax)
	if tr.Model != nil {
		tr.drawn++
		late += tr.Model.delay(lot{tr.Seed, uint64(tr.drawn), lotClaim}, Claim)
	}
	if late == 0 {
		tr.run(x)
	} else {
		tr.After(late, func() { tr.run(x) })
	}
}

// run starts the session's program.
func (tr *trial) run(x *trialRun) {
	s := &x.Session
	s.State, s.Started, tr.moved = threads.Running, tr.Now, true
	x.span = len(tr.seen.Spans)
	tr.seen.Spans = append(tr.seen.Spans, Span{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Kind: string(s.Item.Kind), Chain: s.Item.Chain.Number,
		From: tr.Now.Sub(tr.origin),
	})
	if s.Item.Kind != agents.KindSchedule {
		x.issue = tr.issue(s.Item.Ref)
	}
	x.how = tr.step(x, 0)
	tr.begin(x)
	tr.perform(x, tr.bounded(x))
}

// step returns the course of a session: from the load if it has it, otherwise drawn from the model.
func (tr *trial) step(x *trialRun, sofar time.Duration) Step {
	t, writes := x.issue, x.Item.Kind.Writes()
	switch {
	case t == nil && tr.Scheduled[x.Role] > 0:
		return Step{Took: tr.Scheduled[x.Role], Result: agents.Done}
	case t == nil:
		return tr.draw(x, lot{tr.Seed, uint64(tr.seen.Sessions), lotScheduled}, sofar)
	case x.Item.Cause.Plans():
		step := tr.draw(x, lot{tr.Seed, uint64(t.seed()), lotPlan}, sofar)
		step.Result = agents.Planned
		return step
	case writes && t.wrote < len(t.Work.Steps):
		return t.Work.Steps[t.wrote]
	case !writes && t.looked < len(t.Work.Looks):
		return t.Work.Looks[t.looked]
	case len(t.Work.Steps)+len(t.Work.Looks) > 0 || t.drawn:
		if writes {
			return tr.draw(x, lot{tr.Seed, uint64(t.seed()), lotWrite + uint64(t.wrote)}, sofar)
		}
		return tr.draw(x, lot{tr.Seed, uint64(t.seed()), lotReview + uint64(t.looked)}, sofar)
	case !writes:
		return Step{Took: t.Review, Result: agents.Done, Verdict: ledger.VerdictOf(t.verdict())}
	}
	return Step{Took: t.Work.Sessions[min(t.done, len(t.Work.Sessions)-1)], Result: agents.Done}
}

// draw draws a step from the model.
func (tr *trial) draw(x *trialRun, l lot, sofar time.Duration) Step {
	step := tr.Model.draw(l, x.Agent, x.Thread, x.Item.Kind, x.Role, sofar)
	if x.Item.Kind.Writes() {
		l.part += lotReview << 4
		step.Red = tr.Model.turnsRed(l)
	}
	return step
}

// seed returns the number of an issue, or of a pull request without one.
func (t *trialIssue) seed() int64 {
	if t.bare {
		return t.pull.Number
	}
	return t.Number
}

// begin records the session on its issue.
func (tr *trial) begin(x *trialRun) {
	t := x.issue
	if t == nil {
		return
	}
	login := pinned(x.Login)
	if x.Item.Kind == agents.KindIssue {
		tr.assignTo(t, login)
		tr.label(t, forge.LabelInProgress, "")
	} else if t.pull != nil {
		t.pull.Assignees = login
		t.pull.Labels = With(Without(t.pull.Labels, forge.LabelInProgress), forge.LabelInProgress)
	}
	if t.first.IsZero() {
		if t.first = tr.Now; t.waited {
			tr.starts = append(tr.starts, tr.Now)
		}
	}
	if !x.Item.Kind.Writes() {
		return
	}
	if t.running++; t.running > 1 || len(t.Work.Sessions) > 0 && len(t.Work.Steps) == 0 && t.done >= len(t.Work.Sessions) {
		tr.seen.Twice++
	}
	if t.begun.IsZero() {
		t.begun = tr.Now
		tr.waited(t, x.reserved)
	}
}

// perform does the work of a session: on an API, in the session's own slot, or in any free slot.
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
	tr.tells(x, takes)
	tr.After(takes+tr.late(x, engineTellMin, engineTellMax), func() { tr.ended(x) })
}

// late returns the delay that an engine adds, zero without one.
func (tr *trial) late(x *trialRun, from, to time.Duration) time.Duration {
	if !tr.Engine && (tr.Model == nil || tr.real.Thread(x.Thread).Executor == "") {
		return 0
	}
	return from + time.Duration(tr.rng.Int64N(int64(to-from)))
}

// ended handles the end of a session, which may have been stopped before.
func (tr *trial) ended(x *trialRun) {
	if x.over {
		return
	}
	x.over = true
	tr.seen.Spans[x.span].To = tr.Now.Sub(tr.origin)
	if tr.Model == nil {
		tr.leave(x)
	}
	tr.unclaim(x)
	tr.remember(x)
	switch t := x.issue; {
	case t == nil:
	case x.Item.Kind.Writes():
		tr.written(x, t)
	default:
		tr.judged(x, t)
	}
	if tr.Model == nil {
		tr.changeOf(x.Thread)
		return
	}
	// Most of a handover is the release of the claim, during which agent and slot stay reserved. If the delay only
	// postponed the next decision, the shortest of twenty handovers would lead to a decision for all twenty threads.
	x.State, x.Used = threads.Reserved, agents.Usage{}
	tr.After(tr.handover(), func() {
		tr.leave(x)
		tr.freed(x.Thread)
	})
}

// leave frees the agent and the slot of a session.
func (tr *trial) leave(x *trialRun) {
	tr.runs = slices.DeleteFunc(tr.runs, func(o *trialRun) bool { return o == x })
}

// unclaim removes a session's claim from the forge.
func (tr *trial) unclaim(x *trialRun) {
	t := x.issue
	switch {
	case t == nil:
	case x.Item.Kind == agents.KindIssue:
		tr.label(t, "", forge.LabelInProgress)
		tr.assignTo(t, nil)
	case t.pull != nil:
		t.pull.Labels, t.pull.Assignees = Without(t.pull.Labels, forge.LabelInProgress), nil
	}
}

// remember records the end of a session and the release of its claim.
func (tr *trial) remember(x *trialRun) {
	end := &ledger.End{
		Run: x.RunID, Result: cmp.Or(x.how.Result, agents.Done), Talk: tr.contextOf(x), Stop: x.stopped,
		Usage: tr.usageOf(x), Breaker: tr.real.Thread(x.Thread).BreakerInterval,
	}
	if x.cut != nil && end.Result == agents.Limited {
		end.RetryAt = tr.origin.Add(x.cut.Until)
	}
	if end.Result == agents.Question || end.Result == agents.Planned {
		end.Words = "?"
	}
	if x.Item.Kind == agents.KindReview && end.Result == agents.Done {
		end.Verdict = x.how.Verdict
		if t := x.issue; end.Verdict == ledger.Approved && t != nil && t.pull != nil { // nil: it is gone from the forge
			p := t.pull
			end.Approved = &threads.Approval{Head: p.HeadSHA, Base: p.Base, MergeBase: p.MergeBase}
		}
	}
	if m := tr.memories[x.Thread]; m != nil {
		m.use(x.Agent, x.issue, end.Talk)
	}
	tr.record(ledger.Record{End: end})
	tr.seen.spent(end.Usage)
	if x.issue != nil {
		tr.record(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
	}
}
