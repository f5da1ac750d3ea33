package worlds

import (
	"cmp"
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// The design's order for a free slot: priority class; items passed over three times or more; warmth; rework, review,
// scheduled, new issue; age; name.

// rank is an item's place in the queue of a slot, smallest first. warmth says how much of the slot's cache the item
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
	kinds := []agents.Kind{agents.KindRework, agents.KindReview, agents.KindSchedule, agents.KindIssue}
	r.kind = slices.Index(kinds, it.Kind)
	return r
}

func (a rank) compare(b rank) int {
	return cmp.Or(
		a.priority-b.priority, a.patient-b.patient, a.warmth-b.warmth, a.kind-b.kind, older(a.item, b.item),
	)
}

// older compares items by age and name alone.
func older(a, b *threads.Item) int {
	return cmp.Or(a.Since.Compare(b.Since), a.Ref.Compare(b.Ref), cmp.Compare(a.Role, b.Role))
}

// warmth grades an item for an agent in a slot: 0 if it continues its conversation on the chain, 1 for the agent that
// finished a blocker, 2 for the resident with another item, 3 for a cold slot. Slots of overlap threads are always
// cold.
func (in *inspection) warmth(it *threads.Item, thread string, slot int, agent string) int {
	t := in.cfg.Thread(thread)
	switch {
	case t.Overlap:
		return 3
	case in.inMemory(t) && in.remembers(t, agent, it.Chain):
		return 0
	case in.inMemory(t) && in.finished(it, agent):
		return 1
	case in.inMemory(t):
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

// finished reports whether the agent was the last writer of one of the issue's blockers.
func (in *inspection) finished(it *threads.Item, agent string) bool {
	is := in.s.Facts.Issue(it.Ref)
	return is != nil && slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool {
		return in.s.History.Chain(b.Ref).Finisher() == agent
	})
}

// orderKept compares each start with each item that waits only for an agent or a slot. If a free agent of the thread
// could have taken the waiting item into that slot, the waiting item must rank behind the started one.
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

// shownInOrder checks that the holds are in the same order, without warmth, which belongs to a slot.
func shownInOrder(in *inspection) error {
	for i := 1; i < len(in.plan.Holds); i++ {
		a, b := in.plan.Holds[i-1], in.plan.Holds[i]
		first, second := in.rank(&a.Item, 0), in.rank(&b.Item, 0)
		if in.approved(&a.Item) { // an approved one is listed as a review, and ranks before any rework
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

// itemsRight checks each item's priority, chain and head against the facts. A pull request has its issue's priority.
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

// rivals returns an error if stood accepts a waiting item that an agent on the thread of a start could have taken.
func (in *inspection) rivals(
	st *threads.Start, busy []threads.Session, stood func(*threads.Hold, *agents.Agent) bool,
) error {
	for i := range in.plan.Holds {
		h := in.plan.Holds[i]
		if h.Reason.Code.Class() != threads.Busy {
			continue
		}
		for j := range in.cfg.Agents {
			a := &in.cfg.Agents[j]
			if a.Thread == st.Thread && in.able(&h.Item, a) == "" && in.idle(&h.Item, a, busy) == "" && stood(h, a) {
				return fmt.Errorf("%s %s got slot %d of %s with %s, but %s %s ranks before it for %s",
					st.Item.Kind, st.Item.Ref, st.Slot, st.Thread, st.Agent, h.Item.Kind, h.Item.Ref, a.Name)
			}
		}
	}
	return nil
}

// passedOver limits how often warmth and kind may put an item back. A start names an item that stood ahead of it by
// priority and age. After three times, only a start of an item that was also passed over three times may name the
// item again.
func passedOver(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		if st.PassedOver == (threads.Key{}) {
			busy := append(slices.Clone(in.s.Sessions), sessionsOf(in.plan.Starts[:i])...)
			err := in.rivals(st, busy, func(h *threads.Hold, _ *agents.Agent) bool { return ahead(&h.Item, &st.Item) })
			if err != nil {
				return fmt.Errorf("the start does not name the item: %w", err)
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

// item returns an item of the plan's holds or starts, or nil.
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
