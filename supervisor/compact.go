package supervisor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// dump is the shortest journal that folds into this history. Rests that are over are left out.
func (h *history) dump(now time.Time) []record {
	var list []record
	for _, run := range sorted(h.open, strings.Compare) {
		o := h.open[run]
		list = append(list, record{At: o.at, Open: &o.startRecord})
	}
	for _, r := range sorted(h.steals, forge.Ref.Compare) {
		s := h.steals[r]
		list = append(list, record{At: now, Steal: &s})
	}
	for _, p := range sorted(h.Paused, comparePauses) {
		list = append(list, record{At: h.Paused[p], Pause: &pauseRecord{Thread: p.Thread, Agent: p.Agent}})
	}
	for _, r := range h.chains() {
		list = append(list, record{At: now, Chain: h.chainRecord(r)})
	}
	for _, k := range h.items(now) {
		list = append(list, record{At: now, Item: &itemRecord{
			Key: keyOf(k), CoolDown: h.CoolDown[k], LastRun: h.LastRun[k], PassedOver: h.PassedOver[k], Remarks: h.remarks[k],
		}})
	}
	for _, name := range h.agents(now) {
		hold := h.AgentHolds[name]
		if !hold.Until.After(now) {
			hold = threads.AgentHold{}
		}
		list = append(list, record{At: now, Agent: &agentRecord{
			Name: name, IdleSince: h.IdleSince[name], HeldUntil: hold.Until, HeldWhy: hold.Why,
			Done: h.tallies[name].done, Failed: h.tallies[name].failed, Fruitless: h.Fruitless[name],
			Spent: h.spentRecord(threads.Spender{Agent: name}, now),
		}})
	}
	for _, name := range h.threads(now) {
		p := h.Parked[name]
		t := &threadRecord{
			Name: name, ParkedUntil: p.Until, ParkedWhy: p.Why, Downs: h.downs[name],
			Spent: h.spentRecord(threads.Spender{Thread: name}, now),
		}
		if known, any := h.Returns[name]; any {
			t.Returns = &known
		}
		list = append(list, record{At: now, Thread: t})
	}
	for _, k := range sorted(h.Warm, func(a, b threads.SlotKey) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Slot, b.Slot))
	}) {
		w := h.Warm[k]
		list = append(list, record{At: now, Slot: &slotRecord{k.Thread, k.Slot, w.Agent, ref(w.Chain), w.Left}})
	}
	for _, p := range h.past {
		if now.Sub(p.End) <= pastAge {
			list = append(list, record{At: now, Past: &p})
		}
	}
	for _, r := range slices.Backward(h.recent) {
		list = append(list, record{At: now, Recent: &r})
	}
	return list
}

// chains are the issues and pull requests of which a chain record has something to say.
func (h *history) chains() []forge.Ref {
	set := make(map[forge.Ref]bool)
	for r := range h.Claimed {
		set[r] = true
	}
	for r := range h.cancels {
		set[r] = true
	}
	for _, r := range h.remembered() {
		set[r] = true
	}
	list := sorted(set, forge.Ref.Compare)
	return slices.DeleteFunc(list, func(r forge.Ref) bool {
		c := h.chainRecord(r)
		return c.Claimed == "" && len(c.Writers) == 0 && c.CIFixes == 0 && c.Asked == 0 && c.Told == "" && c.Refused == "" &&
			c.Retried.IsZero() && !c.Cancel && len(c.Attempts) == 0 && c.Written.IsZero()
	})
}

func (h *history) chainRecord(r forge.Ref) *chainRecord {
	c := &chainRecord{
		Ref: ref(r), Claimed: h.Claimed[r], Login: h.logins[r], Writers: h.Writers[r], CIFixes: h.CIFixes[r], Asked: h.Asked[r], Told: h.Told[r],
		Refused: h.Refused[r], RefusedAt: h.refusedAt[r], Retried: h.Retried[r], Cancel: h.cancels[r], Close: h.closes[r],
		Written: h.written[r].at, WrittenOn: h.written[r].thread,
	}
	for _, kind := range itemKinds {
		k := threads.AttemptKey{Chain: r, Kind: kind}
		if a, counted := h.Attempts[k]; counted {
			f := h.failures[k]
			c.Attempts = append(c.Attempts, attemptRecord{kind, a.Count, a.Until, a.Marked, f.at, f.reason, f.tail})
		}
	}
	return c
}

// items are the pieces of work of which an item record has something to say.
func (h *history) items(now time.Time) []threads.Key {
	set := make(map[threads.Key]bool)
	for k, until := range h.CoolDown {
		if until.After(now) {
			set[k] = true
		}
	}
	for k := range h.LastRun {
		set[k] = true
	}
	for k := range h.PassedOver {
		set[k] = true
	}
	for k := range h.remarks {
		set[k] = true
	}
	return sorted(set, func(a, b threads.Key) int {
		return cmp.Or(a.Ref.Compare(b.Ref), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Role, b.Role))
	})
}

