package gate

import (
	"runtime"
	"testing"
)

// The question and its answer come from one process, which must not wait for itself: on one processor, and while the
// garbage collector stops all goroutines, a supervisor hung at its start.
func TestFind(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			select {
			case <-over:
				return
			default:
				runtime.GC()
			}
		}
	}()
	for range 50 {
		if err := Find(); err != nil {
			t.Skip(err)
		}
	}
}
