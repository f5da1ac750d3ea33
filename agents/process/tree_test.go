package process

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/tree"
)

func TestSignalOnlyTheSameProcess(t *testing.T) {
	c := spawn(t, "read x", pipe(t))
	p, _ := tree.Find(c.PID)
	stale := p
	stale.Start--
	if err := stale.Signal(unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("for a process with another one's number: %v, want ESRCH", err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	<-c.Exit()
	if err := p.Signal(unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("for a process that has ended: %v, want ESRCH", err)
	}
}

func TestTreeCPUCountsTheDead(t *testing.T) {
	c := spawn(t, "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done'; kill -STOP $$")
	eventually(t, "the work is done", func() bool { p, _ := tree.Find(c.PID); return p.State == 'T' })
	if cpu := tree.CPU(c.PID); cpu < 20*time.Millisecond {
		t.Errorf("CPU = %v, want at least the 20 ms of the collected child", cpu)
	}
	_ = unix.Kill(c.PID, unix.SIGKILL)
	<-c.Exit()
}

// A killed process whose parent does not wait for it stays a zombie. A zombie does not count as living.
func TestKillOnceIgnoresZombies(t *testing.T) {
	c := spawn(t, "sh -c 'exit 0' & exec sleep 1000")
	eventually(t, "there is a zombie", func() bool {
		members, _ := tree.Of(c.PID)
		return slices.ContainsFunc(members, tree.Process.Dead)
	})
	hunt := tree.Killer{Member: func(p tree.Process) bool { return p.PPID == c.PID }}
	got, err := hunt.KillOnce()
	if err != nil || got != 0 {
		t.Errorf("KillOnce met %d, %v, want 0", got, err)
	}
	_ = unix.Kill(c.PID, unix.SIGKILL)
	<-c.Exit()
}
