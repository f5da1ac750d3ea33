package process

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// newService returns a job of a service.
func newService(t *testing.T, script string) agents.Job {
	job := newJob(t, script)
	job.Service, job.Agent, job.ResultPath = "llama", "", ""
	return job
}

// A service keeps the supervisor's priority and oom_score_adj, because sessions wait for its model's answers.
func TestServiceIsUrgent(t *testing.T) {
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := runJob(t, newService(t, `nice; cat /proc/self/oom_score_adj; grep '^Max core' /proc/self/limits`))
	f := strings.Fields(o.Tail)
	if want := strconv.Itoa(20 - own); len(f) < 7 || f[0] != want ||
		f[1] != read("/proc/self/oom_score_adj") || f[6] != "0" {
		t.Errorf("the script printed %q, want %s, our own oom_score_adj, and no core file", o.Tail, want)
	}
}

// An agent with its own account can end neither a service nor its shim. The sweep after its session leaves both
// alone, even if the session's shim was killed.
func TestAgentCannotEndService(t *testing.T) {
	needRoot(t)
	service := background(t, newService(t, `touch $T/up; exec sleep 1000`))
	program := (<-service.started).PID
	eventually(t, "the service is up", func() bool { return exists(service.file("up")) })
	p, err := tree.Find(program)
	if err != nil {
		t.Fatal(err)
	}
	job := asStranger(t, `
		for s in TERM KILL STOP; do kill -$s `+itoa(program)+` `+itoa(p.PPID)+` && echo $s; done
		touch $HOME/tried; echo tried`)
	if o := runJob(t, job); !strings.HasSuffix(o.Tail, "\ntried") || strings.ContainsAny(o.Tail, "KTMS") {
		t.Errorf("the script printed %q, want no successful signal", o.Tail)
	}
	lost := background(t, asStranger(t, `touch $HOME/tried; sleep 1000`))
	runs, err := tree.Find((<-lost.started).PID)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its program runs", func() bool { return exists(filepath.Join(lost.job.Home, "tried")) })
	if err := unix.Kill(runs.PPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost.ended
	if now, err := tree.Find(program); err != nil || now.ID() != p.ID() || now.Dead() {
		t.Errorf("the service is %+v now, %v; want it alive and the same", now, err)
	}
	if o, _ := service.stop(); o.Result != agents.Cancelled {
		t.Errorf("the service ended too early: %+v", o)
	}
}
