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

// TestDetachPending: a stopping supervisor takes back a session that no node has taken, and leaves one that a node has.
func TestDetachPending(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("touch $T/ran")
		job.Nodes = []agents.NodeRule{{Attribute: "meta.llama", Value: "box9"}}
		ctx, cancel := context.WithCancelCause(b.Context())
		out := make(chan agents.Outcome, 1)
		go func() { out <- b.exec.Run(ctx, job, func(agents.Started) { b.Error("the session started") }) }()
		b.eventually("its job waits", func() bool {
			list, _, err := b.direct().listJobs(b.Context(), jobID(job.RunID), 0)
			return err == nil && len(list) == 1
		})
		cancel(agents.ErrDetached)
		b.want(<-out, agents.Cancelled, "the supervisor stopped before a node took the session", 0)
		b.wantNothingLeft(job)
	})
}
