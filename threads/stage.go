package threads

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// ConflictSettled is how long "does not merge cleanly" must last for one head and base before it counts as a
// conflict: Forgejo reports false until it has checked, which took at most 3.6 s.
const ConflictSettled = 10 * time.Second

// stage is the next step of an open pull request. Every open pull request is in exactly one stage.
type stage struct {
	kind     agents.Kind // review, rework, or stageMerge
	cause    Cause       // of rework
	since    time.Time   // when the stage fell due
	chain    forge.Ref
	writers  []string // agents that wrote to it, the opener first
	own      bool     // one of our agents opened it
	objector string   // with stageMerge: a person whose request for changes on an older head stands
	red      *Reason  // its branch is red, and it waits for that; see redBranch
	behind   bool     // its branch was red where it left it, and is no longer
	stray    bool     // one of our agents opened it, and we do not merge into its target branch
}

// stageMerge is the stage after approval. No agent works on it: the supervisor merges.
const stageMerge agents.Kind = "merge"

// stageOf finds the stage of an open pull request. Rework comes before review: a red or conflicting head is not worth
// a review.
func (v *view) stageOf(p *forge.Pull) stage {
	st := stage{kind: agents.KindReview, chain: ChainOf(p), since: p.Created}
	st.writers, st.own = v.writersOf(p, st.chain)
	verdicts := v.verdicts(p, st.writers)
	switch {
	case verdicts.changes != nil:
		st.kind, st.cause, st.since = agents.KindRework, CauseChanges, verdicts.changes.Submitted
	case p.CI == forge.CIFailure && !excused(p):
		st.kind, st.cause, st.since = agents.KindRework, CauseCI, p.CISince
	case v.conflicts(p):
		st.kind, st.cause, st.since = agents.KindRework, CauseConflict, p.ConflictSince
	case verdicts.approved:
		st.kind, st.objector = stageMerge, verdicts.objector
	default:
		st.cause = verdicts.void
	}
	st.stray = st.own && !v.isTarget(p)
	st.red, st.behind = v.redBranch(p, st.kind)
	return st
}

// isTarget reports whether a pull request goes to the default branch or to one that the configuration names.
func (v *view) isTarget(p *forge.Pull) bool {
	repo := v.repo(p.Repo)
	return repo != nil && p.Base == repo.DefaultBranch || slices.Contains(v.Config.Forge.Bases, p.Base)
}

// hasPull holds an issue with an open pull request. That of a person is continued by nobody else.
func hasPull(v *view, w *work) *Reason {
	var open []forge.Ref
	code, people := PeoplesPull, []string{}
	for _, p := range w.pulls {
		if p.Closed {
			continue
		}
		open = append(open, p.Ref)
		if people = append(people, p.Author); v.isAgent(p.Author) {
			code = HasPull
		}
	}
	switch {
	case len(open) == 0:
		return nil
	case code == HasPull:
		return &Reason{Code: code, Refs: open}
	}
	return &Reason{Code: code, Refs: open, Note: strings.Join(people, ", ")}
}

// conflicts reports whether a conflict has lasted for ConflictSettled.
func (v *view) conflicts(p *forge.Pull) bool {
	if p.ConflictSince.IsZero() {
		return false
	}
	settled := p.ConflictSince.Add(ConflictSettled)
	v.wake(settled)
	return !p.AsOf.Before(settled)
}

// ChainOf returns the issue that a pull request is for, or the pull request itself if it is for none. Of several
// issues it prefers the one whose branch is the head, because a running session on that issue writes there.
func ChainOf(p *forge.Pull) forge.Ref {
	if len(p.Closes) > 1 {
		for _, ref := range forge.Closes(p.Head, "", "", p.Repo) {
			if slices.Contains(p.Closes, ref) {
				return ref
			}
		}
	}
	if len(p.Closes) > 0 {
		return p.Closes[0]
	}
	return p.Ref
}

