package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// clerk carries out the chores: changes on the forge outside a session, such as a merge or a label.
type clerk struct {
	*core
	inference *inference
	notify    Notifier // nil sends nothing
	hub       *fleet.Hub
	host      string // this machine, in the labels of issues that another host steals; empty adds no such label
	meters    Meters
}

// do does a chore, and then allows decisions on its items again. A chore that panics has failed.
func (k *clerk) do(c *chore) {
	row, err, began := actions[c.action], errors.New(internalError), time.Now()
	k.safely("a chore of "+c.tag, func() { err = row.do(k, c) })
	k.done(c, began, err)
	touched := c.write.end()
	if err == nil {
		k.problems.repaired(c.action)
	}
	k.logNotices(k.state.choreDone(c, row, err))
	k.kicks.all(touched)
	k.touchStatus()
}

// actions has a row for each kind of chore. To add one, write its row.
var actions = map[threads.Action]action{
	ActMerge:              {"merge", "merged", (*clerk).merge},
	actCancel:             {"label cancelled", "cancelled by hand", (*clerk).labelCancelled},
	actSteal:              {"move", "", (*clerk).steal},
	threads.ActRoute:      {"assign", "", (*clerk).route},
	threads.ActRelease:    {"release the claim", "", (*clerk).releaseClaim},
	threads.ActUnlabel:    {"remove in-progress", "in-progress removed: no agent is assigned", (*clerk).unlabel},
	threads.ActClose:      {"close", "closed, its pull request is merged", (*clerk).close},
	threads.ActBlocked:    {"label blocked", "", (*clerk).markBlocked},
	threads.ActNeedsHuman: {"label needs-human", "", (*clerk).markNeedsHuman},
	threads.ActAsk:        {"ask people", "", (*clerk).askPeople},
	threads.ActAnswered:   {"note the answer", "", (*clerk).recordAnswer},
	threads.ActPlanFirst:  {"label plan-first", "", (*clerk).labelPlanFirst},
	threads.ActSplit:      {"file the split", "", (*clerk).split},
	threads.ActTell:       {"comment", "", (*clerk).tellPeople},
	threads.ActUpdate:     {"bring up to date", "", (*clerk).catchUp},
	threads.ActEndConvoy:  {"close the convoy", "", (*clerk).endConvoy},
}

// merge reads the pull request again before it merges, because the plan's scan does not read everything.
func (k *clerk) merge(c *chore) error {
	look, err := k.fetchItem(c.ref, time.Now())
	switch {
	case err != nil:
		return err
	case look.Pull == nil:
		return fmt.Errorf("%w: it is not a pull request", forge.ErrConflict)
	}
	c.chain = threads.ChainOf(look.Pull)
	why := ""
	k.view(func(snap threads.Snapshot) {
		why = threads.StillMerges(snap, threads.Merge{Ref: c.ref, HeadSHA: c.head, Base: c.base}, *look.Pull)
	})
	if why != "" {
		return fmt.Errorf("%w: %s", forge.ErrConflict, why)
	}
	err = k.call(k.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Merge(ctx, c.ref, c.head, c.base)
	})
	if no, refused := errors.AsType[*forge.Refusal](err); refused {
		if no.Cause == forge.RefusedOutdated {
			return k.bringUpToDate(c, no)
		}
		k.refused(c, no)
	}
	if err == nil {
		at, chain := time.Now(), ledger.Ref(threads.ChainOf(look.Pull))
		merged := ledger.Merged{Ref: ledger.Ref(c.ref), Chain: chain, When: at, Agent: look.Pull.Author}
		if a := k.state.config().AgentByLogin(look.Pull.Author); a != nil {
			merged.Agent = a.Name
		}
		k.state.record(ledger.Record{At: at, Merged: &merged})
		k.inference.deleteSaved(k.state.config(), func(_ string, over forge.Ref) bool { return over == forge.Ref(chain) })
		k.events.Send(control.EventMerged, control.RefData{Repo: c.ref.Repo, Number: c.ref.Number})
		if k.notify != nil {
			k.notify.RecordMerge(c.ref, look.Pull.Title)
		}
	}
	return err
}

// failing lists the chores that the forge keeps refusing. A merge is not among them: its pull request has the reason.
func (st *state) failing() (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(st.chores), choreKey.compare) {
		if c := st.chores[k]; k.action != ActMerge && c.failures >= tellAfter {
			lines = append(lines, fmt.Sprintf("%s: cannot %s, tried again: %s", c.ref, actions[k.action].verb, c.failed))
		}
	}
	return lines
}

// refused records the forge's refusal of a merge.
func (k *clerk) refused(c *chore, no *forge.Refusal) {
	now := time.Now()
	is := threads.NoMerge{Head: c.head, Base: c.base, Cause: no.Cause, Words: no.Words, Count: 1}
	if was := k.state.chain(c.ref).NoMerge; was != nil && was.Head == is.Head && was.Base == is.Base {
		is.Count += was.Count
	}
	is.Until = now.Add(restAfter(mergeRest, is.Count))
	k.state.record(ledger.Record{At: now, NoMerge: &ledger.NoMerge{Ref: ledger.Ref(c.ref), NoMerge: is}})
}

// update merges the base into a pull request, and records that. It reports whether the head has moved.
func (k *clerk) update(c *chore, red bool) (moved bool, err error) {
	var now forge.Updated
	err = k.call(k.base, callTimeout, func(ctx context.Context, f Forge) (err error) {
		now, err = f.Update(ctx, c.ref, c.head)
		return err
	})
	if now.Head == "" || now.Head == c.head {
		return false, err
	}
	k.state.record(ledger.Record{At: time.Now(), Carried: &ledger.Carried{ // even if the rest of the answers is missing
		Ref: ledger.Ref(c.ref), From: c.head, Head: now.Head, Base: c.base, MergeBase: now.MergeBase, Same: now.Same,
		Red: red,
	}})
	return true, nil
}

// catchUp merges a branch that is no longer red into a pull request whose checks failed as the branch's did.
func (k *clerk) catchUp(c *chore) error {
	moved, err := k.update(c, true)
	if !moved && err == nil {
		err = fmt.Errorf("%w: its head has not moved", forge.ErrConflict)
	}
	c.said = "brought up to date with " + c.base + ", which is no longer red"
	return err
}

// bringUpToDate merges the base into a pull request that the forge refuses to merge without the base's newest commit.
// Its merge follows when its checks have passed. If the forge refuses that too, the refusal lasts.
func (k *clerk) bringUpToDate(c *chore, no *forge.Refusal) error {
	moved, err := k.update(c, false)
	switch {
	case moved:
		c.said = "brought up to date with " + c.base + ", which merges nothing else"
		return nil
	case errors.Is(err, forge.ErrUnavailable):
		return err
	case err != nil && !errors.Is(err, forge.ErrConflict): // after a conflict the next scan shows what moved
		no = &forge.Refusal{Cause: forge.RefusedRule, Words: no.Words + "; " + text(err)}
	}
	k.refused(c, no)
	return no
}

// startChore runs a chore's goroutine in a wait group.
func (k *clerk) startChore(group *sync.WaitGroup, c *chore) {
	k.background(group, "the end of a chore of "+c.tag, func() { k.do(c) })
}
