package simtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// soak is a factory that works for a long time: people file issues, some of which depend on others, and agents work
// on them.
type soak struct {
	*World
	mu    sync.Mutex // guards rng
	rng   *rand.Rand
	every time.Duration // between two issues
	filed int
}

func newSoak(t testing.TB, seed uint64) *soak {
	s := &soak{World: New(t), rng: rand.New(rand.NewPCG(seed, 2)), every: 20 * time.Minute}
	s.Slow()
	s.Config.Forge.MaxUnreviewed = 6
	return s
}

func (s *soak) chance(p float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.Float64() < p
}

// file files issues for some time.
func (s *soak) file(life time.Duration) {
	late := rand.New(rand.NewPCG(uint64(s.filed), 9)) // or all issues would come in step with the supervisor's scans
	next := func() { time.Sleep(s.every + time.Duration(late.Int64N(int64(time.Minute)))) }
	for end := time.Now().Add(life); time.Now().Before(end); next() {
		s.filed++
		if last := int64(0); s.filed > 1 && s.chance(0.3) {
			for _, r := range s.Exec.Runs() {
				if r.Job.Kind == agents.KindIssue {
					last = r.Job.Number
				}
			}
			if last > 0 {
				s.Forge.Issue(fmt.Sprint("issue ", s.filed), last)
				continue
			}
		}
		s.Forge.Issue(fmt.Sprint("issue ", s.filed))
	}
}

// idleRequests returns the requests per interval of a factory without work.
func idleRequests(w *World, polls int) float64 {
	idle := w.Config.Threads[0].IdleInterval
	before := w.Forge.Requests()
	time.Sleep(time.Duration(polls) * idle)
	return float64(w.Forge.Requests()-before) / float64(polls)
}

// soakDays returns the length of a soak in virtual days, and whether the environment sets it.
func soakDays(t *testing.T) (days int, long bool) {
	text := os.Getenv("DISINTO_SOAK_DAYS")
	if text == "" {
		return 1, false
	}
	days, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return days, true
}

// A day without faults: every issue is merged, and nothing has to be repaired. A simulation from the journal of a month
// has the same waits. At the end the supervisor has as many goroutines and items, and as much memory, as after the
// first hours.
func TestSoak(t *testing.T) {
	OnlyInStorms(t)
	synctest.Test(t, func(t *testing.T) {
		days, long := soakDays(t)
		s := newSoak(t, 1)
		l := s.Start()
		s.file(6 * time.Hour)
		s.Until(3*time.Hour, "the first hours' work is merged", s.Forge.Done)
		time.Sleep(time.Hour)
		early := measure()
		s.file(time.Duration(days)*24*time.Hour - 6*time.Hour)
		s.Until(3*time.Hour, "the day's work is merged", s.Forge.Done)
		time.Sleep(time.Hour)
		late := measure()
		d := l.Document()
		perPoll := idleRequests(s.World, 20)
		l.Stop()
		s.Start().Stop() // compacts the journal
		journal := s.journalBesidesPast()
		s.Check()
		if long { // the median of one day's waits has a standard error of four seconds
			foretold(t, s.history(), s.Config)
		}
		t.Logf("%d issues, %d sessions; goroutines %d then %d, heap with the forge's model %d KiB then %d KiB; "+
			"journal %d bytes; %.1f requests per idle poll of two threads",
			s.filed, len(s.Exec.Runs()), early.goroutines, late.goroutines, early.heap>>10, late.heap>>10, journal, perPoll)
		if d.Upkeep.Repairs+d.Upkeep.Violations > 0 || len(d.Problems) > 0 {
			t.Errorf("got repairs without a fault: %+v, %q, want none\n%s", d.Upkeep, d.Problems, s.Log.String())
		}
		for _, r := range s.Exec.Runs() {
			if r.Outcome.Result != agents.Done {
				t.Errorf("%s #%d: got outcome %s: %s, want done", r.Job.Kind, r.Job.Number, r.Outcome.Result, r.Outcome.Reason)
			}
		}
		if late.goroutines != early.goroutines || journal > 24<<10 { // 64 conversations of a thread are 4 kB
			t.Errorf("got resources %+v, then %+v, and a journal of %d bytes, want no growth and at most 24 KiB", early, late,
				journal)
		}
		if perPoll > 2 { // two threads scan, and one scan is one request
			t.Errorf("got %.1f requests per idle interval, want at most 2", perPoll)
		}
	})
}

