package sim

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	seed   = flag.Uint64("seed", 0, "play this one world and print what happens in it")
	worlds = flag.Int("worlds", 0, "how many worlds to play; 0 means as many as fit into an ordinary test run")
)

// TestWorlds plays many worlds. A failing one prints its seed; with -seed it plays again and tells its story.
func TestWorlds(t *testing.T) {
	if *seed != 0 {
		stats, err := Play(*seed, func(line string) { t.Log(line) })
		t.Logf("%+v", stats)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	n := *worlds
	if n == 0 {
		n = ordinary
	}
	var next atomic.Uint64
	var failures atomic.Int32
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= uint64(n) && failures.Load() < 5; i = next.Add(1) {
				if _, err := Play(i, nil); err != nil {
					failures.Add(1)
					t.Errorf("%v\nreplay with: go test ./threads/sim -run Worlds -seed %d -v", err, i)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkWorlds(b *testing.B) {
	var seed uint64
	for b.Loop() {
		seed++
		if _, err := Play(seed, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "worlds/s")
}
