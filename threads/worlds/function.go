package worlds

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// function checks properties of Decide itself. Each check costs as much as several plans, so each is made for one
// plan in 150, and unchanged for one in 50. In every eighth world the last moment before NextWake is checked for each
// plan, because a supervisor uses a plan until then.
func (c checks) function(s *threads.Snapshot, p *threads.Plan) {
	w := c.w
	if w.seed%8 == 0 {
		c.report("the alarm is set early enough", unchanged(s, p, untilAlarm(s, p)-1))
	}
	switch w.rng.IntN(150) {
	case 0:
		c.report("the same snapshot gives the same plan", sameAgain(s, p))
	case 1:
		c.report("Decide changes nothing", untouched(s))
	case 2, 3, 4:
		c.report("the alarm is set early enough", unchanged(s, p, w.between(0, untilAlarm(s, p))))
	case 5:
		c.report("Explain agrees with Decide", w.explained(s, p))
	}
}

func (c checks) report(name string, err error) {
	if err != nil {
		c.w.fail(name, err)
	}
}

// settled checks that another tick would start nothing after every thread has had its tick.
func (c checks) settled() {
	if c.w.rng.IntN(16) > 0 {
		return
	}
	s := c.w.shell.snapshot()
	for _, st := range threads.Decide(s).Starts {
		// A failed item was left to another agent, which took another item in that tick.
		if s.History.Item(st.Item.Key()).FailedBy != st.Agent {
			c.report("a tick leaves nothing to start", fmt.Errorf("%+v", st))
			return
		}
	}
}

// sameAgain decides a second time, with maps that were filled in another order.
func sameAgain(s *threads.Snapshot, p *threads.Plan) error {
	again := *s
	h := reflect.ValueOf(&again.History).Elem()
	for _, old := range h.Fields() {
		if old.Kind() != reflect.Map {
			continue
		}
		filled := reflect.MakeMap(old.Type())
		for _, k := range old.MapKeys() {
			filled.SetMapIndex(k, old.MapIndex(k))
		}
		old.Set(filled)
	}
	if other := threads.Decide(again); !reflect.DeepEqual(*p, other) {
		return fmt.Errorf("got %+v, then %+v", *p, other)
	}
	return nil
}

// untouched compares the whole snapshot before and after Decide.
func untouched(s *threads.Snapshot) error {
	before := spelled(s)
	threads.Decide(*s)
	if after := spelled(s); before != after {
		return fmt.Errorf("got %s, want %s as before", after, before)
	}
	return nil
}

// spelled prints a snapshot with everything that it points to.
func spelled(s *threads.Snapshot) string {
	h := &s.History
	return fmt.Sprintf("%+v", []any{
		*s.Config, s.Facts, s.Sessions, values(h.Chains), values(h.Items), values(h.Agents), values(h.Threads),
		h.Slots, h.Paused, h.Touched, s.Caches,
	})
}

func values[K comparable, V any](m map[K]*V) map[K]V {
	all := make(map[K]V, len(m))
	for k, v := range m {
		all[k] = *v
	}
	return all
}

// untilAlarm returns the time from a plan to its NextWake, or some hours.
func untilAlarm(s *threads.Snapshot, p *threads.Plan) time.Duration {
	if p.NextWake.IsZero() {
		return 3 * time.Hour
	}
	return p.NextWake.Sub(s.Now)
}

// unchanged checks that a plan is the same a while later, if only time passes: what it does, and the code of each item
// that waits.
func unchanged(s *threads.Snapshot, p *threads.Plan, later time.Duration) error {
	then := *s
	then.Now = s.Now.Add(later)
	other := threads.Decide(then)
	if !reflect.DeepEqual(todo(p), todo(&other)) || !slices.Equal(waiting(p), waiting(&other)) {
		return fmt.Errorf("the next wake is at %s, and at %s the plan is:\n%+v\n%v\nand was\n%+v\n%v",
			p.NextWake.Sub(epoch), then.Now.Sub(epoch), todo(&other), waiting(&other), todo(p), waiting(p))
	}
	return nil
}

// wait is an item and the code of its reason.
type wait struct {
	threads.Key
	code threads.Code
}

func waiting(p *threads.Plan) (list []wait) {
	for _, h := range p.Holds {
		list = append(list, wait{h.Key(), h.Reason.Code})
	}
	return list
}

// todo returns the part of a plan that the supervisor acts on.
func todo(p *threads.Plan) threads.Plan {
	return threads.Plan{Starts: p.Starts, Stops: p.Stops, Merges: p.Merges, Marks: p.Marks}
}

// explained compares Explain with the plan for one issue or pull request, whether it is in the plan or not.
func (w *world) explained(s *threads.Snapshot, p *threads.Plan) error {
	var ref forge.Ref
	var code threads.Code
	position := 0
	switch n := w.rng.IntN(4); {
	case n == 0 && len(p.Starts) > 0:
		ref = oneOf(w, p.Starts...).Item.Ref
	case n == 1 && len(s.Facts.Issues) > 0:
		ref, code = unlisted(&s.Facts.Issues[w.rng.IntN(len(s.Facts.Issues))])
		if slices.ContainsFunc(s.Sessions, func(x threads.Session) bool { return x.Item.Ref == ref }) {
			return nil // people removed both labels while it ran
		}
	case n == 2 && len(s.Facts.Pulls) > 0:
		if p := oneOf(w, s.Facts.Pulls...); p.Closed {
			ref, code = p.Ref, threads.Closed
		}
	case len(p.Holds) > 0:
		position = w.number(1, len(p.Holds))
		ref, code = p.Holds[position-1].Ref, p.Holds[position-1].Reason.Code
		if ends := code.Ends(); ends != threads.ByItself && ends != threads.ByScan { // nobody waits behind it
			position = 0
		}
	}
	if ref.Number == 0 { // scheduled work, or nothing
		return nil
	}
	ex, err := threads.Explain(*s, ref)
	if err != nil || ex.Code != code || ex.Position != position {
		return fmt.Errorf("%s: got %q at %d (%v), want %q at %d", ref, ex.Code, ex.Position, err, code, position)
	}
	return nil
}

// unlisted returns why an issue is in no plan, or the zero ref if it may be in one.
func unlisted(is *forge.Issue) (forge.Ref, threads.Code) {
	switch {
	case is.Closed:
		return is.Ref, threads.Closed
	case !is.Has(forge.LabelBacklog) && !is.Has(forge.LabelInProgress): // with in-progress it may be worked on
		return is.Ref, threads.NotBacklog
	}
	return forge.Ref{}, ""
}
