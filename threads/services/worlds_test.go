package services

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	until    time.Time // end of the stop
}

// played is a service with its true state.
type played struct {
	Service
	asked   bool // it has a check
	running bool
	ending  bool      // an End was planned
	killed  bool      // a Kill was planned
	begun   time.Time // when its program started; zero while a command before it runs
	over    bool      // it is not started again
	held    bool      // a person stopped it
	usable  bool
	misses  int       // bad answers in a row
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
			p.ReadyFailures = w.rng.IntN(3)
		} else if p.Oneshot = w.rng.IntN(3) == 0; !p.Oneshot {
			p.ReadyAfter = time.Duration(w.rng.IntN(3)) * 3 * time.Second
		}
		all := []threads.Restart{"", threads.RestartAlways, threads.RestartOnFailure, threads.RestartNever}
		if p.Restart = all[w.rng.IntN(len(all))]; p.Oneshot && p.Restart == threads.RestartAlways {
			p.Restart = ""
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

// needs returns what a service needs: each service that it names, and what that needs if it does not run.
func (w *world) needs(p *played) (names []string) {
	names = slices.Clone(p.Needs)
	for _, n := range p.Needs {
		if need := w.named(n); !need.running {
			names = append(names, w.needs(need)...)
		}
	}
	return names
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
		w.stop()
		if t.Failed() {
			t.Fatalf("world %d does not end well", seed)
		}
	}
}

