package threads

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// ConflictSettled is how long "does not merge cleanly" must stand for one head and base before it counts as a conflict:
// Forgejo answers false while it has not looked yet.
const ConflictSettled = 30 * time.Second

// stage is what an open pull request waits for next. Every open pull request is in exactly one.
type stage struct {
	kind     agents.Kind // review, rework, or stageMerge
	cause    Cause       // of rework
	since    time.Time   // when that fell due
	chain    forge.Ref
	writers  []string // agents who wrote to it, the opener first; none of them reviews it
	own      bool     // one of our agents opened it
	objector string   // with stageMerge: a person whose request for changes stands on an older head
}

// stageMerge is the stage after approval. It is no kind of work: the supervisor merges by itself.
const stageMerge agents.Kind = "merge"

// stageOf finds the stage of an open pull request. Rework goes before review: a red or conflicting head is not worth a
// reviewer's time.
func (v *view) stageOf(p *forge.Pull) stage {
	st := stage{kind: agents.KindReview, chain: ChainOf(p), since: p.Created}
	st.writers, st.own = v.writersOf(p, st.chain)
	verdicts := v.verdicts(p, st.writers)
	switch {
	case verdicts.changes != nil:
		st.kind, st.cause, st.since = agents.KindRework, CauseChanges, verdicts.changes.Submitted
	case p.CI == forge.CIFailure:
		st.kind, st.cause, st.since = agents.KindRework, CauseCI, p.CISince
	case v.conflicts(p):
		st.kind, st.cause, st.since = agents.KindRework, CauseConflict, p.ConflictSince
	case verdicts.approved:
		st.kind, st.objector = stageMerge, verdicts.objector
	}
	return st
}

// conflicts reports a conflict that has stood long enough to be one.
func (v *view) conflicts(p *forge.Pull) bool {
	if p.ConflictSince.IsZero() {
		return false
	}
	settled := p.ConflictSince.Add(ConflictSettled)
	v.wake(settled)
	return !p.AsOf.Before(settled)
}

// ChainOf is the issue that a pull request is for, or the pull request itself when it is for none. Of several it is the
// one whose branch it lies on: that is where a session that still runs on the issue writes.
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

// writersOf are the opener and everybody who ran a writing session on the chain. Who opened it is known from the
// forge even when the journal is lost, and from the journal even when the agent is no longer configured.
func (v *view) writersOf(p *forge.Pull, chain forge.Ref) (writers []string, own bool) {
	opener := p.Author
	if a := v.Config.AgentByLogin(p.Author); a != nil {
		opener = a.Name
		own = true
	}
	past := v.History.Chain(chain).Writers
	if own = own || slices.Contains(past, opener); own {
		writers = append(writers, opener)
	}
	for _, w := range past {
		if !slices.Contains(writers, w) {
			writers = append(writers, w)
		}
	}
	return writers, own
}

// verdicts is what the reviews of a pull request come to.
type verdicts struct {
	changes  *forge.Review // the oldest standing request for changes on the head
	approved bool          // somebody who may approved the head
	objector string        // a person whose request for changes on an older head still stands
}

// verdicts weighs the last word of each reviewer. Agents judge a head, so their word lapses with it; a person's
// objection stands until that person takes it back. The word of somebody who may not write to the repository decides
// nothing: on an open forge anybody can approve anything.
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
	for _, login := range order {
		r := last[login]
		onHead := r.CommitSHA == p.HeadSHA
		switch {
		case !r.Official && !v.isAgent(login): // but it takes back what they said when they might
		case r.Verdict == forge.ChangesRequested && onHead:
			if got.changes == nil || r.Submitted.Before(got.changes.Submitted) {
				got.changes = r
			}
		case r.Verdict == forge.ChangesRequested && !v.isAgent(login):
			got.objector = login
		case r.Verdict == forge.Approved && onHead && v.mayApprove(login, writers):
			got.approved = true
		}
	}
	return got
}

// mayApprove reports whether an approval by this account counts. People's always do, and those of other hosts' agents,
// which their own supervisor paired.
func (v *view) mayApprove(login string, writers []string) bool {
	a := v.Config.AgentByLogin(login)
	return a == nil || v.Config.Unpaired(a, writers) == ""
}

// rounds counts the requests for changes that agents made on a pull request, over all its heads, since somebody said
// retry, less those a person already looked at.
func (v *view) rounds(p *forge.Pull) int {
	n := 0
	for i := range p.Reviews {
		r := &p.Reviews[i]
		if r.Verdict == forge.ChangesRequested && v.isAgent(r.Author) && r.Submitted.After(v.History.Chain(p.Ref).Retried) {
			n++
		}
	}
	return n - v.History.Chain(p.Ref).Asked
}
