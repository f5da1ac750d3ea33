package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// PassedOverLimit is how often an item may be passed over before it goes first in its priority class, so that warmth
// starves no item.
const PassedOverLimit = 3

// kindOrder is the order of the kinds of work, nearest to a merge first.
var kindOrder = []agents.Kind{stageMerge, agents.KindRework, agents.KindReview, agents.KindSchedule, agents.KindIssue}

// The warmth of a placement in a sticky slot is the share of the cache that it can use, the largest first.
const (
	warmChain    = iota // the agent continues its conversation on the chain
	warmFinisher        // the agent that finished one of the item's blockers
	warmResident        // the resident, with another item
	cold
)

// before is the order of the queue: priority, passed over, kind, the turn of its repository, age, name. For a given
// slot, warmth comes between passed over and kind: see better. It compares further only where it must: sorting calls it
// 100,000 times.
func before(a, b *work) int {
	if c := cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.nearness, b.nearness)); c != 0 {
		return c
	}
	if c := cmp.Compare(a.turn(), b.turn()); c != 0 {
		return c
	}
	return older(a, b)
}

// older orders by age, then name.
func older(a, b *work) int {
	if c := a.Since.Compare(b.Since); c != 0 {
		return c
	}
	return cmp.Or(a.Ref.Compare(b.Ref), cmp.Compare(a.Item.Role, b.Item.Role))
}

// placement is one possible start: this item, by this agent, in this slot.
type placement struct {
	work   *work
	cand   candidate
	thread *threadState
	slot   int
	warmth int
	home   bool // the agent is the slot's resident
	away   bool // the agent is the resident of another slot, whose cache a session here would waste
}

// better is a total order of placements: by the queue and by warmth, then by agent and slot.
func better(a, b *placement) int {
	return cmp.Or(
		cmp.Compare(a.work.urgency, b.work.urgency),
		a.warmth-b.warmth,
		cmp.Compare(a.work.nearness, b.work.nearness),
		cmp.Compare(a.work.turn(), b.work.turn()),
		older(a.work, b.work),
		falseLast(a.home, b.home),
		falseLast(b.away, a.away),
		a.cand.agent.idle.Compare(b.cand.agent.idle),
		cmp.Compare(a.cand.agent.Name, b.cand.agent.Name),
		cmp.Compare(a.thread.Name, b.thread.Name),
		cmp.Compare(a.slot, b.slot),
	)
}

func falseLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// placer fills free slots with the best placement until none is left. It remembers the best placement of each thread,
// and recomputes it only where the last start could have changed it. Without that, ninety starts from 10,000 items
// took 20 ms.
type placer struct {
	*view
	classes []*class              // with an able agent, sorted by the queue place of their heads
	chains  map[forge.Ref][]*work // items that continue a warm conversation
	heirs   map[string][]*work    // items, by the agent that finished a blocker
	best    []placement           // per thread; without work if there is none
}

func (v *view) newPlacer(classes []*class) *placer {
	p := &placer{view: v, best: make([]placement, len(v.threads))}
	for _, c := range classes {
		if len(c.able) > 0 {
			c.on = make([][]candidate, len(v.threads))
			for _, cand := range c.able {
				at := cand.agent.thread.place
				c.on[at] = append(c.on[at], cand)
			}
			p.classes = append(p.classes, c)
		}
	}
	p.advance()
	p.indexWarmth()
	for i := range v.threads {
		p.best[i] = p.bestOn(&v.threads[i])
	}
	return p
}

// advance moves the head of each class to the first item that can still start, and drops classes without one. An item
// whose chain got a session in this plan waits.
func (p *placer) advance() {
	for _, c := range p.classes {
		for c.next < len(c.items) && !p.open(c.items[c.next]) {
			c.next++
		}
	}
	p.classes = slices.DeleteFunc(p.classes, func(c *class) bool { return c.next == len(c.items) })
	slices.SortFunc(p.classes, func(a, b *class) int { return before(a.head(), b.head()) })
}

// head returns the first item of the class that can still start.
func (c *class) head() *work { return c.items[c.next] }

// indexWarmth finds the items to which warmth applies, so that eachWarm need not search the queue.
func (p *placer) indexWarmth() {
	p.chains = make(map[forge.Ref][]*work)
	p.heirs = make(map[string][]*work)
	for i := range p.view.threads {
		for _, w := range p.view.threads[i].warm {
			if w.Agent != "" {
				p.chains[w.Chain] = nil
			}
		}
		for _, talk := range p.view.threads[i].talks {
			p.chains[talk.Chain()] = nil
		}
	}
	for _, c := range p.classes {
		for _, w := range c.items {
			if list, wanted := p.chains[w.Chain]; wanted {
				p.chains[w.Chain] = append(list, w)
			}
			for _, agent := range p.finishers(w) {
				p.heirs[agent] = append(p.heirs[agent], w)
			}
		}
	}
}

// finishers returns the agents that wrote last on the blockers of an issue.
func (v *view) finishers(w *work) []string {
	if w.issue == nil {
		return nil
	}
	var names []string
	for _, b := range w.issue.Blockers {
		if last := v.History.Chain(b.Ref).Finisher(); last != "" {
			names = append(names, last)
		}
	}
	return names
}

// next returns the best placement of all threads. Its work is nil when there is none.
func (p *placer) next() placement {
	var best placement
	for i := range p.best {
		best.improve(&p.best[i])
	}
	return best
}

// improve replaces a placement by a better one.
func (p *placement) improve(other *placement) {
	if other.work != nil && (p.work == nil || better(other, p) < 0) {
		*p = *other
	}
}

