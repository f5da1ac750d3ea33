package nomad

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// storm runs sessions on a real Nomad, at most atOnce at the same time, and returns how long each took to start: from
// Run to the first line of its program.
func storm(b *bench, sessions, atOnce int) (starts []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan bool, atOnce)
	for i := range sessions {
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			job := b.job(fmt.Sprintf("date +%%s.%%N >$T/at-%d; sleep 1; exit %d", i, i%2*3))
			job.Limits.Memory = 64 << 20
			want := []agents.Result{agents.Done, agents.Failed}[i%2]
			began := time.Now()
			o := b.exec.Run(b.Context(), job, nil)
			if o.Result != want || o.ExitCode != i%2*3 {
				b.Errorf("session %d: %+v", i, o)
			}
			text, _ := os.ReadFile(filepath.Join(b.dir, fmt.Sprint("at-", i)))
			at, _ := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.UnixMicro(int64(at*1e6)).Sub(began))
		})
	}
	all.Wait()
	slices.Sort(starts)
	return starts
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc >> 10
}

// TestStorm: no start is refused and no outcome lost, for 20 sessions one after the other, for 50 at once, and for
// 1000; and the supervisor's memory does not grow. It is long, and only for a real Nomad.
func TestStorm(t *testing.T) {
	address := real(t)
	if os.Getenv("DISINTO_STORMS") == "" {
		t.Skip("DISINTO_STORMS is not set")
	}
	for _, tt := range []struct{ sessions, atOnce int }{{20, 1}, {50, 50}, {1000, 20}} {
		t.Run(fmt.Sprint(tt.sessions), func(t *testing.T) {
			b := benchAt(t, address)
			before, began := heap(), time.Now()
			starts := storm(b, tt.sessions, tt.atOnce)
			t.Logf("%d sessions, %d at once, in %s; start median %s, p95 %s, max %s; heap %d KiB, then %d KiB",
				tt.sessions, tt.atOnce, time.Since(began).Round(time.Second), starts[len(starts)/2],
				starts[len(starts)*95/100], starts[len(starts)-1], before, heap())
			if got := b.starts(); got != tt.sessions {
				t.Errorf("%d programs started, want %d", got, tt.sessions)
			}
			if after := heap(); after > before+8<<10 {
				t.Errorf("the heap grew from %d to %d KiB", before, after)
			}
		})
	}
}
