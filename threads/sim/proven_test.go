package sim

import (
	"reflect"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/proof"
)

// TestProven plays worlds, with all their trouble, and asks of each whose configuration stayed as it was: what waits at
// its end for an agent that does not exist must have been told by the proof of its configuration.
func TestProven(t *testing.T) {
	told, fine := 0, 0
	for seed := range sized[uint64](1500, 40) {
		w := newWorld(seed+1, nil)
		w.populate()
		was := *w.cfg
		w.play()
		if !reflect.DeepEqual(was.Agents, w.cfg.Agents) || !reflect.DeepEqual(was.Roles, w.cfg.Roles) {
			continue
		}
		s := w.shell.snapshot()
		found := proof.Prove(w.cfg, s.Facts.Issues)
		// A hint on skills is about issues that wait for a person to label them.
		slip := func(f proof.Finding) bool {
			return f.Weight == proof.Wrong || f.Claim == "skills" && f.Weight == proof.Hint
		}
		bad := slices.ContainsFunc(found, slip)
		if bad {
			told++
		} else {
			fine++
		}
		plan := threads.Decide(s)
		for _, h := range plan.Holds {
			if !bad && h.Item.Kind != agents.KindSchedule && unfit(h.Reason) {
				t.Errorf("world %d: %s %s waits: %s", seed+1, h.Item.Kind, h.Item.Ref, h.Reason.Text())
			}
		}
	}
	t.Logf("%d configurations with a slip, %d without", told, fine)
}

// unfit reports whether a reason says that no agent may take an item, until a person changes that.
func unfit(why *threads.Reason) bool {
	return why.Code.Class() == threads.Unfit && why.Code.Ends() == threads.ByPerson
}
