package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// inherit continues the sessions of the previous image, and reports whether there was one. That image left no stale
// processes.
func (s *Supervisor) inherit() bool {
	h := s.Inherited
	if h == nil {
		return false
	}
	s.problems.inherit(h.Upkeep)
	for _, x := range s.state.inherit(h) {
		s.sessions.inSession(x, s.sessions.resume)
	}
	for _, x := range s.services.serving.inherit(h.Services, s.base) {
		s.services.inService(x)
	}
	s.log.Info(fmt.Sprintf("disinto %s continues %s and %s of the previous image", s.Version,
		control.Count(len(h.Sessions), "session"), control.Count(len(h.Services), "service")))
	return true
}

func (st *state) inherit(h *Handover) (list []*session) {
	st.lockToChange()
	defer st.mu.Unlock()
	st.life = life{started: h.Started, upgrades: h.Upgrades, upgraded: time.Now()}
	for i := range h.Sessions {
		x := continued(&h.Sessions[i], st.cfg, st.base)
		st.sessions[x.RunID] = x
		list = append(list, x)
	}
	return list
}

// continued restores a session of the previous image, or one elsewhere of the last supervisor. Agent, role and thread
// come from the current configuration, which is nearly always the one at the session's start. Where it lacks them, the
// handed-over fields are enough to end the session.
func continued(h *HandedSession, cfg *threads.Config, base context.Context) *session {
	x := &session{
		Session: h.Session, config: cfg, reserved: h.Reserved, pid: h.PID, sandbox: h.Sandbox,
		tag: tag(cfg, h.Session.Agent, h.Session.Item.Ref), atWork: make(chan struct{}), gone: make(chan struct{}),
	}
	close(x.atWork)
	if x.config == nil {
		x.config = &threads.Config{Factory: threads.Factory{StopGrace: h.Grace}}
	}
	x.secrets = secretsOf(x.config)
	if a := x.config.Agent(x.Agent); a != nil {
		x.agent = *a
	}
	if r := x.config.Role(x.Role); r != nil {
		x.role = *r
	}
	if t := x.config.Thread(x.Thread); t != nil {
		x.thread = *t
	}
	x.agent.Name, x.agent.Login, x.thread.Name = x.Agent, h.Login, x.Thread
	x.thread.BreakerInterval = cmp.Or(h.Breaker, x.thread.BreakerInterval)
	x.thread.Executor = ""
	x.ctx, x.cancel = context.WithCancelCause(base)
	if x.State == threads.Stopping {
		x.cancel(stopped{h.Stop})
	}
	return x
}

// resume waits for a program that the previous image or supervisor started, and concludes its session.
func (rn *sessionRunner) resume(x *session) {
	job := agents.Job{RunID: x.RunID, Spent: func(u agents.Usage) { rn.spent(x, u) }}
	out := rn.executor(x.thread.Executor).Run(x.ctx, job, func(begun agents.Started) { rn.placed(x, begun) })
	rn.conclude(x, x.redacted(out), true)
}

// inherits reports whether a run continues from the previous image.
func (rn *sessionRunner) inherits(run string) bool {
	return rn.inherited != nil && slices.Contains(rn.inherited.Runs(), run)
}
