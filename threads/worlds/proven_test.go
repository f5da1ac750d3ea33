package worlds

import (
	"reflect"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/proof"
)

// TestProven plays worlds with faults. If the configuration did not change, an item that waits at the end for an
// agent that does not exist must be a finding of the proof of that configuration.
func TestProven(t *testing.T) {
	told, fine := 0, 0
	for seed := range sized[uint64](1500, 20) {
		w := newWorld(seed+1, nil)
		w.populate()
		was := *w.cfg
		w.play()
		if !reflect.DeepEqual(was.Agents, w.cfg.Agents) || !reflect.DeepEqual(was.Roles, w.cfg.Roles) {
			continue
		}
		s := w.shell.snapshot()
		found := proof.Prove(w.cfg, s.Facts.Issues)
		// A hint of skills is about issues that wait for a person's label.
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
				t.Errorf("world %d: %s %s waits, but the proof has no finding: %s", seed+1, h.Item.Kind, h.Item.Ref,
					h.Reason.Text())
			}
		}
	}
	t.Logf("%d configurations with a finding, %d without", told, fine)
}

// unfit reports whether a reason says that no agent may take an item until a person acts.
func unfit(why *threads.Reason) bool {
	return why.Code.Class() == threads.Unfit && why.Code.Ends() == threads.ByPerson
}
