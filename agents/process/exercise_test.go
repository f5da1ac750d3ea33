package process

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/executortest"
)

// TestExercise runs the suite that every executor must pass, with a store and without.
func TestExercise(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T, job agents.Job) agents.Job {
		dir := t.TempDir()
		job.Dir, job.Home = filepath.Join(dir, "work"), filepath.Join(dir, "home")
		job.LogPath = filepath.Join(dir, "logs", "run.log")
		job.ResultPath = filepath.Join(dir, "result", "result.json")
		job.Env = append(job.Env, "DISINTO_RESULT="+job.ResultPath)
		return job
	}
	t.Run("ends with the supervisor", func(t *testing.T) {
		t.Parallel()
		executortest.Exercise(t, executortest.Subject{
			Prepare: prepare,
			New: func(_ *testing.T, secrets ...string) executortest.Executor {
				return &Executor{Reaper: reaper, Secrets: func() []string { return secrets }}
			},
		})
	})
	t.Run("outlives the supervisor", func(t *testing.T) {
		t.Parallel()
		var stores sync.Map // by name of the test
		executortest.Exercise(t, executortest.Subject{
			Prepare: prepare, Keeps: true,
			New: func(t *testing.T, secrets ...string) executortest.Executor {
				s, _ := stores.LoadOrStore(t.Name(), new(testStore))
				return s.(*testStore).next(t, secrets...)
			},
		})
	})
}

// testStore stands for an init's.
type testStore struct {
	mu   sync.Mutex
	kept map[string]Kept
	last *Executor
}

func (s *testStore) Keep(name string, fd, pid int, start uint64) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.Drop(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = make(map[string]Kept)
	}
	s.kept[name] = Kept{Name: name, FD: own, PID: pid, Start: start}
	return nil
}

func (s *testStore) Drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[name]; ok {
		_ = unix.Close(k.FD)
		delete(s.kept, name)
	}
}

// list returns copies of what is kept.
func (s *testStore) list(t testing.TB) (list []Kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		own, err := unix.FcntlInt(uintptr(k.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		k.FD = own
		exit := make(chan Exit)
		close(exit)
		k.Exit = exit
		list = append(list, k)
	}
	return list
}

// names returns the names of what is kept, sorted.
func (s *testStore) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.kept {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// next returns the executor of the next supervisor. Nothing of the last one listens any more, as after its death. Every
// session is ended with the test.
func (s *testStore) next(t testing.TB, secrets ...string) *Executor {
	if s.last != nil {
		s.last.mu.Lock()
		for _, r := range s.last.reported {
			r.link.close()
		}
		for _, r := range s.last.adopted {
			r.link.close()
		}
		s.last.mu.Unlock()
	}
	// All shims have one heir, this process. So an executor must not take the shims of a parallel test for orphans of its
	// own killed shim.
	const noHeir = 1 << 30
	e := &Executor{Reaper: reaper, Store: s, InitPID: noHeir, Secrets: func() []string { return secrets }}
	e.Adopt(s.list(t))
	s.last = e
	t.Cleanup(func() {
		for _, name := range s.names() {
			if id, ok := strings.CutPrefix(name, keptShim); ok {
				e.Forget(id)
			}
		}
	})
	return e
}
