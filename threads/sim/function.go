package sim

import (
	"fmt"
	"reflect"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// function checks Decide as a function. These checks cost as much as several plans each, so each is made now and then.
func (c checks) function(s *threads.Snapshot, p *threads.Plan) {
	w := c.w
	switch w.rng.IntN(40) {
	case 0:
		c.report("the same snapshot gives the same plan", sameAgain(s, p))
	case 1:
		c.report("Decide changes nothing", untouched(s))
	case 2, 3, 4:
		c.report("the alarm is set early enough", w.alarmRight(s, p))
	case 5:
		c.report("Explain tells what Decide does", w.explained(s, p))
	}
}

func (c checks) report(name string, err error) {
	if err != nil {
		c.w.fail(name, err)
	}
}

// settled checks, after a tick of every thread, that a further one would start nothing: the tick has given away all
// that could be given away.
func (c checks) settled() {
	if c.w.rng.IntN(8) > 0 {
		return
	}
	s := c.w.shell.snapshot()
	if p := threads.Decide(s); len(p.Starts) > 0 {
		c.report("nothing is left to start after a tick", fmt.Errorf("%+v", p.Starts[0]))
	}
}

// sameAgain decides once more, on maps that were filled in another order.
func sameAgain(s *threads.Snapshot, p *threads.Plan) error {
	again := *s
	h := reflect.ValueOf(&again.History).Elem()
	for i := range h.NumField() {
		old := h.Field(i)
		if old.Kind() != reflect.Map {
			continue
		}
		filled := reflect.MakeMap(old.Type())
		for _, k := range old.MapKeys() {
			filled.SetMapIndex(k, old.MapIndex(k))
		}
		h.Field(i).Set(filled)
	}
	if other := threads.Decide(again); !reflect.DeepEqual(*p, other) {
		return fmt.Errorf("got %+v, then %+v", *p, other)
	}
	return nil
}

// untouched compares a snapshot in full before and after.
func untouched(s *threads.Snapshot) error {
	before := fmt.Sprintf("%+v %+v", *s, *s.Config)
	threads.Decide(*s)
	if after := fmt.Sprintf("%+v %+v", *s, *s.Config); before != after {
		return fmt.Errorf("got %s, before it was %s", after, before)
	}
	return nil
}

// alarmRight looks whether the passing of time alone changes what is to be done before the plan's NextWake. The plan's own
// starts are committed first, or they would be made again.
func (w *world) alarmRight(s *threads.Snapshot, p *threads.Plan) error {
	then := *s
	span := 3 * time.Hour
	if !p.NextWake.IsZero() {
		span = p.NextWake.Sub(s.Now)
	}
	then.Now = s.Now.Add(w.between(0, span))
	other := threads.Decide(then)
	if !reflect.DeepEqual(todo(p), todo(&other)) {
		return fmt.Errorf("the next wake is at %s, and at %s there is other work:\n%+v\nthan\n%+v",
			p.NextWake.Sub(epoch), then.Now.Sub(epoch), todo(&other), todo(p))
	}
	return nil
}

// todo is the part of a plan that is acted on.
func todo(p *threads.Plan) threads.Plan {
	return threads.Plan{Starts: p.Starts, Stops: p.Stops, Merges: p.Merges, Marks: p.Marks}
}

// explained asks about one issue or pull request of the plan.
func (w *world) explained(s *threads.Snapshot, p *threads.Plan) error {
	n := w.rng.IntN(len(p.Holds) + len(p.Starts) + 1)
	var it *threads.Item
	var code threads.Code
	position := 0
	switch {
	case n < len(p.Holds):
		it, code, position = &p.Holds[n].Item, p.Holds[n].Reason.Code, n+1
	case n < len(p.Holds)+len(p.Starts):
		it = &p.Starts[n-len(p.Holds)].Item
	}
	if it == nil || it.Kind == agents.KindSchedule {
		return nil
	}
	ex, err := threads.Explain(*s, it.Ref)
	if err != nil || ex.Code != code || ex.Position != position {
		return fmt.Errorf("%s %s: got %q at %d (%v), want %q at %d", it.Kind, it.Ref, ex.Code, ex.Position, err, code, position)
	}
	return nil
}
