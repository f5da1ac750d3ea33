// Package worlds plays whole factories in virtual time, to find mistakes of the scheduler and the ledger that no other
// test finds. Only tests import it.
//
// A world is generated from a seed: a configuration, a forge with issues and pull requests, people who change their
// minds, agents that succeed, fail, refuse and die, late and partial scans, lost writes, and restarts with and
// without the journal. The scheduler is the real threads.Decide, and the memory is the real ledger.State. A small
// model of the supervisor connects them to the world (shell.go, session.go, books.go).
//
// Every plan and every step is checked against the invariants in invariants.go, which follow from the design. After
// some hours the people and the faults stop. From then on, everything that can end must end.
//
// Nine of ten worlds are small, because small worlds find most mistakes at the lowest cost; see sizes.
//
// The same seed plays the same way on every machine: nothing here reads a clock, starts a goroutine or depends on the
// order of a map. To see a failing world, run
//
//	go test ./threads/worlds -run Worlds -seed N
package worlds

import (
	"fmt"
	"math/rand/v2"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// epoch is the start of every world.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// patience is how long a calm world may take to finish. Two dozen issues of three sessions each, one after the other
// in a single slot and with every possible rest, take a day.
const patience = 3 * 24 * time.Hour

// world is one factory with its forge and its people.
type world struct {
	seed     uint64
	rng      *rand.Rand
	cfg      *threads.Config
	roles    []agents.Role     // all roles, including those without an agent
	hired    int               // number of agents ever configured
	logins   map[string]string // accounts of agents, by name
	accounts []string          // the same accounts, as a sorted list
	forge    *server
	shell    *shell
	checks   checks

	sim.Timeline
	size    size
	calm    bool              // people and faults have stopped
	tight   bool              // another program takes the memory or disk that agents need
	serves  map[string]string // services by the thread that they serve
	down    map[string]bool   // services that are down
	over    bool              // nothing is left to do
	mood    mood
	only    string // the trick that evil agents play; empty for any
	failure error  // the first violation
	say     func(string)
	seen    Stats
}

// mood has the probability of each kind of trouble. It differs between worlds, so that each kind is frequent in some.
type mood struct {
	failure  float64 // a session does not achieve its purpose
	changes  float64 // a review requests changes
	red      float64 // checks fail
	conflict float64 // a merge leaves another pull request in conflict
	closing  float64 // a reviewer closes the pull request instead of giving a verdict
	deaf     float64 // the first agent finds no backend, but others do
	capped   float64 // a session meets a usage limit whose reset is long past
	curious  float64 // a session asks a question, or posts a plan
	crafty   float64 // a rework is a trick to be counted from zero
	restless float64 // a verdict is dismissed, or its head moves, without a session
}

// size is the size of a world, and the length of its trouble.
type size struct {
	repos, plants, threads int // maxima
	agents                 []int
	act                    time.Duration // longest time between two actions of people
	crash, calm, poll      span
}

type span struct{ from, to time.Duration }

// Most mistakes need two issues, three agents and one fault at the wrong moment, and a small world plays twenty times
// as fast as a large one. Large worlds are for mistakes that need many items: a long queue, two convoys. Long worlds
// are for mistakes that need time: the fifth attempt, the last review round, a used-up budget.
var (
	small = size{
		repos: 1, plants: 2, threads: 2, agents: []int{2, 2, 3, 3, 4}, act: 3 * time.Minute,
		crash: span{time.Minute, 40 * time.Minute}, calm: span{5 * time.Minute, 25 * time.Minute},
		poll: span{3 * time.Minute, 15 * time.Minute},
	}
	long = size{
		repos: 1, plants: 2, threads: 2, agents: []int{2, 2, 3, 3, 4}, act: 40 * time.Minute,
		crash: span{30 * time.Minute, 3 * time.Hour}, calm: span{2 * time.Hour, 6 * time.Hour},
		poll: span{10 * time.Minute, 40 * time.Minute},
	}
	large = size{
		repos: 2, plants: 4, threads: 3, agents: []int{2, 3, 3, 4, 5, 7}, act: 12 * time.Minute,
		crash: span{10 * time.Minute, 2 * time.Hour}, calm: span{90 * time.Minute, 5 * time.Hour},
		poll: span{30 * time.Second, 10 * time.Minute},
	}
)

// sizes are the sizes of forty consecutive worlds; nil is small.
var sizes = [40]*size{6: &long, 13: &long, 26: &long, 33: &long, 39: &large}

func sizeOf(seed uint64) size {
	if s := sizes[seed%uint64(len(sizes))]; s != nil {
		return *s
	}
	return small
}

// Stats counts what happened in a world.
type Stats struct {
	Virtual  time.Duration // length of the world
	Events   int
	Plans    int // plans of ticks, without those of checks
	Sessions int // sessions that ran
	Merged   int // merged pull requests
	// Codes and Actions count the reasons and marks of plans, once for each plan.
	Codes   map[threads.Code]int
	Actions map[threads.Action]int
}

func newStats() Stats {
	return Stats{Codes: make(map[threads.Code]int), Actions: make(map[threads.Action]int)}
}

// Play plays the world of a seed to its end. The error names the first broken invariant. say, unless nil, gets a line
// for each event.
func Play(seed uint64, say func(string)) (Stats, error) {
	w := newWorld(seed, say)
	w.populate()
	w.play()
	return w.seen, w.failure
}

// play plays the populated world to its end.
func (w *world) play() {
	w.shell.boot(true)
	w.After(w.within(span{0, w.size.act}), w.people)
	w.After(w.within(w.size.crash), w.crash)
	w.After(w.within(w.size.calm), w.becalm)
	for w.failure == nil && !w.over {
		w.step()
	}
	w.seen.Virtual = w.Now.Sub(epoch)
}

func newWorld(seed uint64, say func(string)) *world {
	w := &world{
		seed: seed, size: sizeOf(seed), rng: rand.New(rand.NewPCG(seed, 1)), Timeline: sim.Timeline{Now: epoch}, say: say,
		logins: make(map[string]string), seen: newStats(),
		serves: make(map[string]string), down: make(map[string]bool),
	}
	w.mood = mood{
		failure: oneOf(w, 0.1, 0.4, 0.4, 0.9), changes: oneOf(w, 0.1, 0.3, 0.8),
		red: oneOf(w, 0.1, 0.2, 0.7), conflict: oneOf(w, 0.1, 0.3, 0.8),
		closing: oneOf(w, 0, 0.02, 0.5, 0.9), curious: oneOf(w, 0, 0, 0.4),
		crafty: oneOf(w, 0, 0, 0, 0, 0.6), restless: oneOf(w, 0, 0, 0, 0, 0.9),
		deaf: oneOf(w, 0, 0, 0, 0.95), capped: oneOf(w, 0, 0, 0, 0, 0.6),
	}
	w.forge = newServer(w)
	w.shell = newShell(w)
	w.checks = checks{w, make(map[threads.Key][]time.Time), newAftermath(), newTolls()}
	return w
}

// step plays the next event, and checks the invariants that hold after each.
func (w *world) step() {
	w.Next()
	w.seen.Events++
	w.forge.settle()
	w.checks.table()
}

// becalm ends the trouble: from now on sessions succeed, and only the factory writes to the forge.
func (w *world) becalm() {
	w.log("--- calm from here: no people, no faults")
	w.calm = true
	w.allow()
	w.tight = false
	clear(w.down)
	w.After(patience, func() {
		err := fmt.Errorf("unfinished %s after the last fault: %s", patience, w.shell.unfinished())
		w.fail("everything ends", err)
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

// clock formats the time since the start, as in the log.
func (w *world) clock() string { return w.Now.Sub(epoch).Round(time.Millisecond).String() }

// clockStep is the resolution of the supervisor's clock. With a finer one, no scan would start at the very time at
// which a write ends.
const clockStep = 50 * time.Millisecond

func (w *world) coarse() time.Time { return w.Now.Truncate(clockStep) }

// chance is true with probability p.
func (w *world) chance(p float64) bool { return w.rng.Float64() < p }

// trouble is chance until the world is calm.
func (w *world) trouble(p float64) bool { return w.chance(p) && !w.calm }

// between returns a duration from lo up to, not including, hi.
func (w *world) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func (w *world) within(s span) time.Duration { return w.between(s.from, s.to) }

// number returns an integer from lo to hi, both included.
func (w *world) number(lo, hi int) int { return lo + w.rng.IntN(hi-lo+1) }

func oneOf[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }
