package threads

import (
	"slices"
	"sort"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// work is an item on its way through Decide, with the facts that rules need.
type work struct {
	Hold            // the item, and the reason once one is known
	class    *class // set once no item rule objects
	urgency  int16  // three times the priority class plus 1; 1 less if passed over too often, 1 more if behind
	nearness int8   // place of the kind in kindOrder
	queued   bool   // an issue labelled backlog, or not an issue
	stale    bool   // the facts may lack a write of ours; see view.stale
	taken    bool   // started, or merged

	issue *forge.Issue  // of an issue item
	pull  *forge.Pull   // of a review, rework or merge item
	stage *stage        // of the same
	role  *agents.Role  // of a scheduled item
	repo  *forge.Repo   // nil when it was never read
	home  *repoState    // of the same
	pulls []*forge.Pull // for the issue
	past  *ChainHistory // of the issue or pull request itself
	chain *ChainHistory // of its chain
	memo  *ItemHistory  // of this kind of work on it
	// pin is the agent that the issue is reserved for by assignment; empty without one.
	pin      string
	sessions []*Session // on the item, or elsewhere on its chain
}

// remember looks up the histories of the item and of its chain, which a dozen rules need. The item has its key.
func (v *view) remember(w *work) {
	w.past, w.memo = v.History.Chain(w.Ref), v.History.Item(w.Key())
	if w.chain = w.past; w.Chain != w.Ref {
		w.chain = v.History.Chain(w.Chain)
	}
}

// items lists everything that is open: issues, pull requests, and every scheduled role in every repository. It
// includes issues without backlog, because they may carry a claim.
func (v *view) items() []work {
	list := make([]work, 0, len(v.Facts.Issues)+len(v.Facts.Pulls)+len(v.Config.Roles)*len(v.Facts.Repos))
	add := func() *work { // fills in place: ten thousand copies cost too much
		list = list[:len(list)+1]
		return &list[len(list)-1]
	}
	for i := range v.Facts.Issues {
		is := &v.Facts.Issues[i]
		if !is.Closed {
			v.fillIssue(add(), is)
		}
	}
	for i := range v.Facts.Pulls {
		if p := &v.Facts.Pulls[i]; !p.Closed {
			v.fillPull(add(), p, &v.stages[i])
		}
	}
	for i := range v.Config.Roles {
		for _, repo := range v.Facts.Repos {
			if r := &v.Config.Roles[i]; r.On.Does(agents.KindSchedule) {
				v.fillScheduled(add(), r, repo.Name)
			}
		}
	}
	return list
}

// attend adds a session to its item and to all others of its chain. The search starts from the few sessions: 10,000
// items searching for theirs took a tenth of a plan's time.
func (d *decision) attend(s *Session) {
	issues, others := d.items[:d.issues], d.items[d.issues:]
	for _, ref := range slices.Compact([]forge.Ref{s.Item.Ref, s.Item.Chain}) {
		i := sort.Search(len(issues), func(i int) bool { return issues[i].Ref.Compare(ref) >= 0 })
		if i < len(issues) && issues[i].Ref == ref {
			issues[i].attend(s)
		}
	}
	for i := range others {
		others[i].attend(s)
	}
}

func (w *work) attend(s *Session) {
	if w.is(s) || s.Item.Chain == w.Chain {
		w.sessions = append(w.sessions, s)
	}
}

// is reports whether a session works on this item, whatever its kind: a pull request changes between review and
// rework. Issues and pull requests share one sequence of numbers.
func (w *work) is(s *Session) bool { return s.Item.Ref == w.Ref && s.Item.Role == w.Item.Role }

// session returns the session on the item; nil without one.
func (w *work) session() *Session {
	for _, s := range w.sessions {
		if w.is(s) {
			return s
		}
	}
	return nil
}

func (v *view) fillIssue(w *work, is *forge.Issue) {
	w.issue, w.pin, w.pulls, w.queued = is, v.pinOf(is), v.pulls[is.Ref], is.Has(forge.LabelBacklog)
	w.Kind, w.Ref, w.Chain, w.Title = agents.KindIssue, is.Ref, is.Ref, is.Title
	w.Priority, w.Since = v.Config.Priority(is.Repo, is.Labels), is.Created
	v.remember(w)
	if w.Comments = nil; w.queued {
		v.planning(w)
		w.Comments = v.about(w)
	}
	v.complete(w)
}

func (v *view) fillPull(w *work, p *forge.Pull, st *stage) {
	w.pull, w.stage, w.queued = p, st, true
	w.Kind, w.Ref, w.Chain, w.Title = st.kind, p.Ref, st.chain, p.Title
	w.Priority, w.Since, w.HeadSHA, w.Cause = v.Config.Priority(p.Repo, p.Labels), st.since, p.HeadSHA, st.cause
	w.Base, w.Seen = p.Base, p.Updated
	v.remember(w)
	if st.kind == agents.KindReview && !st.own && !v.isAgent(p.Author) {
		w.Author = p.Author
	}
	w.Comments = v.about(w)
	if is := v.Facts.Issue(st.chain); is != nil {
		w.Priority = v.Config.Priority(is.Repo, is.Labels)
	}
	v.complete(w)
}

func (v *view) fillScheduled(w *work, r *agents.Role, repo string) {
	w.role, w.queued = r, true
	w.Kind, w.Ref, w.Item.Role, w.Title = agents.KindSchedule, forge.Ref{Repo: repo}, r.Name, r.Name
	w.Chain, w.Priority = w.Ref, r.Priority
	v.remember(w)
	known := v.History.Item(w.Key())
	if w.Since = r.Due(known.LastRun, v.Began, repo); known.Wanted() && known.Asked.Before(w.Since) {
		w.Since = known.Asked
	}
	v.complete(w)
}

// complete computes once the values that rules and sorting need many times.
func (v *view) complete(w *work) {
	if i, known := v.repoAt(w.Ref.Repo); known {
		w.repo, w.home = &v.Facts.Repos[i], &v.homes[i]
	}
	w.stale = w.repo != nil && (v.stale(w.repo, w.Ref) || w.Chain != w.Ref && v.stale(w.repo, w.Chain))
	w.nearness = int8(slices.Index(kindOrder, w.Kind))
	w.urgency = int16(3*w.Priority + 1)
	switch {
	case w.memo.PassedOver >= PassedOverLimit:
		w.urgency--
	case v.later(w.memo.Behind):
		w.urgency++
	}
}

// starved reports whether the item was passed over often enough to go first in its class.
func (w *work) starved() bool { return w.urgency%3 == 0 }

// pinOf returns the agent that an issue without in-progress is assigned to: its work is reserved and not begun. Two
// assigned agents cannot claim an issue. The pin then has both names, which no agent has, so that the reason shows
// both.
func (v *view) pinOf(is *forge.Issue) string {
	if is.Has(forge.LabelInProgress) {
		return ""
	}
	var names []string
	for _, login := range is.Assignees {
		if a := v.Config.AgentByLogin(login); a != nil {
			names = append(names, a.Name)
		}
	}
	return sentence(names)
}

// attempts returns the failures of an item. Scheduled work has none: after a failure it waits for its next due time.
func (v *view) attempts(w *work) Attempt {
	if w.role != nil {
		return Attempt{}
	}
	return w.chain.Attempt(w.Kind)
}

// attempt returns the number of the next attempt. It is 1 again after a person removed the label blocked.
func (v *view) attempt(w *work) int {
	a := v.attempts(w)
	if a.Marked {
		return 1
	}
	return a.Count + 1
}

// labels returns the labels of the issue or pull request itself.
func (w *work) labels() []string {
	switch {
	case w.issue != nil:
		return w.issue.Labels
	case w.pull != nil:
		return w.pull.Labels
	}
	return nil
}

// assignees returns the assignees of the issue or pull request itself.
func (w *work) assignees() []string {
	switch {
	case w.issue != nil:
		return w.issue.Assignees
	case w.pull != nil:
		return w.pull.Assignees
	}
	return nil
}

// heldBy returns another supervisor's agent that works on the issue or pull request itself; empty without one.
func (w *work) heldBy() string {
	switch {
	case w.issue != nil:
		return w.issue.HeldBy
	case w.pull != nil:
		return w.pull.HeldBy
	}
	return ""
}

// updated returns the time of the last change of the issue or pull request itself.
func (w *work) updated() time.Time {
	switch {
	case w.issue != nil:
		return w.issue.Updated
	case w.pull != nil:
		return w.pull.Updated
	}
	return time.Time{}
}

func (w *work) has(label string) bool {
	return slices.Contains(w.labels(), label)
}
