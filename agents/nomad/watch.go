package nomad

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// watchPause separates two queries, so that a burst of changes is read at once.
const watchPause = 50 * time.Millisecond

// safely runs f and reports a panic, which would otherwise end PID 1. The work of f stays undone, and the session
// notices that without help.
func (e *Executor) safely(what string, f func()) {
	defer func() {
		if v := recover(); v != nil {
			e.report(&forge.Panic{What: what, Value: v, Stack: debug.Stack()})
		}
	}()
	f()
}

// api returns the executor's client, which reuses connections.
func (e *Executor) api() *client {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		e.client = newClient(e.Config)
	}
	return e.client
}

// addSession adds a session. It returns false if the run has one already. The first session starts the watch.
func (e *Executor) addSession(s *session) bool {
	s.client = e.api()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sessions == nil {
		e.sessions = map[string]*session{}
	}
	if e.sessions[s.id] != nil {
		return false
	}
	e.sessions[s.id] = s
	if e.stopWatch == nil {
		ctx, stop := context.WithCancel(context.Background())
		e.stopWatch = stop
		go e.safely("the watch of Nomad", func() { e.watch(ctx) })
	}
	return true
}

// removeSession removes a session. The last one stops the watch.
func (e *Executor) removeSession(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s.id)
	if len(e.sessions) == 0 && e.stopWatch != nil {
		e.stopWatch()
		e.stopWatch = nil
	}
}

// watch wakes sessions whose job has changed, with one blocking query for all of them. If it misses a change because
// the cluster does not answer, the session's own polling finds it.
func (e *Executor) watch(ctx context.Context) {
	seen, index, pause := map[string]string{}, uint64(0), watchPause
	for ctx.Err() == nil {
		jobs, next, err := e.api().in(everywhere).listJobs(ctx, jobPrefix, index)
		if err != nil {
			pause = min(2*pause, 2*time.Second)
		} else {
			if pause = watchPause; next < index { // a lower index: the servers were set up again
				next = 0
			}
			index, seen = next, e.wakeChanged(seen, jobs)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// wakeChanged wakes the sessions whose job changed or disappeared, and returns the current state of all jobs.
func (e *Executor) wakeChanged(seen map[string]string, jobs []stub) (now map[string]string) {
	now = make(map[string]string, len(jobs))
	for _, j := range jobs {
		now[j.ID] = fmt.Sprint(j.ModifyIndex, " ", j.JobSummary.ModifyIndex)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, s := range e.sessions {
		if now[id] != seen[id] {
			s.unlisted.Store(now[id] == "")
			s.wake()
		}
	}
	return now
}

// wake makes a session check its allocations.
func (s *session) wake() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}
