package worlds

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Numbers of the design. They are repeated here to detect changes of those in package threads.
const (
	maxAttempts = 5
	halfWritten = 60 * time.Second
)

// checks are the invariants. They follow from the world and the design, never from a function of package threads, so
// that one mistake cannot be in both.
type checks struct {
	w      *world
	starts map[threads.Key][]time.Time // each item's starts in the last ten minutes
	after  aftermath
	tolls  *tolls
}

// tableInvariants hold after every step.
var tableInvariants = []struct {
	name  string
	check func(*world, []*run) error
}{
	{"no item with two sessions", oneSessionPerItem},
	{"no agent with two sessions", oneSessionPerAgent},
	{"one writing session per chain, and no review beside it", chainKept},
}

// planInvariants hold for every plan.
var planInvariants = []struct {
	name  string
	check func(*inspection) error
}{
	{"nothing starts against the state of the forge", startsAllowed},
	{"the end of a session has its consequences", outcomesKept},
	{"what fails is tried with one session at a time", triedOnce},
	{"no agent reviews its own work, and no local model reviews a local model's", pairing},
	{"a repository has its own agents, sessions and budget", tableKept},
	{"only approved, green and clean pull requests are merged", mergesAllowed},
	{"nothing runs on closed work", stopsInTime},
	{"a label that a person removed stays removed", wordKept},
	{"every item is in exactly one place", accounted},
	{"the checks of a running supervisor find nothing", unenforced},
}

// table checks the invariants that hold after every step.
func (c checks) table() {
	for _, inv := range tableInvariants {
		if err := inv.check(c.w, c.w.shell.runs); err != nil {
			c.w.fail(inv.name, err)
		}
	}
}

func oneSessionPerItem(_ *world, runs []*run) error {
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if a.Item.Ref == b.Item.Ref && a.Item.Role == b.Item.Role {
				return fmt.Errorf("%s and %s", a, b)
			}
		}
	}
	return nil
}

func oneSessionPerAgent(_ *world, runs []*run) error {
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if a.Agent == b.Agent {
				return fmt.Errorf("%s and %s", a, b)
			}
		}
	}
	return nil
}

// chainKept checks that no two sessions write to one branch. It also checks that no session reviews a branch while
// another writes to it, except where the writer's program waits for the review.
func chainKept(w *world, runs []*run) error {
	for i, a := range runs {
		for _, b := range runs[i+1:] {
			if w.forge.branch(a) != w.forge.branch(b) || a.Item.Kind == agents.KindSchedule {
				continue
			}
			switch {
			case a.Item.Kind.Writes() && b.Item.Kind.Writes(),
				a.Item.Kind.Writes() && !w.waits(a),
				b.Item.Kind.Writes() && !w.waits(b):
				return fmt.Errorf("%s and %s", a, b)
			}
		}
	}
	return nil
}

// branch returns the issue whose branch a session works on, or a pull request without an issue.
func (s *server) branch(r *run) forge.Ref {
	if p := s.pull(r.Item.Ref); p != nil {
		return p.home
	}
	return r.Item.Ref
}

// attends reports whether the current configuration lets programs of a role stay until their pull request is merged.
func (w *world) attends(role string) bool {
	r := w.cfg.Role(role)
	return r != nil && r.WaitsForReview
}

// waits reports the same for a session, according to the configuration at its start.
func (w *world) waits(r *run) bool {
	i := slices.IndexFunc(w.roles, func(role agents.Role) bool { return role.Name == r.Role })
	return w.roles[i].WaitsForReview
}

// plan checks a plan, and sometimes Decide itself.
func (c checks) plan(s *threads.Snapshot, p *threads.Plan) {
	in := &inspection{world: c.w, s: s, plan: p, busy: slices.Concat(s.Sessions, sessionsOf(p.Starts))}
	in.tally()
	for _, inv := range planInvariants {
		if err := inv.check(in); err != nil {
			c.w.fail(inv.name, err)
		}
	}
	c.function(s, p)
}

// inspection is a plan with everything that the invariants need.
type inspection struct {
	*world
	s    *threads.Snapshot
	plan *threads.Plan
	busy []threads.Session // running sessions, and those that the plan starts
}

// tally counts reasons and marks, so that a test can check that the worlds reach all of them.
func (in *inspection) tally() {
	for _, h := range in.plan.Holds {
		in.seen.Codes[h.Reason.Code]++
	}
	for _, h := range in.plan.Unqueued {
		in.seen.Codes[h.Reason.Code]++
	}
	for _, s := range in.plan.Stops {
		in.seen.Codes[s.Reason.Code]++
	}
	for _, m := range in.plan.Marks {
		in.seen.Actions[m.Action]++
	}
}

