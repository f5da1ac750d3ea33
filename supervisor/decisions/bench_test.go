package decisions

import (
	"path/filepath"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/threads"
)

// BenchmarkTake takes decisions on 10,000 waiting issues, each with a history: the tick waits for this. The facts
// were read again without changes, so nothing is written: see BenchmarkWrite for that part.
func BenchmarkTake(b *testing.B) {
	s, plan := many()
	r := NewRecorder()
	known := s.History.Freeze()
	b.ReportAllocs()
	for b.Loop() {
		r.Take(s.Now, func() *threads.FrozenDecision { return s.Freeze(&plan, known) })
		<-r.queue
	}
}

// BenchmarkWrite compares BenchmarkTake's decisions, which happens outside the tick.
func BenchmarkWrite(b *testing.B) {
	s, plan := many()
	w := &writer{dir: filepath.Join(b.TempDir(), Folder)}
	known := s.History.Freeze()
	b.ReportAllocs()
	for b.Loop() {
		s.Facts.Issues = slices.Clone(s.Facts.Issues)
		w.take(&decision{FrozenDecision: s.Freeze(&plan, known)})
	}
	w.file.Close()
}

// many returns a decision on issues that all wait.
func many() (*threads.Snapshot, threads.Plan) {
	s := factory(10_000)
	for i := range s.Facts.Issues {
		c := &threads.ChainHistory{Writers: []string{"dev"}, Attempts: make([]threads.Attempt, 1)}
		s.History.Chains[s.Facts.Issues[i].Ref] = c
	}
	pause(s, true)
	return s, threads.Decide(*s)
}
