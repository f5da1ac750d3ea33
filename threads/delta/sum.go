package delta

import (
	"fmt"
	"hash/fnv"

	"codeberg.org/johba/disinto/threads"
)

// Sum returns a checksum of a plan's decisions: every start, stop, merge and mark, and which items wait for what,
// without the words. Two plans with the same sum decide the same.
func Sum(p *threads.Plan) string {
	h := fnv.New64a()
	for i := range p.Starts {
		s := &p.Starts[i]
		fmt.Fprintln(h, "start", s.Item.Key(), s.Agent, s.Role, s.Thread, s.Slot, s.Attempt, s.Rung)
	}
	for i := range p.Stops {
		fmt.Fprintln(h, "stop", p.Stops[i].RunID, p.Stops[i].Reason.Code)
	}
	for i := range p.Merges {
		fmt.Fprintln(h, "merge", p.Merges[i])
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		fmt.Fprintln(h, "mark", m.Action, m.Ref, m.Agent, m.From, m.Reason.Code)
	}
	for _, list := range [][]*threads.Hold{p.Holds, p.Unqueued} {
		for _, hold := range list {
			r := hold.Reason
			h.Write([]byte(hold.Kind))
			h.Write([]byte(hold.Ref.Repo))
			fmt.Fprint(h, hold.Ref.Number, hold.Role, r.Code, r.Agent, r.Thread, r.Refs, "\n")
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
