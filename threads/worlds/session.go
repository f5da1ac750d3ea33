package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// run is a session from its commit until its claim is released.
type run struct {
	threads.Session
	life     int
	dead     bool // its program has ended
	remarked bool // its program left a comment
	stopped  threads.Code
	began    time.Time       // start of its program
	base     string          // base of its pull request at that time
	most     limits          // limits of its role at its start
	sent     bool            // given to its executor, which keeps it if the supervisor dies
	told     *agents.Outcome // how it ended while no supervisor ran
	out      *agents.Outcome // how it ended; its executor keeps that until its end is recorded
	billed   int64           // tokens that it has reported
	issue    forge.Ref       // for which it counts; zero for none
	opener   string          // the agent or stranger for whose day it counts; empty for none
}

func (r *run) String() string {
	return fmt.Sprintf("%s %s on %s %s (%s/%d, %s)", r.RunID, r.Agent, r.Item.Kind, r.Item.Ref, r.Thread, r.Slot, r.State)
}

// commit reserves agent and slot, records the start, and claims the item.
func (sh *shell) commit(st threads.Start) {
	sh.w.checks.spin(st.Item.Key())
	sh.names++
	r := &run{life: sh.life, Session: threads.Session{
		RunID: fmt.Sprintf("run-%06d", sh.names), Thread: st.Thread, Slot: st.Slot, Agent: st.Agent, Role: st.Role,
		Login: sh.w.cfg.Agent(st.Agent).Login, Item: st.Item, State: threads.Reserved, Attempt: st.Attempt,
		Rung: st.Rung,
	}}
	role := sh.w.cfg.Role(st.Role)
	r.PerSession, r.PerIssue = role.PerSession, role.PerIssue
	r.most = limits{role.PerSession.Tokens, role.PerIssue.Tokens}
	sh.runs = append(sh.runs, r)
	if r.Item.Kind.Writes() {
		sh.w.forge.hands[r.Item.Chain] = append(sh.w.forge.hands[r.Item.Chain], r.Agent)
		sh.w.forge.dirty = true
	}
	sh.begun(r, st.PassedOver)
	sh.w.log("start  %s attempt %d %s", r, r.Attempt, r.Item.Cause)
	begin := sh.launch
	if sh.w.executor(r.Thread) != "" {
		begin = sh.send
	}
	if r.Item.Kind == agents.KindSchedule {
		begin(r)
		return
	}
	claimed := func(err error) {
		if err != nil {
			sh.w.log("claim  %s: %v", r, err)
			sh.record(ledger.Record{End: unclaimed(r, err)})
			sh.w.checks.after.unclaimed(r, sh.w.Now, err)
			sh.remove(r)
			return
		}
		begin(r)
	}
	if sh.w.trouble(0.01) {
		sh.write(sh.related(r.Item.Ref), claimed, func() error { return fmt.Errorf("cannot claim: %w", forge.ErrForbidden) })
		return
	}
	sh.write(sh.related(r.Item.Ref), claimed, sh.w.forge.claimSteps(r.Item.Ref, sh.w.logins[r.Agent])...)
}

// launch runs the agent's program.
func (sh *shell) launch(r *run) {
	r.State, r.Started = threads.Running, sh.w.Now
	sh.w.seen.Sessions++
	r.began = sh.w.Now
	sh.w.checks.tolls.began(sh.w, r)
	if p := sh.w.forge.pull(r.Item.Ref); p != nil {
		r.base = p.Base
	}
	if sh.w.executor(r.Thread) == "" {
		sh.recordSent(r)
	} else if !sh.down {
		sh.record(ledger.Record{Placed: &ledger.Placed{Run: r.RunID, Place: "box1/" + r.RunID, Began: sh.w.Now}})
	}
	sh.w.forge.wrote(r)
	sh.w.work(r)
}

// countReviews records the last review of a pull request before a session.
func (sh *shell) countReviews(r *run) {
	if p := sh.w.forge.pull(r.Item.Ref); p != nil {
		for _, given := range p.Reviews {
			r.Item.Reviewed = max(r.Item.Reviewed, given.ID)
		}
	}
}

// stop ends a session that the plan stops.
func (sh *shell) stop(st threads.Stop) {
	i := slices.IndexFunc(sh.runs, func(r *run) bool { return r.RunID == st.RunID })
	r := sh.runs[i]
	sh.w.log("stop   %s: %s", r, st.Reason.Text())
	r.State, r.stopped = threads.Stopping, st.Reason.Code
	sh.record(ledger.Record{Stop: &ledger.Stop{Run: r.RunID, Code: st.Reason.Code, Why: st.Reason.Text()}})
	sh.w.After(sh.w.between(0, 7*time.Second), func() {
		out := agents.Outcome{Result: agents.Cancelled, Reason: st.Reason.Text()}
		if st.Reason.Code == threads.StopOverLimit || st.Reason.Code == threads.StopOverBudget {
			out.Result = agents.OverBudget
		}
		sh.exited(r, out)
	})
}

// exited handles the end of a session's last process.
func (sh *shell) exited(r *run, out agents.Outcome) {
	switch {
	case r.dead || r.told != nil:
		return
	case r.sent && r.life != sh.life:
		r.told = &out
		return
	}
	r.dead, r.out = true, &out
	if r.life != sh.life {
		return // its supervisor is dead
	}
	r.State = threads.Stopping
	sh.judge(r, sh.atLimit(r, out))
}