// writersOf returns the opener, all agents that ran a writing session on the chain, and those whose accounts the
// forge names with a commit. The forge shows the opener when the journal is lost; the journal shows it when the agent
// is no longer configured. own reports whether an agent of ours opened it.
func (s *Snapshot) writersOf(p *forge.Pull, chain forge.Ref) (writers []string, own bool) {
	opener := p.Author
	if a := s.Config.AgentByLogin(p.Author); a != nil {
		opener, own = a.Name, true
	}
	past := s.History.Chain(chain).Writers
	if own = own || slices.Contains(past, opener); own {
		writers = append(writers, opener)
	}
	for _, w := range past {
		if !slices.Contains(writers, w) {
			writers = append(writers, w)
		}
	}
	for _, login := range p.Coders {
		if a := s.Config.AgentByLogin(login); a != nil && !slices.Contains(writers, a.Name) {
			writers = append(writers, a.Name)
		}
	}
	return writers, own
}

// verdicts is the result of a pull request's reviews.
type verdicts struct {
	changes  *forge.Review // the oldest standing request for changes on the head
	approved bool          // a reviewer whose approval counts approved the head
	void     Cause         // why an approval of the head does not count; empty without one
	objector string        // a person whose request for changes on an older head still stands
}

// verdicts weighs the last verdict of each reviewer. An agent's verdict is for one head only; a person's request for
// changes stands until that person approves. Verdicts of people without write access do not count: on an open forge
// every account can approve.
func (v *view) verdicts(p *forge.Pull, writers []string) verdicts {
	last := make(map[string]*forge.Review, len(p.Reviews))
	var order []string
	for i := range p.Reviews {
		r := &p.Reviews[i]
		if r.Dismissed || r.Verdict == forge.Commented || r.Author == p.Author {
			continue
		}
		if last[r.Author] == nil {
			order = append(order, r.Author)
		}
		last[r.Author] = r
	}
	var got verdicts
	h := v.History.Chain(p.Ref)
	for _, login := range order {
		r := last[login]
		onHead := r.CommitSHA == p.HeadSHA || r.Verdict == forge.Approved && h.carries(p, r.CommitSHA)
		switch {
		case !r.Official && !v.isAgent(login): // it still replaces the account's earlier verdict
		case r.Verdict == forge.ChangesRequested && onHead:
			if got.changes == nil || r.Submitted.Before(got.changes.Submitted) {
				got.changes = r
			}
		case r.Verdict == forge.ChangesRequested && !v.isAgent(login):
			got.objector = login
		case r.Verdict == forge.Approved && onHead && v.mayApprove(p, login, writers):
			if void := v.void(p, r); void != "" {
				got.void = void
			} else {
				got.approved = true
			}
		}
	}
	return got
}

// mayApprove reports whether an account may approve a pull request. An agent may if it wrote no part of it and may
// review its writers' work. Other hosts' supervisors pair their own agents. People may, even after a commit of their
// own: they could merge it anyway.
func (v *view) mayApprove(p *forge.Pull, login string, writers []string) bool {
	if a := v.Config.AgentByLogin(login); a != nil {
		return v.Config.Unpaired(a, writers) == ""
	}
	return !slices.Contains(writers, login) && !(v.isAgent(login) && slices.Contains(p.Coders, login))
}

// void returns why an approval of the head does not count; empty when it does. An approval is for a head, a base
// branch and their merge base. An approval by our agent must come from a review session: anything that the agent runs
// may have used its account. Of an approval by another account only the time is known.
func (v *view) void(p *forge.Pull, r *forge.Review) Cause {
	a := v.Config.AgentByLogin(r.Author)
	if a == nil {
		if r.Submitted.After(p.Retargeted) {
			return ""
		}
		return CauseBase
	}
	why := CauseUnproven
	h := v.History.Chain(p.Ref)
	for _, known := range h.Approved {
		switch {
		case known.Agent == a.Name && known.Base == p.Base && h.carries(p, known.Head):
			return ""
		case known.Agent != a.Name || known.Head != p.HeadSHA:
		case known.Base == p.Base && known.MergeBase == p.MergeBase:
			return ""
		default:
			why = CauseBase
		}
	}
	return why
}

// tooBig holds a pull request before another review that would be shown no more than the last one.
func tooBig(v *view, w *work) *Reason {
	if w.Kind != agents.KindReview || !v.unshown(w.pull) {
		return nil
	}
	return &Reason{Code: TooBigToReview, Note: w.past.Unshown.Words}
}

// unshown reports whether a reviewer of this head of a pull request asked for no change, and was not shown all of it.
func (v *view) unshown(p *forge.Pull) bool {
	u := v.History.Chain(p.Ref).Unshown
	return u != nil && u.Head == p.HeadSHA && u.Base == p.Base
}
