// Package sim plays whole factories in virtual time, to find out what a scheduler does that nobody thought of.
//
// A world is made from a seed: a configuration, a forge with issues and pull requests, people who change their minds,
// agents that succeed, fail, refuse and die, scans that come late or in part, writes that get lost, restarts with and
// without the journal. The scheduler in it is the real threads.Decide. Between the two stands a small model of the
// supervisor (shell.go, session.go, books.go), which is also the shortest description of how the supervisor has to
// keep a threads.History.
//
// Every plan and every step is held against the invariants in the tables of invariants.go. After some hours of trouble
// the people go home and the faults stop, and from there everything that can end has to end.
//
// Nine of ten worlds are small, because small ones find most mistakes and cost least; see sizes.
//
// Beside the worlds there are trials (trial.go), in which nothing goes wrong. They are about time: a Trial plays one factory
// with one load under one policy, and its Report says who stood idle beside work, who waited, and what was read again.
//
// One seed is one world: the same seed plays the same way on every machine, because nothing in here looks at a clock,
// starts a goroutine or walks a map. To see a world that fails, run
//
//	go test ./threads/sim -run Worlds -seed N
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// epoch is when every world begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// patience is how long a calm world may take until nothing is left to do: two dozen issues of three sessions each, one
// after the other in a single slot, with every rest there is, take a day.
const patience = 3 * 24 * time.Hour

// world is one factory, its forge and its people.
type world struct {
	seed     uint64
	rng      *rand.Rand
	cfg      *threads.Config
	roles    []agents.Role     // all there are, also those that nobody has
	hired    int               // agents that ever were configured
	logins   map[string]string // their accounts
	accounts []string          // the same, as a list
	forge    *server
	shell    *shell
	checks   checks

	timeline
	size    size
	calm    bool // people and faults have stopped
	tight   bool // something else on the machine takes what agents would need
	over    bool // nothing is left to do
	mood    mood
	failure error // the first violation
	say     func(string)
	seen    Stats
}

// mood is how likely things go wrong in a world, so that some of them see much of what others see little of.
type mood struct {
	failure  float64 // a session does not do what it is for
	changes  float64 // a review wants changes
	red      float64 // checks fail
	conflict float64 // a merge leaves another pull request in conflict
}

// size is how much there is in a world, and for how long there is trouble.
type size struct {
	repos, plants, threads int // at most
	agents                 []int
	act                    time.Duration // people let pass this much, at most
	crash, calm, poll      span
}

type span struct{ from, to time.Duration }

// Most mistakes need two issues, three agents and one fault at the wrong moment, and a small world is played twenty times
// as fast as a large one. What takes many to come about, a long queue, a convoy beside another, needs the large ones. What
// takes time, the fifth attempt, a review too many, a budget that is used up, needs the long ones.
var (
	small = size{
		repos: 1, plants: 2, threads: 2, agents: []int{2, 2, 3, 3, 4}, act: 3 * time.Minute,
		crash: span{time.Minute, 40 * time.Minute}, calm: span{5 * time.Minute, 25 * time.Minute}, poll: span{3 * time.Minute, 15 * time.Minute},
	}
	long = size{
		repos: 1, plants: 2, threads: 2, agents: []int{2, 2, 3, 3, 4}, act: 40 * time.Minute,
		crash: span{30 * time.Minute, 3 * time.Hour}, calm: span{2 * time.Hour, 6 * time.Hour}, poll: span{10 * time.Minute, 40 * time.Minute},
	}
	large = size{
		repos: 2, plants: 4, threads: 3, agents: []int{2, 3, 3, 4, 5, 7}, act: 12 * time.Minute,
		crash: span{10 * time.Minute, 2 * time.Hour}, calm: span{90 * time.Minute, 5 * time.Hour}, poll: span{30 * time.Second, 10 * time.Minute},
	}
)

// sizes are those of forty worlds in a row.
var sizes = [40]*size{6: &long, 13: &long, 26: &long, 33: &long, 39: &large}

