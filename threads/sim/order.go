package sim

import (
	"cmp"
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// The order for a free slot, as the design has it: priority class; passed over three times or more; what the slot is
// warm for; rework, review, scheduled, new issue; age; name.

// rank is the place of an item in the queue of a slot, smallest first. warmth is how much of the slot's cache it
// could use.
type rank struct {
	priority, patient, warmth, kind int

	item *threads.Item
}

func (in *inspection) rank(it *threads.Item, warmth int) rank {
	r := rank{priority: it.Priority, patient: 1, warmth: warmth, item: it}
	if in.s.History.Item(it.Key()).PassedOver >= passedOverMost {
		r.patient = 0
	}
	r.kind = slices.Index([]agents.Kind{agents.KindRework, agents.KindReview, agents.KindSchedule, agents.KindIssue}, it.Kind)
	return r
}

func (a rank) compare(b rank) int {
	return cmp.Or(
		a.priority-b.priority, a.patient-b.patient, a.warmth-b.warmth, a.kind-b.kind, older(a.item, b.item),
	)
}

// older compares by age and name alone.
func older(a, b *threads.Item) int {
	return cmp.Or(a.Since.Compare(b.Since), a.Ref.Compare(b.Ref), cmp.Compare(a.Role, b.Role))
}

// warmth of an item for an agent in a slot: 0 the resident's own chain, 1 the agent that finished a blocker of it, 2 the
// resident with something else, 3 cold. Nothing is warm where agents share slots.
func (in *inspection) warmth(it *threads.Item, thread string, slot int, agent string) int {
	if in.cfg.Thread(thread).Overlap {
		return 3
	}
	warm := in.s.History.Slots[threads.SlotKey{Thread: thread, Slot: slot}]
	switch {
	case warm.Agent == agent && warm.Chain == it.Chain:
		return 0
	case in.finished(it, agent):
		return 1
	case warm.Agent == agent:
		return 2
	}
	return 3
}

// finished reports whether the agent wrote last on something that the issue depended on.
func (in *inspection) finished(it *threads.Item, agent string) bool {
	is := in.s.Facts.Issue(it.Ref)
	return is != nil && slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool {
		w := in.s.History.Chain(b.Ref).Writers
		return len(w) > 0 && w[len(w)-1] == agent
	})
}

// orderKept looks at each start beside each item that waits for nothing but an agent or a slot: whoever of the thread is
// free beside the others, and could have taken the waiting item into that very slot, must find it behind.
func orderKept(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		others := slices.Delete(slices.Clone(in.busy), len(in.s.Sessions)+i, len(in.s.Sessions)+i+1)
		before := append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...)
		got := in.rank(&st.Item, in.warmth(&st.Item, st.Thread, st.Slot, st.Agent))
		err := in.rivals(st, others, func(h *threads.Hold, a *agents.Agent) bool {
			stood := in.rank(&h.Item, in.warmth(&h.Item, st.Thread, st.Slot, a.Name)).compare(got) < 0
			return stood && in.kept(&h.Item, a, st.Slot, before) == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shownInOrder holds the list of what waits against the same order, warmth aside: that belongs to a slot.
func shownInOrder(in *inspection) error {
	for i := 1; i < len(in.plan.Holds); i++ {
		a, b := in.plan.Holds[i-1], in.plan.Holds[i]
		first, second := in.rank(&a.Item, 0), in.rank(&b.Item, 0)
		if in.approved(&a.Item) { // it shows as a review, and is nearer to its merge than any rework
			first.kind = -1
		}
		if in.approved(&b.Item) {
			second.kind = -1
		}
		if first.compare(second) >= 0 {
			return fmt.Errorf("%s %s stands before %s %s", a.Item.Kind, a.Ref, b.Item.Kind, b.Ref)
		}
	}
	return nil
}

// itemsRight takes what the order goes by from the facts: a pull request has the priority of its issue.
func itemsRight(in *inspection) error {
	items := make([]*threads.Item, 0, len(in.plan.Holds)+len(in.plan.Starts))
	for _, h := range in.plan.Holds {
		items = append(items, &h.Item)
	}
	for i := range in.plan.Starts {
		items = append(items, &in.plan.Starts[i].Item)
	}
	for _, it := range items {
		is, p := in.s.Facts.Issue(it.Chain), in.s.Facts.Pull(it.Ref)
		priority, chain, head := 0, it.Ref, ""
		switch {
		case it.Kind == agents.KindSchedule:
			priority = in.cfg.Role(it.Role).Priority
		case is != nil:
			priority = forge.Priority(is.Labels)
		default:
			priority = forge.Priority(p.Labels)
		}
		if p != nil {
			chain, head = home(p), p.HeadSHA
		}
		if it.Priority != priority || it.Chain != chain || it.HeadSHA != head {
			return fmt.Errorf("%s %s: got priority %d, chain %s, head %q, want %d, %s, %q",
				it.Kind, it.Ref, it.Priority, it.Chain, it.HeadSHA, priority, chain, head)
		}
	}
	return nil
}

// rivals finds an item that waits although an agent on the thread of a start could have taken it, and that stood before
// the started one.
func (in *inspection) rivals(st *threads.Start, busy []threads.Session, stood func(*threads.Hold, *agents.Agent) bool) error {
	for i := range in.plan.Holds {
		h := in.plan.Holds[i]
		if h.Reason.Code.Class() != threads.Busy {
			continue
		}
		for j := range in.cfg.Agents {
			a := &in.cfg.Agents[j]
			if a.Thread == st.Thread && in.able(&h.Item, a) == "" && in.idle(&h.Item, a, busy) == "" && stood(h, a) {
				return fmt.Errorf("%s %s got slot %d of %s with %s, and %s %s stood before it for %s",
					st.Item.Kind, st.Item.Ref, st.Slot, st.Thread, st.Agent, h.Item.Kind, h.Item.Ref, a.Name)
			}
		}
	}
	return nil
}

// passedOver bounds what warmth and the kinds of work may do to an item. Whoever stood ahead by priority and age alone
// is named in the start, and who was named three times is named again only by another of that kind.
func passedOver(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		if st.PassedOver == (threads.Key{}) {
			busy := append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...)
			err := in.rivals(st, busy, func(h *threads.Hold, _ *agents.Agent) bool { return ahead(&h.Item, &st.Item) })
			if err != nil {
				return fmt.Errorf("it is not named: %w", err)
			}
			continue
		}
		over := in.item(st.PassedOver)
		h := &in.s.History
		starved := h.Item(st.PassedOver).PassedOver >= passedOverMost && h.Item(st.Item.Key()).PassedOver < passedOverMost
		if over == nil || !ahead(over, &st.Item) || starved {
			return fmt.Errorf("%s %s names %s %s, passed over %d times", st.Item.Kind, st.Item.Ref,
				st.PassedOver.Kind, st.PassedOver.Ref, h.Item(st.PassedOver).PassedOver)
		}
	}
	return nil
}

func ahead(a, b *threads.Item) bool { return cmp.Or(a.Priority-b.Priority, older(a, b)) < 0 }

// item finds something that waits or starts in the plan.
func (in *inspection) item(k threads.Key) *threads.Item {
	for i := range in.plan.Holds {
		if in.plan.Holds[i].Item.Key() == k {
			return &in.plan.Holds[i].Item
		}
	}
	for i := range in.plan.Starts {
		if in.plan.Starts[i].Item.Key() == k {
			return &in.plan.Starts[i].Item
		}
	}
	return nil
}