// stop ends all services. Each that runs gets a TERM, and then a grace before its KILL, within the time of the stop.
func (w *world) stop() {
	const whole = 8 * time.Second
	w.stopping, w.until = true, w.now.Add(whole)
	shares := Shares(w.snapshot(), w.until)
	for _, p := range w.services {
		p.Divide(shares[p.Name])
	}
	asked, killed := make(map[string]time.Time), make(map[string]time.Time)
	for {
		plan := Decide(w.snapshot())
		for _, step := range plan.Steps {
			p := w.named(step.Name)
			switch {
			case step.Do == End && !p.ending:
				needs := func(o *played) bool { return o.running && slices.Contains(w.needs(o), p.Name) }
				needed := slices.ContainsFunc(w.services, needs)
				if asked[p.Name] = w.now; needed && w.now.Before(shares[p.Name].Turn) {
					w.Errorf("%s is ended before what needs it", p.Name)
				}
			case step.Do == Kill && p.ending && !p.killed:
				killed[p.Name], p.killed = w.now, true
				p.Hurry()
			default:
				w.Errorf("%s: step %s in a stop", p.Name, step.Do)
			}
			w.carryOut(p, step)
		}
		switch p := w.services[w.rng.IntN(len(w.services))]; {
		case p.killed && p.running, p.ending && p.running && w.rng.IntN(4) == 0:
			w.end(p, false)
			continue
		case plan.Next.IsZero():
			if i := slices.IndexFunc(w.services, func(p *played) bool { return p.running }); i >= 0 && !w.services[i].killed {
				w.Fatalf("%s runs, and nothing is planned", w.services[i].Name)
			} else if i >= 0 {
				continue
			}
		case len(plan.Steps) == 0:
			w.now = plan.Next
			continue
		default:
			continue
		}
		break
	}
	for name, at := range killed {
		if term, is := asked[name]; is && at.Sub(term) < whole/5 || at.After(w.until) {
			w.Errorf("%s gets TERM %s before the end, and KILL %s before it", name, w.until.Sub(term), w.until.Sub(at))
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
		if why := Why(w.snapshot(), p.Name); why != "" && p.usable && !strings.Contains(why, ", which it needs, ") {
			w.Errorf("%s can be used, and got the reason %s", p.Name, why)
		}
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
	lacks := slices.ContainsFunc(w.needs(p), func(n string) bool { return !w.named(n).usable || w.named(n).Gone })
	pause := time.Second
	if p.usable && p.misses == 0 {
		pause = 10 * time.Second
	}
	switch {
	case p.ending:
	case p.Gone:
		if p.running {
			must = End
		}
	case p.running && !p.mute.IsZero() && w.now.Sub(p.mute) >= 2*time.Minute:
		must = End
	case p.running && p.asked && !p.waits && !p.begun.IsZero() && w.now.Sub(p.last) >= pause:
		must = Ask
	case p.running && !p.asked && !p.Oneshot && !p.usable && !p.begun.IsZero() &&
		w.now.Sub(p.begun) >= max(p.ReadyAfter, time.Second):
		must = Trust
	case !p.running && !p.over && !p.held && !lacks && !w.now.Before(p.rests):
		must = Start
	}
	if step.Do != must {
		w.Errorf("%s: got step %q, want %q: %+v", p.Name, step.Do, must, *p)
	}
}

func (w *world) carryOut(p *played, step Step) {
	switch step.Do {
	case Start:
		p.running = true
		p.good, p.last, p.begun, p.misses = time.Time{}, time.Time{}, time.Time{}, 0
		p.Prepare(w.now)
		if w.rng.IntN(3) > 0 {
			w.begin(p)
		}
	case Ask:
		p.waits, p.last = true, w.now
		p.Ask(w.now)
	case Trust:
		p.usable, p.good = true, w.now
		p.Answer(&p.Service.Service, w.now, "")
	case End:
		p.ending, p.usable = true, false
		p.End(w.now, "")
	}
}

// begin starts a service's program, after the commands before it.
func (w *world) begin(p *played) {
	p.begun = w.now
	p.State.Start(w.now)
}

// happen makes a service answer, fail, end or restart, or come and go in the configuration.
func (w *world) happen(p *played) {
	switch w.rng.IntN(6) {
	case 0, 1:
		switch {
		case p.running && !p.ending && p.begun.IsZero():
			w.begin(p)
		case p.waits && !p.ending:
			w.answer(p, w.rng.IntN(4) > 0)
		}
	case 2:
		if p.running && (p.ending || w.rng.IntN(3) == 0) {
			w.end(p, !p.ending || w.rng.IntN(2) == 0)
		}
	case 3:
		p.failed, p.rests, p.over, p.held = 0, time.Time{}, false, false
		p.usable = p.usable && p.running
		p.Forgive(w.now)
	case 4:
		p.Gone = w.rng.IntN(4) == 0
	case 5:
		if w.rng.IntN(4) > 0 {
			return
		}
		p.failed, p.rests, p.held = 0, time.Time{}, true
		p.usable = p.usable && p.running
		if p.Hold(w.now); p.running && !p.ending {
			w.carryOut(p, Step{Do: End})
		}
	}
}

// answer ends a check.
func (w *world) answer(p *played, ok bool) {
	p.waits = false
	switch {
	case ok:
		p.usable, p.mute, p.misses = true, time.Time{}, 0
		if p.good.IsZero() {
			p.good = w.now
		}
		p.Answer(&p.Service.Service, w.now, "")
		return
	case p.usable:
		if p.misses++; p.misses >= p.ReadyFailures {
			p.usable, p.mute = false, w.now
		}
	}
	p.Answer(&p.Service.Service, w.now, "503")
}

// end ends a service's run. A failed one ends by itself, with 0 or another status.
func (w *world) end(p *played, failed bool) {
	e := Exit{}
	good := !p.good.IsZero() && w.now.Sub(p.good) >= 10*time.Minute
	p.running, p.ending, p.usable, p.waits, p.mute, p.good = false, false, false, false, time.Time{}, time.Time{}
	if good {
		p.failed = 0
	}
	if failed {
		status := w.rng.IntN(3)
		e = Exit{Zero: status == 0 && !p.begun.IsZero(), Why: fmt.Sprint("exit status ", status)}
		always := p.Restart == threads.RestartAlways || p.Restart == "" && !p.Oneshot
		p.over = p.Restart == threads.RestartNever || e.Zero && !always
		p.usable = p.Oneshot && e.Zero && !p.held
		if p.over && e.Zero {
			p.failed = 0
		}
		if !p.held && (!e.Zero || always) {
			p.failed++
			p.rests = w.now.Add(min(time.Second<<min(p.failed-1, 20), 5*time.Minute))
		}
	}
	p.Ended(&p.Service.Service, w.now, e)
}
