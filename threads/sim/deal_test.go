package sim

import (
	"reflect"
	"testing"
	"time"
)

// Dealt keeps the total work and the filing times, and gives no agent work without its skills.
func TestDealt(t *testing.T) {
	load := make(Load, 40)
	for i := range load {
		load[i] = Work{
			At: time.Duration(i) * time.Hour, Priority: 1 + i%3, Pulls: true,
			Sessions: []time.Duration{time.Duration(i+1) * time.Minute}, Review: time.Duration(i+1) * time.Second,
		}
		if i%4 == 0 {
			load[i].Skills = []string{"go"}
		}
	}
	dealt := load.Dealt(7)
	moved, sums := 0, map[int]time.Duration{}
	for i := range load {
		w, d := &load[i], &dealt[i]
		if d.At != w.At || d.Priority != w.Priority || len(d.Skills) != len(w.Skills) || d.Review != d.Sessions[0]/60 {
			t.Errorf("issue %d: got %+v, want its time, priority and skills unchanged", i, d)
		}
		sums[len(w.Skills)] += w.Sessions[0] - d.Sessions[0]
		if d.Review != w.Review {
			moved++
		}
	}
	if moved < 20 || sums[0] != 0 || sums[1] != 0 {
		t.Errorf("got %d issues with other sessions, want at least 20; the sums differ by %v, want 0", moved, sums)
	}
	if !reflect.DeepEqual(load.Dealt(7), dealt) || !reflect.DeepEqual(load.Dealt(0), load) || len(Load(nil).Dealt(3)) > 0 {
		t.Error("Dealt(7) differs between calls, Dealt(0) changes the load, or an empty load gets work")
	}
}
