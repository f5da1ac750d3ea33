package worlds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// readEvery is how many holds with the same code share one check of their text. Checking every text took a seventh of
// a world's time.
const readEvery = 5

// holdsTrue checks that the reason of each hold is documented, readable and true. This makes the scheduler
// work-conserving: an item that could start has no true reason to wait.
func holdsTrue(in *inspection) error {
	for i := range in.plan.Holds {
		h := in.plan.Holds[i]
		err := in.holdTrue(h, in.busy)
		if err == nil && in.seen.Codes[h.Reason.Code]%readEvery == 1 {
			err = readable(h.Reason)
		}
		if err != nil {
			return fmt.Errorf("%s %s waits, %s %q: %w", h.Item.Kind, h.Item.Ref, h.Reason.Code, h.Reason.Text(), err)
		}
	}
	return nil
}

func readable(r *threads.Reason) error {
	text := r.Text()
	switch {
	case !documented[r.Code]:
		return fmt.Errorf("the code is not documented")
	case text == "" || text != strings.TrimSpace(text),
		strings.Contains(text, "  "), strings.Contains(text, " ,"), strings.Contains(text, "%!"),
		strings.Contains(text, "0001-01-01"):
		return fmt.Errorf("the sentence is malformed")
	}
	return nil
}

// documented has the codes in the table of reasons.
var documented = func() map[threads.Code]bool {
	codes := make(map[threads.Code]bool)
	for _, d := range threads.Codes() {
		codes[d.Code] = true
	}
	return codes
}()

var errUntrue = fmt.Errorf("the reason is not true")

// held is a hold with the facts of its item. is and p are never nil.
type held struct {
	*inspection
	*threads.Hold
	is *forge.Issue
	p  *forge.Pull
}

// The facts of a hold without an issue or a pull request. They are never written.
var (
	noIssue forge.Issue
	noPull  forge.Pull
)

func (in *inspection) held(h *threads.Hold) held {
	return held{
		in, h, cmp.Or(in.s.Facts.Issue(h.Item.Ref), &noIssue), cmp.Or(in.s.Facts.Pull(h.Item.Ref), &noPull),
	}
}

func (in *inspection) holdTrue(h *threads.Hold, busy []threads.Session) error {
	test, listed := holdTest(h.Reason.Code)
	switch {
	case h.Reason.Code == threads.ChainBusy && in.chainFree(&h.Item, busy), listed && !test(in.held(h)):
		return errUntrue
	case h.Reason.Code == threads.ChainBusy, listed && h.Reason.Code != threads.SlotKept:
		return nil
	}
	return in.noneCan(h, busy)
}

// noneCan checks a reason about agents: no agent may be able to take the item now.
func (in *inspection) noneCan(h *threads.Hold, busy []threads.Session) error {
	for i := range in.cfg.Agents {
		a := &in.cfg.Agents[i]
		if in.able(&h.Item, a) != "" || in.idle(&h.Item, a, busy) != "" {
			continue
		}
		for _, slot := range in.freeSlots(in.cfg.Thread(a.Thread), busy) {
			// An agent that the item waits for may itself be kept for another pull request.
			tells := slices.Contains([]threads.Code{threads.SlotKept, threads.FinisherFirst, threads.AskerFirst}, h.Reason.Code)
			if p := in.kept(&h.Item, a, slot, busy); p == nil || !tells {
				return fmt.Errorf("%s on %s could take it into slot %d", a.Name, a.Thread, slot)
			}
		}
	}
	people := h.Item.Kind == agents.KindReview && !slices.ContainsFunc(in.cfg.Agents, in.reviewer)
	if class := h.Reason.Code.Class(); (class == threads.Unfit || class == threads.Busy) && !people {
		return nil
	}
	return fmt.Errorf("%s cannot be the reason", h.Reason.Code)
}

// chainFree reports whether no session on the item's chain keeps the item waiting.
func (in *inspection) chainFree(it *threads.Item, busy []threads.Session) bool {
	merge := in.approved(it)
	return !slices.ContainsFunc(busy, func(s threads.Session) bool {
		if s.Item.Chain != it.Chain || s.Item.Kind == agents.KindSchedule {
			return false
		}
		waits := in.attends(s.Role)
		return it.Kind.Writes() || s.Item.Kind.Writes() && !waits || merge && s.Item.Kind == agents.KindReview
	})
}

// approved reports whether the pull request of a review item is already approved.
func (in *inspection) approved(it *threads.Item) bool {
	p := in.s.Facts.Pull(it.Ref)
	return p != nil && it.Kind == agents.KindReview && in.forge.verdicts(p, in.writers(p), true).approved
}
