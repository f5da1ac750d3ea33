package threads

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// work is an item on its way through Decide, with the facts that rules ask about.
type work struct {
	Item
	issue *forge.Issue // of an issue item
	pull  *forge.Pull  // of a review, rework or merge item
	stage *stage       // of the same
	role  *agents.Role // of a scheduled item
	// pin is the agent that the issue is reserved for by assignment; empty when it is not.
	pin   string
	class *class // set once no item rule objects
	taken bool   // started, or merged
	held  bool   // an item rule objects
	why   Reason // the objection

	urgency  int // priority class, and within it first what was passed over too often
	nearness int // place of the kind in kindOrder
}

// items lists everything that could be worked on now or later, in no particular order: open issues that somebody put
// up for work, every open pull request, and every scheduled role in every repository.
func (v *view) items() []work {
	list := make([]work, 0, len(v.Facts.Issues)+len(v.Facts.Pulls)+len(v.Config.Roles)*len(v.Facts.Repos))
	for i := range v.Facts.Issues {
		is := &v.Facts.Issues[i]
		if !is.Closed && is.Has(forge.LabelBacklog) {
			list = append(list, v.issueWork(is))
		}
	}
	for i := range v.Facts.Pulls {
		if p := &v.Facts.Pulls[i]; !p.Closed {
			list = append(list, v.pullWork(p, &v.stages[i]))
		}
	}
	for i := range v.Config.Roles {
		for _, repo := range v.Facts.Repos {
			if r := &v.Config.Roles[i]; r.On == agents.OnSchedule {
				list = append(list, v.scheduledWork(r, repo.Name))
			}
		}
	}
	for i := range list {
		v.rank(&list[i])
	}
	return list
}

// rank works out once what sorting asks for all the time.
func (v *view) rank(w *work) {
	w.nearness = slices.Index(kindOrder, w.Kind)
	w.urgency = 2*w.Priority + 1
	if v.History.PassedOver[w.Key()] >= PassedOverLimit {
		w.urgency--
	}
}

func (v *view) issueWork(is *forge.Issue) work {
	return work{issue: is, pin: v.pinOf(is), Item: Item{
		Kind: agents.KindIssue, Ref: is.Ref, Chain: is.Ref, Title: is.Title,
		Priority: forge.Priority(is.Labels), Since: is.Created,
	}}
}

func (v *view) pullWork(p *forge.Pull, st *stage) work {
	labels := p.Labels
	if is := v.Facts.Issue(st.chain); is != nil {
		labels = is.Labels
	}
	return work{pull: p, stage: st, Item: Item{
		Kind: st.kind, Ref: p.Ref, Chain: st.chain, Title: p.Title,
		Priority: forge.Priority(labels), Since: st.since, HeadSHA: p.HeadSHA, Cause: st.cause,
	}}
}

func (v *view) scheduledWork(r *agents.Role, repo string) work {
	ref := forge.Ref{Repo: repo}
	w := work{role: r, Item: Item{
		Kind: agents.KindSchedule, Ref: ref, Role: r.Name, Chain: ref, Title: r.Name, Priority: r.Priority,
	}}
	if last, ran := v.History.LastRun[w.Key()]; ran {
		w.Since = last.Add(r.Every)
	}
	return w
}

// pinOf is the agent an issue is assigned to without being claimed: work reserved, not begun.
func (v *view) pinOf(is *forge.Issue) string {
	if is.Has(forge.LabelInProgress) {
		return ""
	}
	for _, login := range is.Assignees {
		if a := v.Config.AgentByLogin(login); a != nil {
			return a.Name
		}
	}
	return ""
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
