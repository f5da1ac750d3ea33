package nomad

import (
	"context"
	"net/http"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// reachTime bounds the question whether Nomad answers.
const reachTime = 2 * time.Second

// Reach returns why Nomad does not answer, or has no leader; nil if it answers. It takes at most 2 s.
func (e *Executor) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	_, err := e.api().call(ctx, http.MethodGet, "/status/leader", nil, nil, nil)
	return err
}

// leaveTime bounds the time that a stopping supervisor spends on a session that no node has taken yet: it has 7 s for
// everything.
const leaveTime = 4 * time.Second

// leave ends the supervisor's part in a session that continues without it: the outcome is Lost. A session that no node
// has taken is taken back, because it could start long after the supervisor has stopped: the outcome is Cancelled.
func (s *session) leave(ctx context.Context) agents.Outcome {
	calls, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if s.startReported || !s.takeBack(calls) {
		return agents.Outcome{Result: agents.Lost, Reason: context.Cause(ctx).Error()}
	}
	out := s.cleanUp(ctx, calls, agents.Outcome{Result: agents.Cancelled})
	out.Reason = "the supervisor stopped before a node took the session"
	return out
}

// takeBack stops the job if it has no allocation, and reports whether none can follow. A registration without an answer
// may still arrive. Without its order and claim the session does not begin, and the next supervisor removes the job.
func (s *session) takeBack(calls context.Context) bool {
	if list, err := s.client.allocations(calls, s.id); err != nil || len(list) > 0 {
		return false
	}
	if s.client.stop(calls, s.id) != nil {
		return false
	}
	time.Sleep(quietTick) // a pending evaluation may have placed the job just before
	list, err := s.client.allocations(calls, s.id)
	return err == nil && len(list) == 0
}
