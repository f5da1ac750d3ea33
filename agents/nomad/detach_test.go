package nomad

import (
	"context"
	"errors"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// TestDetachLeavesJob: a supervisor that detaches does not stop a session whose allocations it has just read.
func TestDetachLeavesJob(t *testing.T) {
	now := time.Now()
	s := &session{exec: &Executor{}, order: &Order{Deadline: now.Add(time.Hour)}, since: now}
	allocs := []allocation{{ID: "a", ClientStatus: "running"}}
	for _, tt := range []struct {
		cause error
		stop  bool
	}{{agents.ErrDetached, false}, {errors.New("cancelled"), true}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cause)
		if _, stop := s.mustStop(ctx, t.Context(), allocs, now); stop != tt.stop {
			t.Errorf("%v: mustStop = %t, want %t", tt.cause, stop, tt.stop)
		}
	}
}