// An item may start spinMost times within spinTime.
const (
	spinMost = 10
	spinTime = 10 * time.Minute
)

// spin counts an item's starts, and fails on too many.
func (c checks) spin(k threads.Key) {
	recent := slices.DeleteFunc(c.starts[k], func(at time.Time) bool { return c.w.Now.Sub(at) > spinTime })
	c.starts[k] = append(recent, c.w.Now)
	if len(c.starts[k]) > spinMost {
		c.w.fail("nothing spins", fmt.Errorf("%s %s was started %d times in %s", k.Kind, k.Ref, len(c.starts[k]), spinTime))
	}
}

// accounted checks that every open issue and pull request is in exactly one place: a session, a start, a merge or a
// hold.
func accounted(in *inspection) error {
	count := make(map[threads.Key]int, len(in.busy)+len(in.plan.Merges)+len(in.plan.Holds))
	for i := range in.busy {
		count[itemOf(&in.busy[i].Item)]++
	}
	for _, m := range in.plan.Merges {
		count[threads.Key{Ref: m.Ref}]++
	}
	for i := range in.plan.Holds {
		count[itemOf(&in.plan.Holds[i].Item)]++
	}
	for _, h := range in.plan.Unqueued {
		count[itemOf(&h.Item)]++
	}
	for i := range in.s.Facts.Issues {
		if is := &in.s.Facts.Issues[i]; !is.Closed && count[threads.Key{Ref: is.Ref}] != 1 {
			return fmt.Errorf("issue %s is %d times in sessions, starts, holds and the unqueued list",
				is.Ref, count[threads.Key{Ref: is.Ref}])
		}
	}
	for i := range in.s.Facts.Pulls {
		if p := &in.s.Facts.Pulls[i]; !p.Closed && count[threads.Key{Ref: p.Ref}] != 1 {
			return fmt.Errorf("pull request %s is %d times in sessions, starts, merges and holds",
				p.Ref, count[threads.Key{Ref: p.Ref}])
		}
	}
	for _, r := range in.cfg.Roles {
		for _, repo := range in.s.Facts.Repos {
			k := threads.Key{Ref: forge.Ref{Repo: repo.Name}, Role: r.Name}
			if r.On == agents.OnSchedule && count[k] != 1 {
				return fmt.Errorf("role %s in %s is %d times in sessions, starts and holds", r.Name, repo.Name, count[k])
			}
		}
	}
	return nil
}

// unenforced checks that threads.Enforce, which guards a running supervisor against a mistaken scheduler, finds no
// mistake in a correct plan.
func unenforced(in *inspection) error {
	p := *in.plan
	p.Starts, p.Stops, p.Holds = slices.Clone(p.Starts), slices.Clone(p.Stops), slices.Clone(p.Holds)
	if found := threads.Enforce(in.s, &p); len(found) > 0 {
		return errors.New(found[0].Words)
	}
	return nil
}

// itemOf returns an item's identity without its kind of work, which changes between review and rework.
func itemOf(it *threads.Item) threads.Key { return threads.Key{Ref: it.Ref, Role: it.Role} }

// tableKept checks the starts of a plan against the tables of their repositories.
func tableKept(in *inspection) error {
	for _, st := range in.plan.Starts {
		i := slices.IndexFunc(in.cfg.Repos, func(r threads.Repo) bool { return r.Name == st.Item.Ref.Repo })
		if i < 0 {
			continue
		}
		r, crew, sessions := &in.cfg.Repos[i], in.cfg.Repos[i].Agents, 0
		if st.Item.Kind == agents.KindReview {
			crew = r.Reviewers
		}
		for i := range in.busy {
			if in.busy[i].Item.Ref.Repo == r.Name {
				sessions++
			}
		}
		switch {
		case crew != nil && !slices.Contains(crew, st.Agent):
			return fmt.Errorf("%s starts %s in %s, which names %v", st.Agent, st.Item.Kind, r.Name, crew)
		case r.MaxSessions > 0 && sessions > r.MaxSessions:
			return fmt.Errorf("%d sessions in %s, which has at most %d", sessions, r.Name, r.MaxSessions)
		case in.broke(st.Agent, r.Name):
			return fmt.Errorf("%s starts in %s, and the budget of one of them is used up", st.Agent, r.Name)
		}
	}
	return nil
}
