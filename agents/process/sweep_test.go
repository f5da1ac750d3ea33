package process

import (
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// A process that starts in the same tick as the shim belongs to the session: the kernel counts starts in hundredths of
// a second, and a shim forks within one.
func TestSweepWithinATick(t *testing.T) {
	const id = "sweep-within-a-tick"
	c, err := reaper.Start("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{Env: []string{runIDVar + id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(c.PID, syscall.SIGKILL) })
	p, err := tree.Find(c.PID)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{exec: &Executor{Reaper: reaper}, shim: tree.ID{Start: p.Start}, job: agents.Job{RunID: id}}
	r.sweep(false)
	select {
	case <-c.Exit():
	case <-time.After(10 * time.Second):
		t.Error("the process runs after the sweep")
	}
}
