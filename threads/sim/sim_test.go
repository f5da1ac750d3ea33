package sim

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

var (
	seed   = flag.Uint64("seed", 0, "play this one world and print what happens in it")
	worlds = flag.Int("worlds", 0, "how many worlds to play; 0 means a few seconds' worth")
)

// storms reports whether all worlds and all loads are played, as `make check` has it. `make test` plays a part of
// them. It is asked while tests run, not before: what is read earlier the cache of go test does not see.
func storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// sized is all in storms, and some without.
func sized[T any](all, some T) T {
	if storms() {
		return all
	}
	return some
}

// TestMain lets garbage pile up: a world makes much and keeps almost nothing.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// TestC5_F7_Worlds plays many worlds. A failing one prints its seed; with -seed it is played again and logs every
// event.
func TestC5_F7_Worlds(t *testing.T) {
	if *seed != 0 {
		stats, err := Play(*seed, func(line string) { t.Log(line) })
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d sessions and %d merges in %s: every invariant held", stats.Sessions, stats.Merged, stats.Virtual)
		return
	}
	n := uint64(*worlds)
	if n == 0 {
		n = sized[uint64](enough, 120)
	}
	total := playAll(t, n)
	t.Logf("%d worlds: %d sessions, %d merges, %d plans", n, total.Sessions, total.Merged, total.Plans)
	if n >= enough && !t.Failed() {
		reached(t, &total)
	}
}

// playAll plays the worlds 1 to n on all processors.
func playAll(t *testing.T, n uint64) Stats {
	var (
		next     atomic.Uint64
		failures atomic.Int32
		wg       sync.WaitGroup
		mu       sync.Mutex // guards total
		total    = newStats()
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= n && failures.Load() < 5; i = next.Add(1) {
				stats, err := Play(i, nil)
				if err != nil {
					failures.Add(1)
					t.Errorf("%v\nreplay with: go test ./threads/sim -run Worlds -seed %d -v", err, i)
				}
				mu.Lock()
				add(&total, &stats)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total
}

func add(total, s *Stats) {
	total.Sessions, total.Merged, total.Plans = total.Sessions+s.Sessions, total.Merged+s.Merged, total.Plans+s.Plans
	for code, n := range s.Codes {
		total.Codes[code] += n
	}
	for action, n := range s.Actions {
		total.Actions[action] += n
	}
}

// enough is how many worlds it takes to see every reason. Only one or two in a thousand keep a slot, or see a merge
// wait.
const enough = 10_000

// unseen are the reasons that no plan gives: `why` gives them about issues outside the backlog or candidates that did
// not get furthest, or another function does.
var unseen = []threads.Code{
	threads.Closed, threads.HasSession, threads.AuthorFirst, threads.OnRung,
	threads.ConvoyOver, threads.Answered, threads.PlanApproved, threads.PlanReturned, // of marks
	threads.StopCancelled, threads.StopReleased, // commands of people, which no plan gives
	threads.RuleBroken,                   // of Enforce, which finds nothing
	threads.NotOnRoute,                   // no world has routes
	threads.RepoOff, threads.TextTooLong, // no world archives its repository, or has texts of 64 kB: scripts do
	// Of Rebalance:
	threads.AgentSick, threads.StolenBefore, threads.WorkBegun, threads.TooUrgent, threads.NoSkillSaid,
	threads.NotBusy, threads.StealLimit,
}

// reached checks that the worlds come to every reason and every action. Otherwise its invariant guards nothing.
func reached(t *testing.T, total *Stats) {
	for _, d := range threads.Codes() {
		if total.Codes[d.Code] == 0 && !slices.Contains(unseen, d.Code) {
			t.Errorf("no plan gave the reason %q", d.Code)
		}
	}
	for _, a := range []threads.Action{
		threads.ActRelease, threads.ActUnlabel, threads.ActClose, threads.ActBlocked, threads.ActNeedsHuman,
		threads.ActTell, threads.ActEndConvoy, threads.ActRoute, threads.ActAsk, threads.ActAnswered, threads.ActPlanFirst,
	} {
		if total.Actions[a] == 0 {
			t.Errorf("no plan asked for %q", a)
		}
	}
	if total.Merged == 0 || total.Sessions == 0 {
		t.Errorf("%d sessions, %d merges", total.Sessions, total.Merged)
	}
}

// TestEveryHoldHasItsTest wants a test of the facts for the code of each item rule. Holds of the classes Unfit and
// Busy speak of agents: see noneCan.
func TestEveryHoldHasItsTest(t *testing.T) {
	shared := []threads.Code{
		threads.HasSession, threads.ChainBusy, // asked of the sessions: see holdTrue
	}
	for _, d := range threads.Codes() {
		class := d.Class
		agent := class == threads.Unfit || class == threads.Busy
		_, listed := holdTest(d.Code)
		switch {
		case slices.Contains(shared, d.Code), d.Code == threads.SlotKept, class == threads.NoHold:
		case listed == agent:
			t.Errorf("%q is of class %d, and its test is listed: %v", d.Code, class, listed)
		}
	}
}

// TestSameWorld plays worlds twice: both plays must log the same.
func TestSameWorld(t *testing.T) {
	for seed := sized[uint64](1, 32); seed <= 40; seed++ { // 33 is a long one, 39 a large one
		var first, second []string
		if _, err := Play(seed, func(line string) { first = append(first, line) }); err != nil {
			t.Fatal(err)
		}
		if _, err := Play(seed, func(line string) { second = append(second, line) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(first, second) || len(first) < 8 {
			t.Errorf("world %d told two stories, of %d and %d lines", seed, len(first), len(second))
		}
	}
}

// BenchmarkWorlds measures worlds per second, by the clock and by processor time.
func BenchmarkWorlds(b *testing.B) {
	var seed uint64
	began := used(b)
	for b.Loop() {
		seed++
		if _, err := Play(seed, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "worlds/s")
	b.ReportMetric(float64(b.N)/(used(b)-began).Seconds(), "worlds/cpu-s")
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
