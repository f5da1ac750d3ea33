package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// fall is a session that failed.
type fall struct {
	item  threads.Key // of its chain
	agent string
	role  string
	how   string
}

// falls are what an agent, a thread or a role failed at since it last achieved something.
type falls struct {
	list  []fall    // on different chains, at most three
	tries int       // how often it was held in a row
	last  string    // the newest session when it was held
	until time.Time // nothing of it starts before
}

// crew is an agent, a thread or a role, by kind and name.
type crew struct{ kind, name string }

// unable counts a session for its agent, thread and role. It reports whether one of them failed whatever it did when
// the session ended: then the session is no attempt at its item.
func (a *aftermath) unable(r *run, w *world, out agents.Outcome) (failing bool) {
	crews := []crew{{"role", r.Role}, {"thread", r.Thread}, {"agent", r.Agent}}
	for _, c := range crews {
		failing = failing || a.falls[c] != nil && a.falls[c].tries > 0
	}
	switch out.Result {
	case agents.Done, agents.Refused, agents.PushRefused, agents.TooBig, agents.Question, agents.Planned:
		for _, c := range crews {
			delete(a.falls, c)
		}
	case agents.Failed, agents.NoProgress, agents.Stalled, agents.TimedOut, agents.Looped:
		item := threads.Key{Ref: r.Item.Chain, Role: r.Item.Role} // which has a role where the work is scheduled
		explained := false
		for _, c := range crews {
			f := a.falls[c]
			if f == nil {
				f = &falls{}
				a.falls[c] = f
			}
			f.list = slices.DeleteFunc(f.list, func(o fall) bool { return o.item == item })
			f.list = append(f.list, fall{item, r.Agent, r.Role, string(out.Result) + out.Reason})
			f.list = f.list[max(0, len(f.list)-3):]
			explained = f.judge(c, r, w, explained) || explained
		}
	}
	return failing
}

// judge holds what fails, and reports whether it is held.
func (f *falls) judge(c crew, r *run, w *world, explained bool) bool {
	agentsOf, roles, ways := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, x := range f.list {
		agentsOf[x.agent], roles[x.role], ways[x.how] = true, true, true
	}
	switch three := len(f.list) == 3; {
	case f.tries > 0 && r.RunID <= f.last: // it began before
		return true
	case f.tries > 0:
	case explained && (c.kind == "agent" || len(roles) == 1):
		return false
	case c.kind == "agent" && !three:
		return false
	case c.kind != "agent" && !(three && len(ways) == 1 && len(agentsOf) > 1):
		return false
	}
	f.tries++
	f.last = fmt.Sprintf("run-%06d", w.shell.names)
	f.until = w.Now.Add(min(4*time.Hour, 5*time.Minute<<min(f.tries-1, 10)))
	return true
}

// triedOnce checks that nothing starts while an agent, a thread or a role is held because it fails, and after that only
// one session of it.
func triedOnce(in *inspection) error {
	for i := range in.plan.Starts {
		st := &in.plan.Starts[i]
		for _, c := range []crew{{"role", st.Role}, {"thread", st.Thread}, {"agent", st.Agent}} {
			f := in.checks.after.falls[c]
			if f == nil || f.tries == 0 {
				continue
			}
			n := 0
			for _, x := range in.busy {
				if c.kind == "role" && x.Role == c.name || c.kind == "thread" && x.Thread == c.name {
					n++
				}
			}
			if n > 1 || f.until.After(in.Now) {
				return fmt.Errorf("%s %s by %s: %s %s failed %d times, is held until %s and has %d sessions", st.Item.Kind,
					st.Item.Ref, st.Agent, c.kind, c.name, f.tries, in.since(f.until), n)
			}
		}
	}
	return nil
}