// judge reads the item until the forge answers, then records the end of the session and releases the claim.
func (sh *shell) judge(r *run, out agents.Outcome) {
	life := sh.life // the next supervisor adopts r, and judges it itself
	sh.w.After(sh.w.between(10*time.Millisecond, 2*time.Second), func() {
		if life != sh.life {
			return
		}
		if sh.w.trouble(0.05) {
			sh.judge(r, out)
			return
		}
		look := sh.w.forge.fetchItem(r.Item.Ref)
		if r.remarked {
			look.Comments = map[string]int{sh.w.logins[r.Agent]: 1}
		}
		sh.books.charge(r, sh.w.Now, out.Usage)
		out, effect := threads.Judge(r.Item, sh.w.logins[r.Agent], out, look, r.Item.HeadSHA)
		sh.w.log("end    %s: %s %s", r, out.Result, out.Reason)
		verdict := threads.VerdictOf(r.Item, sh.w.logins[r.Agent], look)
		sh.ended(r, out, effect, verdict, threads.ApprovalOf(r.Item, sh.w.logins[r.Agent], look))
		sh.release(r)
	})
}

// begun records a session before its claim. over is the item that was passed over.
func (sh *shell) begun(r *run, over threads.Key) {
	sh.record(ledger.Record{Start: sim.StartOf(&r.Session, sh.w.cfg, over)})
}

// ended records the end of a session, in the ledger and for the invariants.
func (sh *shell) ended(
	r *run, out agents.Outcome, effect threads.Effect, verdict forge.Verdict, approved *threads.Approval,
) {
	end := endOf(r, sh.w.cfg, out, effect, verdict)
	end.Approved, end.Words = approved, out.Words
	sh.record(ledger.Record{End: end})
	if p := sh.w.forge.pull(r.Item.Ref); out.Result == agents.TooBig && p != nil {
		p.unshown, sh.w.forge.dirty = []string{r.Item.HeadSHA, r.Item.Base}, true
	} else {
		sh.w.forge.vouch(r)
	}
	sh.w.checks.after.ended(r, sh.w, out, effect)
	judged := verdict == forge.Approved || verdict == forge.ChangesRequested || out.Result == agents.TooBig
	if judged { // all earlier requests for changes were answered
		delete(sh.w.checks.after.failures, attemptKey{r.Item.Chain, agents.KindRework})
	}
	sh.w.checks.tolls.ended(sh.w, r, out)
}

// release removes the claim, then frees agent and slot even if the forge does not answer: the next plan finds a claim
// that is left over.
func (sh *shell) release(r *run) {
	if r.Item.Kind == agents.KindSchedule {
		sh.remove(r)
		return
	}
	done := func(err error) {
		if err == nil {
			sh.record(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(r.Item.Ref)}})
		}
		sh.remove(r)
	}
	sh.write(sh.related(r.Item.Ref), done, sh.w.forge.releaseSteps(r.Item.Ref, sh.w.logins[r.Agent])...)
}

// remove frees agent and slot. It ticks at once on the old facts, and again after a scan.
func (sh *shell) remove(r *run) {
	r.dead = true
	sh.runs = slices.DeleteFunc(sh.runs, func(o *run) bool { return o == r })
	sh.tick()
	sh.kick()
}

// wrote records the real writer of an item when its program starts.
func (s *server) wrote(r *run) {
	if is := s.issue(r.Item.Chain); is != nil {
		is.freed = time.Time{}
	}
	if !r.Item.Kind.Writes() {
		return
	}
	s.wroteOn[r.Item.Chain] = append(s.wroteOn[r.Item.Chain], r.Agent)
	if is := s.issue(r.Item.Ref); is != nil {
		is.writers = append(slices.Clone(is.writers), r.Agent)
	}
	if p := s.pull(r.Item.Ref); p != nil {
		p.writers = append(slices.Clone(p.writers), r.Agent)
	}
	s.dirty = true
}

// vouch records the approval of a review session: the session must have approved the head that it was started for,
// and the base must not have changed during the session.
func (s *server) vouch(r *run) {
	p := s.pull(r.Item.Ref)
	if r.Item.Kind != agents.KindReview || p.HeadSHA != r.Item.HeadSHA || p.Retargeted.After(r.began) {
		return
	}
	v := forge.Commented
	for _, given := range p.Reviews {
		own := given.Author == s.w.logins[r.Agent] && !given.Submitted.Before(r.began)
		if own && !given.Dismissed && given.Verdict != forge.Commented {
			if v = given.Verdict; given.CommitSHA != p.HeadSHA {
				v = forge.Commented
			}
		}
	}
	if v == forge.Approved {
		sure := r.Item.Base == p.Base && !p.Retargeted.After(r.Item.Seen)
		p.vouched = slices.DeleteFunc(slices.Clone(p.vouched), func(g vouch) bool { return g.agent == r.Agent })
		p.vouched = append(p.vouched, vouch{r.Agent, p.HeadSHA, r.base, p.MergeBase, sure})
		s.dirty = true
	}
}

// forgetWriters drops the real writers and approvals after a loss of the journal. Then only the openers of pull
// requests and the accounts of their commits are known.
func (s *server) forgetWriters() {
	for _, r := range s.repos {
		for _, is := range r.issues {
			is.writers = nil
		}
		for _, p := range r.pulls {
			p.writers, p.vouched, p.unshown, p.older = nil, nil, nil, true
		}
	}
	clear(s.hands)
	clear(s.wroteOn)
	s.dirty = true
}
