package worlds

import (
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// TestBreakerAsInTheSupervisor compares the count of sessions without a backend in a world's ledger with that of its
// invariants. The simulator once reset the count at a usage limit in between, and the supervisor did not.
func TestBreakerAsInTheSupervisor(t *testing.T) {
	for _, tt := range []struct {
		third agents.Result
		downs int
	}{
		{agents.Limited, 3}, {agents.Cancelled, 3}, {agents.Failed, 1}, {agents.Done, 1},
	} {
		w := newWorld(1, nil)
		w.populate()
		w.shell.boot(true)
		thread := w.cfg.Threads[0].Name
		for _, result := range []agents.Result{agents.BackendDown, agents.BackendDown, tt.third, agents.BackendDown} {
			one := forge.Ref{Repo: "o/a", Number: 1}
			r := &run{Session: threads.Session{
				RunID: "run-" + w.clock(), Thread: thread, Agent: w.cfg.Agents[0].Name, Attempt: 1,
				Item: threads.Item{Kind: agents.KindIssue, Ref: one, Chain: one},
			}}
			w.shell.begun(r, threads.Key{})
			w.Now = w.Now.Add(time.Minute)
			w.shell.ended(r, agents.Outcome{Result: result, RetryAt: w.Now}, threads.NoEffect, forge.Commented, nil)
		}
		books, after := w.shell.books.Thread(thread), w.checks.after.downs[thread]
		if books.Downs != tt.downs || after != tt.downs {
			t.Errorf("%s in between: got %d in the ledger and %d in the invariants, want %d", tt.third, books.Downs, after,
				tt.downs)
		}
		if open := books.ParkedUntil.Equal(w.Now.Add(5 * time.Minute)); open != (tt.downs == 3) {
			t.Errorf("%s in between: breaker open = %v, want the opposite", tt.third, open)
		}
	}
}
