package supervisor

import (
	"fmt"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/threads"
)

// PlanDiffers says how a plan of this moment would differ from the newest one, which still holds; empty if it would
// not, and holds is false if the next tick decides anyway.
func (s *Supervisor) PlanDiffers() (differs string, holds bool) {
	s.init()
	b, now, room := s.state, time.Now(), s.room()
	b.mu.Lock()
	defer b.mu.Unlock()
	if on := b.basisLocked(now, room); !b.plan.holds(&on, now) {
		return "", false
	}
	return b.differsLocked(b.snapshotLocked(now, room)), true
}

// differsLocked compares the plan with a new one. Once a session was reserved for a start of the plan, a new one may
// have other starts, such as for the agent that is next in the row: then the rest of the plan has only to be in order.
func (st *state) differsLocked(snap threads.Snapshot) string {
	is := st.plan.Plan
	for run, x := range st.sessions {
		if _, noted := st.ledger.Open[run]; !noted && x.State == threads.Reserved {
			if broken := threads.Enforce(&snap, &is); len(broken) > 0 {
				return broken[0].Words
			}
			return ""
		}
	}
	plan := st.decide(snap)
	threads.Enforce(&snap, &plan)
	if diff := cmp.Diff(append(acts(&plan), held(&plan)...), append(acts(&is), held(&is)...)); diff != "" {
		return fmt.Sprintf("%s: (-fresh +reused)\n%s", snap.Now, diff)
	}
	if free, _ := threads.Beside(&snap, &plan); !reflect.DeepEqual(free, st.plan.free) {
		return fmt.Sprintf("%s: got free slots %v, want %v", snap.Now, st.plan.free, free)
	}
	return ""
}

// acts prints what a plan does.
func acts(p *threads.Plan) (list []string) {
	return append(list, fmt.Sprintf("%+v", p.Starts), fmt.Sprintf("%+v", p.Stops), fmt.Sprintf("%+v", p.Merges),
		fmt.Sprintf("%+v", p.Marks))
}

// held prints the reasons of a plan, without words that count on. When a busy agent is expected to be free stays in
// the words until the next scan, even if that time has passed.
func held(p *threads.Plan) (list []string) {
	for _, holds := range [][]*threads.Hold{p.Holds, p.Unqueued} {
		for _, h := range holds {
			why := *h.Reason
			if why.Note = ""; why.Code == threads.AgentBusy {
				why.Until = time.Time{}
			}
			list = append(list, fmt.Sprintf("%v %+v", h.Key(), why))
		}
	}
	return list
}
