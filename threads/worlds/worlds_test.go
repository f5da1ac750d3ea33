package worlds

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

var (
	seed   = flag.Uint64("seed", 0, "play only this world and print its log")
	worlds = flag.Int("worlds", 0, "number of worlds; 0 means a few seconds' worth")
)

// storms reports whether all worlds and loads are played, as in `make check`. `make test` plays some of them. It
// reads the variable while tests run: the cache of go test does not see what is read earlier.
func storms() bool { return os.Getenv("DISINTO_STORMS") != "" }

// sized returns all with DISINTO_STORMS, and some without.
func sized[T any](all, some T) T {
	if storms() {
		return all
	}
	return some
}

// TestC5_F7_Worlds plays many worlds. A failing world reports its seed; -seed plays it again and logs every event.
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
		n = sized[uint64](enough, 40)
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
					t.Errorf("%v\nreplay with: go test ./threads/worlds -run Worlds -seed %d -v", err, i)
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

// enough is the number of worlds that reach every code. Only one or two in a thousand keep a slot, or have a merge
// that waits.
const enough = 10_000

// unseen has the codes that no plan gives: `why` gives them for issues outside the backlog or for candidates that did
// not get furthest, or another function does.
var unseen = []threads.Code{
	threads.Closed, threads.HasSession, threads.AuthorFirst, threads.OnRung, threads.AnotherFirst,
	threads.ConvoyOver, threads.Answered, threads.PlanApproved, threads.PlanReturned, // codes of marks
	threads.StopCancelled, threads.StopReleased, // commands of people
	threads.RuleBroken,                      // of Enforce, which finds nothing
	threads.Splitting, threads.SplitRefused, // no world has issues to be split; scripts do
	threads.NotOnRoute,                   // no world has routes
	threads.SetupFailed,                  // no world has a setup
	threads.EgressRefused,                // no world has an egress; a script does
	threads.RepoOff, threads.TextTooLong, // no world has an archived repository or a text of 64 kB; scripts do
	threads.MainRed,  // no world has checks on a branch; scripts do
	threads.Draining, // no world drains; a script does
	threads.CIStuck,  // no world's checks are silent for hours; scripts do
	// Of Rebalance:
	threads.StolenBefore, threads.WorkBegun, threads.TooUrgent, threads.NoSkillSaid,
	threads.NotBusy, threads.StealLimit,
}

// reached checks that the worlds reach every code and every action. An invariant of a code that is never reached
// guards nothing.
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
			t.Errorf("no plan has the action %q", a)
		}
	}
	if total.Merged == 0 || total.Sessions == 0 {
		t.Errorf("got %d sessions and %d merges, want some of both", total.Sessions, total.Merged)
	}
}

// TestSameWorld plays worlds twice. Both plays must have the same log.
func TestSameWorld(t *testing.T) {
	for seed := sized[uint64](1, 32); seed <= 40; seed++ { // 33 is a long world, 39 a large one
		var first, second []string
		if _, err := Play(seed, func(line string) { first = append(first, line) }); err != nil {
			t.Fatal(err)
		}
		if _, err := Play(seed, func(line string) { second = append(second, line) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(first, second) || len(first) < 8 {
			t.Errorf("two plays of world %d differ, or are too short: %d and %d lines", seed, len(first), len(second))
		}
	}
}

// BenchmarkWorlds measures worlds per second of wall-clock time and of processor time.
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