func (h *history) agents(now time.Time) []string {
	set := make(map[string]bool)
	for name := range h.IdleSince {
		set[name] = true
	}
	for name := range h.tallies {
		set[name] = true
	}
	for name := range h.Fruitless {
		set[name] = true
	}
	for name, hold := range h.AgentHolds {
		set[name] = set[name] || hold.Until.After(now)
	}
	for who := range h.Spent {
		if who.Agent != "" && h.spentRecord(who, now) != nil {
			set[who.Agent] = true
		}
	}
	return sorted(set, strings.Compare)
}

// spentRecord is what somebody used today; nil when that is nothing.
func (h *history) spentRecord(who threads.Spender, now time.Time) *spentRecord {
	s := h.Spent[who]
	if s.Day.Before(threads.Day(now)) {
		return nil
	}
	return &spentRecord{s.Day, s.Tokens, s.USD}
}

func (h *history) restoreSpent(who threads.Spender, s *spentRecord) {
	if s != nil {
		h.Spent[who] = threads.Spent{Day: s.Day, Tokens: s.Tokens, USD: s.USD}
	}
}

func (h *history) threads(now time.Time) []string {
	set := make(map[string]bool)
	for who := range h.Spent {
		if who.Thread != "" && h.spentRecord(who, now) != nil {
			set[who.Thread] = true
		}
	}
	for name := range h.Parked {
		set[name] = true
	}
	for name := range h.downs {
		set[name] = true
	}
	for name := range h.Returns {
		set[name] = true
	}
	return sorted(set, strings.Compare)
}

// restore reads back what dump wrote.
func (h *history) restore(r record) {
	switch {
	case r.Chain != nil:
		h.restoreChain(r.Chain)
	case r.Item != nil:
		h.restoreItem(r.Item)
	case r.Agent != nil:
		h.restoreAgent(r.Agent)
	case r.Thread != nil:
		if !r.Thread.ParkedUntil.IsZero() {
			h.Parked[r.Thread.Name] = threads.Parked{Until: r.Thread.ParkedUntil, Why: r.Thread.ParkedWhy}
		}
		h.restoreSpent(threads.Spender{Thread: r.Thread.Name}, r.Thread.Spent)
		if r.Thread.Returns != nil {
			h.Returns[r.Thread.Name] = *r.Thread.Returns
		}
		if r.Thread.Downs > 0 {
			h.downs[r.Thread.Name] = r.Thread.Downs
		}
	case r.Slot != nil:
		s := r.Slot
		h.Warm[threads.SlotKey{Thread: s.Thread, Slot: s.Slot}] = threads.Warm{Agent: s.Agent, Chain: forge.Ref(s.Chain), Left: s.Left}
	case r.Past != nil:
		h.bury(*r.Past)
	case r.Recent != nil:
		h.remember(*r.Recent)
	}
}

func (h *history) restoreChain(c *chainRecord) {
	item := forge.Ref(c.Ref)
	if c.Claimed != "" {
		h.Claimed[item], h.logins[item] = c.Claimed, c.Login
	}
	if len(c.Writers) > 0 {
		h.Writers[item] = c.Writers
	}
	setUnlessZero(h.CIFixes, item, c.CIFixes)
	setUnlessZero(h.Asked, item, c.Asked)
	setUnlessZero(h.Told, item, c.Told)
	setUnlessZero(h.Refused, item, c.Refused)
	setUnlessZero(h.refusedAt, item, c.RefusedAt)
	setUnlessZero(h.Retried, item, c.Retried)
	setUnlessZero(h.cancels, item, c.Cancel)
	setUnlessZero(h.closes, item, c.Close)
	if !c.Written.IsZero() {
		h.written[item] = writing{c.WrittenOn, c.Written}
	}
	for _, a := range c.Attempts {
		k := threads.AttemptKey{Chain: item, Kind: a.Kind}
		h.Attempts[k] = threads.Attempts{Count: a.Count, Until: a.Until, Marked: a.Marked}
		if !a.Failed.IsZero() {
			h.failures[k] = failure{a.Failed, a.Reason, a.Tail}
		}
	}
}

func (h *history) restoreItem(i *itemRecord) {
	k := i.Key.threads()
	setUnlessZero(h.CoolDown, k, i.CoolDown)
	setUnlessZero(h.LastRun, k, i.LastRun)
	setUnlessZero(h.PassedOver, k, i.PassedOver)
	setUnlessZero(h.remarks, k, i.Remarks)
}

func (h *history) restoreAgent(a *agentRecord) {
	setUnlessZero(h.IdleSince, a.Name, a.IdleSince)
	setUnlessZero(h.Fruitless, a.Name, a.Fruitless)
	setUnlessZero(h.tallies, a.Name, tally{a.Done, a.Failed})
	h.restoreSpent(threads.Spender{Agent: a.Name}, a.Spent)
	if !a.HeldUntil.IsZero() {
		h.AgentHolds[a.Name] = threads.AgentHold{Until: a.HeldUntil, Code: threads.AgentHeld, Why: a.HeldWhy}
	}
}

func setUnlessZero[K, V comparable](m map[K]V, k K, v V) {
	var zero V
	if v != zero {
		m[k] = v
	}
}
