package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// work is an item on its way through Decide, with the facts that rules ask about.
type work struct {
	Hold               // the item, and the reason once there is one
	issue *forge.Issue // of an issue item
	pull  *forge.Pull  // of a review, rework or merge item
	stage *stage       // of the same
	role  *agents.Role // of a scheduled item
	// pin is the agent that the issue is reserved for by assignment; empty when it is not.
	pin   string
	class *class // set once no item rule objects
	taken bool   // started, or merged
	held  bool   // an item rule objects: Reason is its answer

	urgency  int // priority class, and within it first what was passed over too often
	nearness int // place of the kind in kindOrder
}

// items lists everything that could be worked on now or later, in no particular order: open issues that somebody put
// up for work, every open pull request, and every scheduled role in every repository.
func (v *view) items() []work {
	list := make([]work, 0, len(v.Facts.Issues)+len(v.Facts.Pulls)+len(v.Config.Roles)*len(v.Facts.Repos))
	add := func() *work { // filled in place: ten thousand of them are not worth copying
		list = list[:len(list)+1]
		return &list[len(list)-1]
	}
	for i := range v.Facts.Issues {
		is := &v.Facts.Issues[i]
		if !is.Closed && is.Has(forge.LabelBacklog) {
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
			if r := &v.Config.Roles[i]; r.On == agents.OnSchedule {
				v.fillScheduled(add(), r, repo.Name)
			}
		}
	}
	return list
}

func (v *view) fillIssue(w *work, is *forge.Issue) {
	w.issue, w.pin = is, v.pinOf(is)
	w.Kind, w.Ref, w.Chain, w.Title = agents.KindIssue, is.Ref, is.Ref, is.Title
	w.Priority, w.Since = forge.Priority(is.Labels), is.Created
	v.rank(w)
}

func (v *view) fillPull(w *work, p *forge.Pull, st *stage) {
	w.pull, w.stage = p, st
	w.Kind, w.Ref, w.Chain, w.Title = st.kind, p.Ref, st.chain, p.Title
	w.Priority, w.Since, w.HeadSHA, w.Cause = forge.Priority(p.Labels), st.since, p.HeadSHA, st.cause
	if is := v.Facts.Issue(st.chain); is != nil {
		w.Priority = forge.Priority(is.Labels)
	}
	v.rank(w)
}

func (v *view) fillScheduled(w *work, r *agents.Role, repo string) {
	w.role = r
	w.Kind, w.Ref, w.Item.Role, w.Title = agents.KindSchedule, forge.Ref{Repo: repo}, r.Name, r.Name
	w.Chain, w.Priority = w.Ref, r.Priority
	if last, ran := v.History.LastRun[w.Key()]; ran {
		w.Since = last.Add(r.Every)
	}
	v.rank(w)
}

// rank works out once what sorting asks for all the time.
func (v *view) rank(w *work) {
	w.nearness = slices.Index(kindOrder, w.Kind)
	w.urgency = 2*w.Priority + 1
	if v.History.PassedOver[w.Key()] >= PassedOverLimit {
		w.urgency--
	}
}

// starved reports whether the item was passed over often enough to go first in its class.
func (w *work) starved() bool { return w.urgency%2 == 0 }

// pinOf is the agent an issue is assigned to without being claimed: work reserved, not begun. Two such agents are nobody:
// each keeps the other from claiming the issue, and the reason shows both.
func (v *view) pinOf(is *forge.Issue) string {
	if is.Has(forge.LabelInProgress) {
		return ""
	}
	pin := ""
	for _, login := range is.Assignees {
		switch a := v.Config.AgentByLogin(login); {
		case a == nil:
		case pin == "":
			pin = a.Name
		default:
			pin += " and " + a.Name
		}
	}
	return pin
}

// attempts is the failure count of an item. Scheduled work has none: a failure waits for the next due time.
func (v *view) attempts(it *Item) Attempts {
	if it.Kind == agents.KindSchedule {
		return Attempts{}
	}
	return v.History.Attempts[AttemptKey{Chain: it.Chain, Kind: it.Kind}]
}

// attempt numbers the next try. After a person took the label blocked off again, counting starts over.
func (v *view) attempt(it *Item) int {
	a := v.attempts(it)
	if a.Marked {
		return 1
	}
	return a.Count + 1
}

// labels are those of the issue or pull request itself.
func (w *work) labels() []string {
	switch {
	case w.issue != nil:
		return w.issue.Labels
	case w.pull != nil:
		return w.pull.Labels
	}
	return nil
}

// assignees are those of the issue or pull request itself.
func (w *work) assignees() []string {
	switch {
	case w.issue != nil:
		return w.issue.Assignees
	case w.pull != nil:
		return w.pull.Assignees
	}
	return nil
}

func (w *work) has(label string) bool {
	_, found := slices.BinarySearch(w.labels(), label)
	return found
}
