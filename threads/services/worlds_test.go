package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// world plays services that fail, hang, answer and are restarted at random, and checks every plan against the
// promises about services. It states them independently: it knows what really happened, and nothing of State.
type world struct {
	*testing.T
	rng      *rand.Rand
	now      time.Time
	services []*played
	stopping bool
}

// played is a service with its true state.
type played struct {
	Service
	asked   bool // it has a check
	running bool
	ending  bool      // an End was planned
	usable  bool      // its last answer was good
	good    time.Time // since when this run is
	mute    time.Time // since when it has not answered
	failed  int       // failures in a row
	rests   time.Time // it must not start before
	last    time.Time // last check
	waits   bool      // for the answer to a check
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, rng: rand.New(rand.NewPCG(seed, 1)), now: start}
	for i := range 2 + w.rng.IntN(3) {
		p := &played{Service: Service{Service: threads.Service{Name: string(rune('a' + i))}, State: New(start)}}
		if p.asked = w.rng.IntN(3) > 0; p.asked {
			p.ReadyURL = "http://localhost/health"
		}
		for _, other := range w.services {
			if w.rng.IntN(3) == 0 {
				p.Needs = append(p.Needs, other.Name)
			}
		}
		w.services = append(w.services, p)
	}
	return w
}

func (w *world) snapshot() Snapshot {
	s := Snapshot{Now: w.now, Stopping: w.stopping}
	for _, p := range w.services {
		s.Services = append(s.Services, p.Service)
	}
	return s
}

func (w *world) named(name string) *played {
	i := slices.IndexFunc(w.services, func(p *played) bool { return p.Name == name })
	return w.services[i]
}

// TestWorlds plays three hundred worlds.
func TestWorlds(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 150 {
			w.step()
			if t.Failed() {
				t.Fatalf("world %d at %s", seed, w.now.Sub(start))
			}
		}
		w.stopping = true
		for range 400 {
			w.step()
		}
		if slices.ContainsFunc(w.services, func(p *played) bool { return p.running }) || t.Failed() {
			t.Fatalf("world %d does not end", seed)
		}
	}
}

// step makes something happen, or time pass, and carries out the plan.
func (w *world) step() {
	after := w.decide()
	for n := 0; len(after.Steps) > 0; n++ { // a start may make another one possible
		if n > len(w.services) {
			w.Fatalf("plans still have steps after every service had one: %+v", after.Steps)
		}
		for _, step := range after.Steps {
			w.carryOut(w.named(step.Name), step)
		}
		after = w.decide()
	}
	jump := time.Duration(w.rng.Int64N(int64(20 * time.Second)))
	if w.rng.IntN(8) == 0 {
		jump = time.Duration(w.rng.Int64N(int64(15 * time.Minute)))
	}
	if to := w.now.Add(jump); !after.Next.IsZero() && after.Next.Before(to) {
		w.now = after.Next.Add(-1)
		if early := Decide(w.snapshot()); len(early.Steps) > 0 {
			w.Errorf("got steps %+v before the time of the next plan", early.Steps)
		}
		w.now = after.Next
	} else {
		w.now = to
	}
	w.happen(w.services[w.rng.IntN(len(w.services))])
}

// decide makes a plan and checks it.
func (w *world) decide() Plan {
	s := w.snapshot()
	plan, out := Decide(s), Outages(s)
	for _, p := range w.services {
		w.check(p, plan)
		if _, is := out[p.Name]; is == (p.usable || p.Gone) {
			w.Errorf("%s: got outage %v", p.Name, is)
		}
	}
	return plan
}

// check compares a plan's step for a service with the required one.
func (w *world) check(p *played, plan Plan) {
	i := slices.IndexFunc(plan.Steps, func(s Step) bool { return s.Name == p.Name })
	var step Step
	if i >= 0 {
		step = plan.Steps[i]
	}
	var must Action
	needed := slices.ContainsFunc(w.services, func(o *played) bool {
		return o.running &&
			slices.Contains(o.Needs, p.Name)
	})
	lacks := slices.ContainsFunc(p.Needs, func(n string) bool { return !w.named(n).usable || w.named(n).Gone })
	pause := time.Second
	if p.usable {
		pause = 10 * time.Second
	}
	switch {
	case p.ending:
	case w.stopping:
		if p.running && !needed {
			must = End
		}
	case p.Gone:
		if p.running {
			must = End
		}
	case p.running && !p.mute.IsZero() && w.now.Sub(p.mute) >= 2*time.Minute:
		must = End
	case p.running && p.asked && !p.waits && w.now.Sub(p.last) >= pause:
		must = Ask
	case !p.running && !lacks && !w.now.Before(p.rests):
		must = Start
	}
	if step.Do != must {
		w.Errorf("%s: got step %q, want %q: %+v", p.Name, step.Do, must, *p)
	}
}

func (w *world) carryOut(p *played, step Step) {
	switch step.Do {
	case Start:
		p.running, p.usable = true, !p.asked
		p.good, p.last = time.Time{}, time.Time{}
		if p.usable {
			p.good = w.now
		}
		if w.rng.IntN(3) == 0 {
			p.Prepare(w.now)
		}
		p.State.Start(w.now, p.asked)
	case Ask:
		p.waits, p.last = true, w.now
		p.Ask(w.now)
	case End:
		p.ending, p.usable = true, false
		p.End(w.now)
	}
}

// happen makes a service answer, fail, end or restart, or come and go in the configuration.
func (w *world) happen(p *played) {
	switch w.rng.IntN(5) {
	case 0, 1:
		if !p.waits || p.ending {
			return
		}
		p.waits = false
		ok := w.rng.IntN(4) > 0
		switch {
		case ok:
			p.usable, p.mute = true, time.Time{}
			if p.good.IsZero() {
				p.good = w.now
			}
			p.Answer(w.now, "")
		default:
			if p.usable {
				p.mute = w.now
			}
			p.usable = false
			p.Answer(w.now, "503")
		}
	case 2:
		if p.running && (p.ending || w.rng.IntN(3) == 0) {
			w.end(p, !p.ending || w.rng.IntN(2) == 0)
		}
	case 3:
		p.failed, p.rests = 0, time.Time{}
		p.Forgive(w.now)
	case 4:
		p.Gone = w.rng.IntN(4) == 0
	}
}

func (w *world) end(p *played, failed bool) {
	why := ""
	if failed {
		why = fmt.Sprint("exit status ", w.rng.IntN(256))
		if !p.good.IsZero() && w.now.Sub(p.good) >= 10*time.Minute {
			p.failed = 0
		}
		p.failed++
		p.rests = w.now.Add(min(time.Second<<min(p.failed-1, 20), 5*time.Minute))
	}
	p.running, p.ending, p.usable, p.waits, p.mute, p.good = false, false, false, false, time.Time{}, time.Time{}
	p.Ended(w.now, why)
}
