package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Decide is the whole scheduler. It looks at one moment and says what to do now for every thread, and for each item
// that waits, why. The same snapshot gives the same plan; an empty configuration gives an empty one.
func Decide(s Snapshot) Plan {
	if s.Config == nil {
		return Plan{}
	}
	plan, _ := decide(&s)
	return plan
}

// decide also returns the view and the work it was made from, for explaining.
func decide(s *Snapshot) (Plan, *decision) {
	v := newView(s)
	d := &decision{view: v, items: v.items()}
	d.reconcile()
	d.classify()
	d.merge()
	d.start()
	d.hold()
	d.plan.NextWake = v.wakeAt
	return d.plan, d
}

// decision is a plan in the making.
type decision struct {
	*view
	items   []work
	classes []*class
	plan    Plan
	ready   []*work // approved pull requests that nothing keeps from being merged
}

// classify asks the item rules of every item, and groups those that pass by traits.
func (d *decision) classify() {
	byTraits := make(map[traits]*class)
	for i := range d.items {
		w := &d.items[i]
		if w.Reason, w.held = d.objection(w); w.held {
			continue
		}
		if w.Kind == stageMerge {
			d.ready = append(d.ready, w)
			continue
		}
		t := d.traitsOf(w)
		c := byTraits[t]
		if c == nil {
			c = &class{traits: t}
			byTraits[t] = c
			d.classes = append(d.classes, c)
			d.qualify(c)
		}
		w.class = c
		c.items = append(c.items, w)
	}
	for _, c := range d.classes {
		slices.SortFunc(c.items, before)
	}
}

// merge takes the oldest mergeable pull request of each repository. One at a time: each merge moves the base under all
// the others, and whether they still merge cleanly has to be seen first.
func (d *decision) merge() {
	slices.SortFunc(d.ready, func(a, b *work) int {
		return cmp.Or(a.pull.Created.Compare(b.pull.Created), a.Ref.Compare(b.Ref))
	})
	first := make(map[string]forge.Ref)
	for _, w := range d.ready {
		if ahead, taken := first[w.Ref.Repo]; taken {
			w.Reason, w.held = Reason{Code: MergeQueued, Refs: []forge.Ref{ahead}}, true
			continue
		}
		first[w.Ref.Repo] = w.Ref
		w.taken = true
		d.plan.Merges = append(d.plan.Merges, Merge{Ref: w.Ref, HeadSHA: w.HeadSHA})
	}
}

// start fills the free slots.
func (d *decision) start() {
	p := d.newPlacer(d.classes)
	for got := p.next(); got.work != nil; got = p.next() {
		s := Start{
			Item: got.work.Item, Thread: got.thread.Name, Slot: got.slot, Agent: got.cand.agent.Name,
			Role: got.cand.role.Name, Attempt: d.attempt(&got.work.Item), PassedOver: p.passedOver(&got),
		}
		d.plan.Starts = append(d.plan.Starts, s)
		d.occupy(&got, s)
		p.took(&got)
	}
}

// occupy lets the rest of the plan see a start as the session that it will be.
func (d *decision) occupy(got *placement, s Start) {
	session := &Session{
		Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Role: s.Role, Item: s.Item, State: Reserved, Attempt: s.Attempt,
	}
	d.addSession(session)
	got.work.taken = true
	got.cand.agent.on = []forge.Ref{s.Item.Ref}
	got.thread.running++
	got.thread.sessions[got.slot]++
}

// hold gives every item that waits its reason.
func (d *decision) hold() {
	waits := make(map[*class]Reason, len(d.classes))
	for _, c := range d.classes {
		waits[c] = d.waitsFor(c)
	}
	queue := make([]*work, 0, len(d.items))
	for i := range d.items {
		if w := &d.items[i]; !w.taken && w.Reason.Code != HasSession {
			queue = append(queue, w)
		}
	}
	slices.SortFunc(queue, before)
	d.plan.Holds = make([]*Hold, len(queue))
	for i, w := range queue {
		if !w.held {
			// A start in this plan may have taken its chain; if not, it waits for whoever is able.
			if w.Reason, w.held = chainBusy(d.view, w); !w.held {
				w.Reason = waits[w.class]
			}
		}
		w.Item = d.shown(w)
		d.plan.Holds[i] = &w.Hold
	}
}

// shown is the item as people know it: an approved pull request waits as a review.
func (d *decision) shown(w *work) Item {
	it := w.Item
	if it.Kind == stageMerge {
		it.Kind = agents.KindReview
	}
	return it
}
