package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// A log that was deleted or moved away while its program runs is made again with the next output, and belongs to the
// program's account. The old file gets no more, and nobody holds it open.
func TestLogIsMadeAgain(t *testing.T) {
	for _, user := range []string{"", stranger} {
		if user != "" {
			needRoot(t)
		}
		const script = `n=0; while :; do n=$((n+1)); echo line $n; sleep 0.02; done`
		job := newService(t, script)
		job.User = user
		service := background(t, job)
		program := (<-service.started).PID
		lines := func() bool { return strings.Count(read(job.LogPath), "\n") > 0 }
		eventually(t, "it prints", lines)
		if err := os.Remove(job.LogPath); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the deleted log is there again", lines)
		if first, _, _ := strings.Cut(read(job.LogPath), "\n"); first == "line 1" {
			t.Error("the new log begins with the first line again")
		}
		moved := job.LogPath + ".1"
		if err := os.Rename(job.LogPath, moved); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the moved log is there again", lines)
		before := read(moved)
		more := read(job.LogPath)
		eventually(t, "it goes on", func() bool { return read(job.LogPath) != more })
		if read(moved) != before {
			t.Error("the log that was moved away still grows")
		}
		p, err := tree.Find(program)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range []string{"1", "2"} {
			if to, err := os.Readlink("/proc/" + itoa(p.PPID) + "/fd/" + fd); err != nil || to != job.LogPath {
				t.Errorf("the shim's descriptor %s is %s, %v, want the new log", fd, to, err)
			}
		}
		was, is := stat(t, filepath.Dir(job.Dir)+"/home"), stat(t, job.LogPath)
		if was.Uid != is.Uid {
			t.Errorf("the new log belongs to %d, want %d, the program's account", is.Uid, was.Uid)
		}
		service.stop()
	}
}

func stat(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Stat(path, &st); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return st
}

// A program with its own signal to stop gets that alone. Its child gets nothing until the program has ended, and then
// TERM.
func TestStopSignal(t *testing.T) {
	t.Parallel()
	job := newService(t, `
		sh -c 'trap "echo child INT" INT; trap "echo child TERM; exit" TERM; touch $T/child; while :; do sleep 0.01; done' &
		trap 'echo program TERM' TERM
		trap 'echo program INT; sleep 0.3; exit 0' INT
		touch $T/up
		while :; do sleep 0.01; done`)
	job.StopSignal = "INT"
	service := background(t, job)
	<-service.started
	eventually(t, "both are up", func() bool { return exists(service.file("up")) && exists(service.file("child")) })
	service.stop()
	said := strings.ReplaceAll(read(job.LogPath), "Terminated\n", "") // the child's shell, about its sleep
	if got, want := said, "program INT\nchild TERM"; got != want {
		t.Errorf("the two printed %q, want %q", got, want)
	}
}

// A closed Hurry ends a grace, but does not end a program that nobody has asked to end.
func TestHurriedService(t *testing.T) {
	t.Parallel()
	hurry := make(chan struct{})
	job := newService(t, `trap 'touch $T/asked' TERM; touch $T/up; while :; do sleep 0.01; done`)
	job.Grace, job.Hurry = time.Hour, hurry
	service := background(t, job)
	<-service.started
	eventually(t, "it is up", func() bool { return exists(service.file("up")) })
	service.cancel(nil)
	eventually(t, "it is asked to end", func() bool { return exists(service.file("asked")) })
	close(hurry)
	if o := <-service.ended; o.Result != agents.Cancelled {
		t.Errorf("got %+v, want cancelled", o)
	}
	if o := runJob(t, newHurried(t, hurry)); o.Result != agents.Done {
		t.Errorf("a program that nobody ended: got %+v, want done", o)
	}
}

func newHurried(t *testing.T, hurry chan struct{}) agents.Job {
	job := newService(t, `sleep 0.1`)
	job.Hurry = hurry
	return job
}
