package supervisor

import (
	"flag"
	"os"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
)

// Update is set by -update, for the tests inside and outside of the package.
var Update = flag.Bool("update", false, "write the golden files from what the program does now; read the diff before it is committed")

// FillDisk makes every write to the journal fail until the answer is called.
func (s *Supervisor) FillDisk() (empty func(), err error) {
	s.mu.Lock() // for what Run wrote before it
	j := s.journal
	s.mu.Unlock()
	full, err := os.Open(j.path) // for reading only
	if err != nil {
		return nil, err
	}
	swap := func(f *os.File) (old *os.File) {
		j.mu.Lock()
		defer j.mu.Unlock()
		old, j.file = j.file, f
		return old
	}
	disk := swap(full)
	return func() { swap(disk).Close() }, nil
}

// ReplayDiff is what a supervisor that starts now would remember differently.
func (s *Supervisor) ReplayDiff() (string, error) {
	j, records, _, err := openJournal(s.StateDir)
	if err != nil {
		return "", err
	}
	defer j.close()
	replayed := newHistory()
	for _, r := range records {
		replayed.apply(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	live := *s.history
	live.Touched = replayed.Touched // never journalled
	return cmp.Diff(&live, replayed, cmp.AllowUnexported(history{}, openSession{}, failure{}, tally{}, writing{})), nil
}

// Remembered are the issues and pull requests of which the supervisor keeps anything.
func (s *Supervisor) Remembered() []forge.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append(s.history.remembered(), sorted(s.history.Claimed, forge.Ref.Compare)...)
	return append(list, sorted(s.history.Touched, forge.Ref.Compare)...)
}
