package threads

import (
	"cmp"
	"slices"
	"sort"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Decide is the whole scheduler. From the facts of one moment it plans what to do now for every thread, with a reason
// for each item that waits. The same snapshot gives the same plan; a nil configuration gives an empty one.
func Decide(s Snapshot) Plan {
	if s.Config == nil {
		return Plan{}
	}
	plan, _ := decide(&s)
	return plan
}

// decide also returns the decision behind the plan, which explains it.
func decide(s *Snapshot) (Plan, *decision) {
	v := newView(s)
	d := newDecision(v)
	d.reconcile()
	d.line()
	d.classify()
	d.merge()
	d.start()
	d.route()
	d.fallBack()
	d.catchUp()
	d.hold()
	d.plan.NextWake = v.wakeAt
	return d.plan, d
}

// decision is a plan in the making.
type decision struct {
	*view
	items   []work
	issues  int     // the first so many items are issues, sorted by Ref
	queue   []*work // the queued items without a session, in queue order
	classes []*class
	plan    Plan
	ready   []*work // approved pull requests that can be merged
}

func newDecision(v *view) *decision {
	d := &decision{view: v, items: v.items()}
	d.issues = sort.Search(len(d.items), func(i int) bool { return d.items[i].issue == nil })
	for i := range v.Sessions {
		d.attend(&v.Sessions[i])
	}
	return d
}

// line applies the item rules, gives each item that no rule objects to its class, and sorts the queue. To an issue that
// is not queued, one of the first rules objects. Classes are given here and not in the order of the queue, because the
// items stand in this order in memory: that saves one part in twenty of a plan's time.
func (d *decision) line() {
	d.queue = make([]*work, 0, len(d.items))
	known := make(map[traitKey][]*class)
	var c *class
	for i := range d.items {
		w := &d.items[i]
		w.Reason = d.objection(w)
		switch {
		case w.Reason != nil && w.Reason.Code == HasSession:
			continue
		case !w.queued:
			d.plan.Unqueued = append(d.plan.Unqueued, &w.Hold)
			continue
		case w.Reason == nil && w.Kind != stageMerge:
			if t := d.traitsOf(w); c == nil || !c.equal(&t) { // neighbours mostly share a class
				c = d.classOf(t, known)
			}
			w.class = c
		}
		d.queue = append(d.queue, w)
	}
	slices.SortFunc(d.queue, before)
	d.inTurns()
}

// classify gathers the items without an objection by class.
func (d *decision) classify() {
	for _, w := range d.queue {
		switch c := w.class; {
		case c != nil:
			if len(c.items) == 0 {
				d.classes = append(d.classes, c)
			}
			c.items = append(c.items, w)
		case w.Reason == nil:
			d.ready = append(d.ready, w)
		}
	}
}

// classOf returns the class of these traits. It creates a class that is new.
func (d *decision) classOf(t traits, known map[traitKey][]*class) *class {
	for _, c := range known[t.traitKey] {
		if c.equal(&t) {
			return c
		}
	}
	c := &class{traits: t}
	known[t.traitKey] = append(known[t.traitKey], c)
	d.qualify(c)
	return c
}

// merge picks the oldest mergeable pull request of each repository. A merge moves the base of the others, so a scan
// has to show whether they still merge cleanly.
func (d *decision) merge() {
	slices.SortFunc(d.ready, func(a, b *work) int {
		return cmp.Or(a.pull.Created.Compare(b.pull.Created), a.Ref.Compare(b.Ref))
	})
	first := make(map[string]forge.Ref)
	for _, w := range d.ready {
		if ahead, taken := first[w.Ref.Repo]; taken {
			w.Reason = &Reason{Code: MergeQueued, Refs: []forge.Ref{ahead}}
			continue
		}
		first[w.Ref.Repo] = w.Ref
		w.taken = true
		d.plan.Merges = append(d.plan.Merges, Merge{Ref: w.Ref, HeadSHA: w.HeadSHA, Base: w.Base})
	}
}

// start fills the free slots.
func (d *decision) start() {
	if !slices.ContainsFunc(d.threads, func(t threadState) bool { return !t.full() }) {
		return // most ticks of a busy factory
	}
	p := d.newPlacer(d.classes)
	for got := p.next(); got.work != nil; got = p.next() {
		got.work.Opener = d.OpenerOf(got.work.Chain, got.work.pull)
		s := Start{
			Item: got.work.Item, Thread: got.thread.Name, Slot: got.slot, Agent: got.cand.agent.Name,
			Role: got.cand.role.Name, Attempt: d.attempt(got.work), PassedOver: p.passedOver(&got),
			Rung: got.work.class.level,
		}
		d.plan.Starts = append(d.plan.Starts, s)
		d.occupy(&got, s)
		p.took(&got)
	}
}

// occupy makes a start count as a session in the rest of the plan.
func (d *decision) occupy(got *placement, s Start) {
	session := s.session()
	d.byAgent[s.Agent] = session
	d.countReview(session)
	d.countOpened(session)
	d.attend(session)
	got.work.taken = true
	d.enter(got.work)
	got.cand.agent.work(s.Item.Ref)
	got.thread.begin()
	d.comes(got.thread, session)
	d.weighGauges(got.thread)
	got.thread.sessions[got.slot]++
}

// hold gives every waiting item its reason.
func (d *decision) hold() {
	for _, c := range d.classes {
		c.why = d.waitsFor(c)
	}
	d.plan.Holds = make([]*Hold, 0, len(d.queue))
	for _, w := range d.queue {
		if w.taken {
			continue
		}
		if w.Reason == nil && len(d.plan.Starts) > 0 {
			w.Reason = d.takenMeanwhile(w)
		}
		if w.Reason == nil {
			w.Reason = w.class.why
		}
		w.Kind = asShown(w.Kind)
		d.plan.Holds = append(d.plan.Holds, &w.Hold)
	}
}

// takenMeanwhile returns why an item that no rule objected to cannot start after the other starts of this plan.
func (v *view) takenMeanwhile(w *work) *Reason {
	return cmp.Or(chainBusy(v, w), repoFull(v, w), sessionsLeft(v, w), reviewLimit(v, w), openerLimit(v, w))
}

// asShown is the kind of work as users see it: an approved pull request is still in review.
func asShown(kind agents.Kind) agents.Kind {
	if kind == stageMerge {
		return agents.KindReview
	}
	return kind
}
