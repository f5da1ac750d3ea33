package sim

import (
	"reflect"
	"testing"
	"time"
)

// Dealt work is the same work: as much of it, at the same times, and none for agents that have not its skills.
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
			t.Errorf("%d: %+v", i, d)
		}
		sums[len(w.Skills)] += w.Sessions[0] - d.Sessions[0]
		if d.Review != w.Review {
			moved++
		}
	}
	if moved < 20 || sums[0] != 0 || sums[1] != 0 {
		t.Errorf("%d have other sessions; the sums differ by %v", moved, sums)
	}
	if !reflect.DeepEqual(load.Dealt(7), dealt) || !reflect.DeepEqual(load.Dealt(0), load) || len(Load(nil).Dealt(3)) > 0 {
		t.Error("the same seed does not deal alike")
	}
}
