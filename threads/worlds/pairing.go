package worlds

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

func sessionsOf(starts []threads.Start) []threads.Session {
	list := make([]threads.Session, len(starts))
	for i, st := range starts {
		list[i] = threads.Session{
			Thread: st.Thread, Slot: st.Slot, Agent: st.Agent, Role: st.Role, Item: st.Item, State: threads.Reserved,
		}
	}
	return list
}

// pairing checks reviewers against the agents that really wrote. The ledger may remember more writers than these, but
// never fewer.
func pairing(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		if st.Item.Kind != agents.KindReview {
			continue
		}
		p := *in.forge.pull(st.Item.Ref)
		p.Coders = in.s.Facts.Pull(st.Item.Ref).Coders // an agent may have pushed since the scan
		if authors := in.forge.authors(&p); in.unpaired(in.cfg.Agent(st.Agent).Login, authors) {
			return fmt.Errorf("%s reviews %s, which %v wrote", st.Agent, st.Item.Ref, authors)
		}
	}
	return nil
}