// journalBesidesPast returns the size of the journal without the sessions and merges that it keeps for simulations.
// Their number has a limit.
func (s *soak) journalBesidesPast() (size int) {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "journal.jsonl"))
	if err != nil {
		s.T.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"past":`)) && !bytes.Contains(line, []byte(`"merged":`)) {
			size += len(line)
		}
	}
	return size
}

// measured are the resources of a supervisor.
type measured struct {
	goroutines int
	heap       uint64
}

func measure() measured {
	synctest.Wait()
	var mem runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&mem)
	return measured{runtime.NumGoroutine(), mem.HeapAlloc}
}

// A day full of faults: the forge fails, hangs, and answers late or not at all; sessions end in every way; and the
// supervisor is killed every two hours and sometimes loses its journal. After the faults, all work is done. A soak of
// several days plays as many different days.
func TestSoakWithFaults(t *testing.T) {
	OnlyInStorms(t)
	seeds := uint64(1)
	if days, long := soakDays(t); long {
		seeds = uint64(days)
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { soakWithFaults(t, seed) })
		})
	}
}

func soakWithFaults(t *testing.T, seed uint64) {
	s := newSoak(t, seed)
	s.every = 40 * time.Minute
	var troubled atomic.Bool
	troubled.Store(true)
	s.Exec.Script = func(job agents.Job, n int) Script {
		good := s.Work(job, n)
		if !troubled.Load() || s.chance(0.6) {
			return good
		}
		return s.misfortune(good)
	}
	s.Forge.Fail(func(ctx context.Context, _ string) error { return s.fault(ctx) })
	killed := 0
	l := s.Start()
	go s.file(22 * time.Hour)
	for range 12 {
		time.Sleep(2*time.Hour + time.Minute)
		l.Kill()
		l.Bury()
		killed++
		if s.chance(0.25) {
			s.loseJournal()
		}
		l = s.Start()
	}
	troubled.Store(false)
	s.Forge.Fail(nil)
	for range 4 * 24 { // a person sends blocked work back once an hour
		s.Forge.SendBack()
		if time.Sleep(time.Hour); s.Forge.Done() {
			break
		}
	}
	if !s.Forge.Done() {
		t.Errorf("four days after the last fault: got queue %+v, want all done", l.Document().Queue)
	}
	d := l.Document()
	l.Stop()
	s.Check()
	if left := s.Forge.Claimed(); len(left) > 0 {
		t.Errorf("claims left: %v", left)
	}
	if d.Upkeep.Violations > 0 {
		t.Errorf("got violations, problems %q, want none", d.Problems)
	}
	t.Logf("%d issues, %d sessions, killed %d times, %d claims left over in the last life",
		s.filed, len(s.Exec.Runs()), killed, d.Upkeep.Repairs)
}

// loseJournal deletes the journal: the next life has only the forge.
func (s *soak) loseJournal() {
	if err := os.Remove(filepath.Join(s.Dir, "journal.jsonl")); err != nil {
		s.T.Error(err)
	}
}

// misfortune returns a session that does not achieve its purpose.
func (s *soak) misfortune(good Script) Script {
	fail := func(r agents.Result) Script {
		return Script{Takes: good.Takes / 2, Outcome: agents.Outcome{Result: r, Claimed: true, Reason: "misfortune"}}
	}
	switch {
	case s.chance(0.3):
		return fail(agents.Failed)
	case s.chance(0.3):
		return Script{Takes: good.Takes} // without any effect
	case s.chance(0.3):
		return fail(agents.Stalled)
	case s.chance(0.5):
		return fail(agents.BackendDown)
	}
	return fail(agents.Limited)
}

// fault returns a failure of the forge, mostly none.
func (s *soak) fault(ctx context.Context) error {
	switch {
	case s.chance(0.9):
		return nil
	case s.chance(0.5):
		return fmt.Errorf("500 Internal Server Error: %w", forge.ErrUnavailable)
	case s.chance(0.4):
		return errAnswerLost
	case s.chance(0.5):
		time.Sleep(30 * time.Second)
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("%w: %w", forge.ErrUnavailable, ctx.Err())
}