// took recomputes the best placements that a start may have changed: that of its own thread, those whose item can no
// longer start, and those in its repository, which now has the last turn. On every other thread some items are gone or
// come later, but not the best.
func (p *placer) took(started *placement) {
	p.advance()
	for i := range p.view.threads {
		t, b := &p.view.threads[i], &p.best[i]
		if b.work != nil && (!p.open(b.work) || b.work.home == started.work.home && len(p.homes) > 1) {
			p.best[i] = p.bestOn(t)
		}
	}
}

// bestOn returns the best placement on one thread.
func (p *placer) bestOn(t *threadState) placement {
	var best placement
	if t.full() {
		return best
	}
	slots := freeSlots(t)
	consider := func(w *work) { p.weigh(w, t, slots, &best) }
	for _, c := range p.classes {
		w := c.head()
		if best.work != nil && (t.Overlap || w.urgency > best.work.urgency) {
			break // warmth does not make up for urgency, and overlap slots have none
		}
		if p.anyFree(c, t) {
			consider(w)
			if len(t.kept) > 0 && !w.insists() { // an item behind it may insist
				c.eachInsistent(p, consider)
			}
		}
	}
	p.eachWarm(t, slots, consider)
	return best
}

// freeSlots returns the slots that a new session may take. On an overlap thread slots are only for display, and a
// session is shown in the slot with the fewest.
func freeSlots(t *threadState) []int {
	if t.Overlap {
		return []int{slices.Index(t.sessions, slices.Min(t.sessions))}
	}
	free := make([]int, 0, t.Slots)
	for slot, n := range t.sessions {
		if n == 0 {
			free = append(free, slot)
		}
	}
	return free
}

// eachInsistent calls use with the first item of each urgency that may take a kept slot.
func (c *class) eachInsistent(p *placer, use func(*work)) {
	var last *work
	for _, w := range c.items[c.next:] {
		if w.insists() && (last == nil || last.urgency != w.urgency) && p.open(w) {
			use(w)
			last = w
		}
	}
}

// anyFree reports whether an agent on the thread could start an item of the class now.
func (p *placer) anyFree(c *class, t *threadState) bool {
	return slices.ContainsFunc(c.on[t.place], p.free)
}

func (p *placer) open(w *work) bool {
	return !w.taken && p.takenMeanwhile(w) == nil
}

// eachWarm calls use with the items that continue a conversation in a free slot or in the memory of a sticky thread,
// and with those that have a blocker finished by an idle agent of the thread.
func (p *placer) eachWarm(t *threadState, free []int, use func(*work)) {
	if t.Overlap {
		return
	}
	each := func(items []*work) {
		for _, w := range items {
			if p.open(w) {
				use(w)
			}
		}
	}
	for _, slot := range free {
		if w := t.warm[slot]; w.Agent != "" {
			each(p.chains[w.Chain])
		}
	}
	for i := range t.talks {
		each(p.chains[t.talks[i].Chain()])
	}
	for _, name := range t.Agents {
		if p.byAgent[name] == nil {
			each(p.heirs[name])
		}
	}
}

// weigh replaces best by a better placement of an item in one of the free slots of a thread, if there is one.
func (p *placer) weigh(w *work, t *threadState, slots []int, best *placement) {
	for _, cand := range w.class.on[t.place] {
		if !p.free(cand) {
			continue
		}
		for _, slot := range slots {
			if p.notKept(w, cand, slot) == nil {
				got := p.rate(w, cand, slot)
				best.improve(&got)
			}
		}
	}
}

// rate says how well an agent fits an item in a slot.
func (p *placer) rate(w *work, cand candidate, slot int) placement {
	t := cand.agent.thread
	got := placement{work: w, cand: cand, thread: t, slot: slot, warmth: cold}
	finisher := slices.Contains(p.finishers(w), cand.agent.Name)
	if t.Overlap {
		got.home = finisher // there is no cache to keep, but the agent knows the work
		return got
	}
	warm := t.warm[slot]
	got.home = warm.Agent == cand.agent.Name
	got.away = !got.home && t.residentElsewhere(cand.agent.Name)
	switch {
	case p.goesOn(w, cand, slot):
		got.warmth = warmChain
	case finisher:
		got.warmth = warmFinisher
	case got.home:
		got.warmth = warmResident
	}
	return got
}

// residentElsewhere reports whether an agent that is no resident of a slot is warm in another free one.
func (t *threadState) residentElsewhere(agent string) bool {
	for other, w := range t.warm {
		if w.Agent == agent && t.sessions[other] == 0 {
			return true
		}
	}
	return false
}

// passedOver returns the first item, by priority and age alone, that could have had the slot of a placement; zero
// when that is the placement's own item. An item whose repository has its turn later is not passed over.
func (p *placer) passedOver(got *placement) Key {
	first := got.work
	for _, c := range p.classes {
		if w := p.oldest(c); ahead(w, first) && !w.outOfTurn(got.work) && p.anyFree(c, got.thread) {
			first = w
		}
	}
	if first == got.work {
		return Key{}
	}
	return first.Key()
}

// oldest returns the open item of a class that is first by priority and age alone. That is the head or, if items
// passed over too often overtook older ones, the first item behind those.
func (p *placer) oldest(c *class) *work {
	first := c.head()
	for i, starved := c.next, true; i < len(c.items) && starved; i++ {
		w := c.items[i]
		if !p.open(w) {
			continue
		}
		if ahead(w, first) {
			first = w
		}
		starved = w.starved()
	}
	return first
}

func ahead(a, b *work) bool { return cmp.Or(a.Priority-b.Priority, older(a, b)) < 0 }