func sizeOf(seed uint64) size {
	if s := sizes[seed%uint64(len(sizes))]; s != nil {
		return *s
	}
	return small
}

// Stats says what happened in a world.
type Stats struct {
	Virtual  time.Duration // how long it lasted
	Events   int
	Plans    int // made for a tick; those that only check others are not counted
	Sessions int // that got to run
	Merged   int // pull requests
	// Codes and Actions count the reasons that plans gave and the marks that they asked for, once for each plan.
	Codes   map[threads.Code]int
	Actions map[threads.Action]int
}

func newStats() Stats {
	return Stats{Codes: make(map[threads.Code]int), Actions: make(map[threads.Action]int)}
}

// Play plays the world of a seed to its end. The error names the first invariant that did not hold. say, unless nil, gets
// a line for everything that happens.
func Play(seed uint64, say func(string)) (Stats, error) {
	w := newWorld(seed, say)
	w.populate()
	w.shell.boot(true)
	w.after(w.within(span{0, w.size.act}), w.people)
	w.after(w.within(w.size.crash), w.crash)
	w.after(w.within(w.size.calm), w.becalm)
	for w.failure == nil && !w.over {
		w.step()
	}
	w.seen.Virtual = w.now.Sub(epoch)
	return w.seen, w.failure
}

func newWorld(seed uint64, say func(string)) *world {
	w := &world{seed: seed, size: sizeOf(seed), rng: rand.New(rand.NewPCG(seed, 1)), timeline: timeline{now: epoch}, say: say, logins: make(map[string]string), seen: newStats()}
	w.mood = mood{
		failure: oneOf(w, 0.1, 0.4, 0.4, 0.9), changes: oneOf(w, 0.1, 0.3, 0.8),
		red: oneOf(w, 0.1, 0.2, 0.7), conflict: oneOf(w, 0.1, 0.3, 0.8),
	}
	w.forge = newServer(w)
	w.shell = newShell(w)
	w.checks = checks{w, make(map[threads.Key][]time.Time), newAftermath()}
	return w
}

// step lets the next thing happen, and looks whether all is well afterwards.
func (w *world) step() {
	w.next()
	w.seen.Events++
	w.forge.settle()
	w.checks.table()
}

// becalm ends the troubles. What agents do from now on succeeds, and nobody touches the forge but the factory.
func (w *world) becalm() {
	w.log("--- calm from here: no people, no faults")
	w.calm = true
	w.allow()
	w.tight = false
	w.after(patience, func() {
		w.fail("everything ends", fmt.Errorf("%s after the last fault there is still something to do: %s", patience, w.shell.unfinished()))
	})
	w.shell.kick()
}

func (w *world) fail(invariant string, err error) {
	if w.failure == nil {
		w.failure = fmt.Errorf("world %d at %s: %s: %w", w.seed, w.clock(), invariant, err)
		w.log("VIOLATION %s: %v", invariant, err)
	}
}

func (w *world) log(format string, args ...any) {
	if w.say != nil {
		w.say(w.clock() + " " + fmt.Sprintf(format, args...))
	}
}

// clock is the time as the log shows it: since the beginning.
func (w *world) clock() string { return w.now.Sub(epoch).Round(time.Millisecond).String() }

// clockStep is how finely the supervisor can tell its own doings apart. With a clock as fine as ours no scan would ever
// begin at the very time at which a write ends, and whether that counts as before would make no difference.
const clockStep = 50 * time.Millisecond

func (w *world) coarse() time.Time { return w.now.Truncate(clockStep) }

// chance is true with probability p.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// trouble is chance while people and faults are about.
func (w *world) trouble(p float64) bool { return w.chance(p) && !w.calm }

// between is a duration from lo up to, not including, hi.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) within(s span) time.Duration { return w.between(s.from, s.to) }

// number is from lo to hi, both included.
func (w *world) number(lo, hi int) int { return lo + w.rng.IntN(hi-lo+1) }

func oneOf[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }
