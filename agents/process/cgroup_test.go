package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFindCgroup(t *testing.T) {
	const (
		v1     = "35 24 0:30 / /sys/fs/cgroup/pids rw shared:15 - cgroup cgroup rw,pids\n"
		host   = "26 24 0:24 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = v1 + "26 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		bound  = "26 24 0:24 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
	)
	tests := []struct{ name, mounts, own, want string }{
		{"host", host, "0::/user.slice/x.scope\n", "/sys/fs/cgroup/user.slice/x.scope"},
		{"container with a namespace", host, "0::/\n", "/sys/fs/cgroup"},
		{"container without one", bound, "0::/docker/abc\n", "/sys/fs/cgroup"},
		{"below what is mounted", bound, "0::/docker/abc/sub\n", "/sys/fs/cgroup/sub"},
		{"beside what is mounted", bound, "0::/docker/abcd\n", ""},
		{"outside of the namespace", host, "0::/../other\n", ""},
		{"both versions", hybrid, "9:pids:/\n4:memory:/m\n0::/\n", "/sys/fs/cgroup/unified"},
		{"version 1 only", v1, "9:pids:/\n4:memory:/m\n", ""},
		{"not mounted", v1, "0::/\n", ""},
		{"a line that is cut", "26 24 0:24 - cgroup2 cgroup2 rw\n" + host, "0::/\n", "/sys/fs/cgroup"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := findCgroup(tt.mounts, tt.own); got != tt.want {
				t.Errorf("findCgroup = %q, want %q", got, tt.want)
			}
		})
	}
}

// withCgroup lets a test use cgroups, or skips it where there are none.
func withCgroup(t *testing.T) string {
	t.Helper()
	root := writableCgroup()
	if root == "" {
		t.Skip("no writable version 2 cgroup here")
	}
	cgroupRoot = func() string { return root }
	t.Cleanup(func() { cgroupRoot = func() string { return "" } })
	return root
}

func TestCgroup(t *testing.T) {
	root := withCgroup(t)
	job := newJob(t, "grep ^0: /proc/self/cgroup; (setsid sleep 1000 &); (setsid sleep 1000 &)")
	o := runJob(t, job)
	noneAlive(t, job.RunID)
	if !strings.HasSuffix(o.Tail, "/disinto-"+job.RunID) {
		t.Errorf("the program runs in %q, want its session's cgroup", o.Tail)
	}
	if exists(filepath.Join(root, "disinto-"+job.RunID)) {
		t.Error("the cgroup was not removed")
	}
}

func TestCgroupEndsWhatEscaped(t *testing.T) {
	withCgroup(t)
	for name, command := range map[string][]string{
		"escaped": nil,
		"hopping": helperCommand("hop", token()),
	} {
		t.Run(name, func(t *testing.T) {
			word := token()
			job := newJob(t, "")
			up := filepath.Join(filepath.Dir(job.Dir), "up")
			job.Command[2] = fmt.Sprintf(escape, word, up) + "sleep 1000"
			if command != nil {
				job.Command, up = command, job.LogPath
			}
			job.Grace = 50 * time.Millisecond
			r := background(t, job)
			<-r.started
			eventually(t, "the process has escaped", func() bool { return exists(up) })
			r.stop()
			noneAlive(t, word, job.RunID)
		})
	}
}

// A supervisor that is killed and never restarted leaves no cgroup behind.
func TestShimGivesCgroupBack(t *testing.T) {
	root := withCgroup(t)
	word, c, instance, _ := doomedSupervisor(t)
	path := filepath.Join(root, "disinto-"+instance+"-1")
	if !exists(path) {
		t.Fatal("there is no " + path)
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Exit()
	eventually(t, "the cgroup is removed", func() bool { return !exists(path) })
	noneAlive(t, word)
}

// After the shim was killed, the cgroup still holds the tree.
func TestStaleCgroup(t *testing.T) {
	root := withCgroup(t)
	instance, word := token(), token()
	c := newCgroup(instance + "-1")
	if !c.ok {
		t.Fatal("newCgroup made no cgroup")
	}
	child := spawn(t, "exec sh -c 'while :; do sleep 0.1; done' "+word)
	if err := os.WriteFile(filepath.Join(c.path, "cgroup.procs"), []byte(itoa(child.PID)), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.empty() {
		t.Error("empty() is true for a cgroup with a process")
	}
	if _, err := endStale(t.Context(), instance, new(Executor).known); err != nil {
		t.Fatal(err)
	}
	<-child.Exit()
	// A sleep that was forked before its shell entered the cgroup ends by itself.
	eventually(t, "no process is left", func() bool { return len(alive(t, word)) == 0 })
	if exists(filepath.Join(root, "disinto-"+instance+"-1")) {
		t.Error("the cgroup was not removed")
	}
}

// Kernels before 5.14 have no cgroup.kill.
func TestCgroupKillByFreezing(t *testing.T) {
	withCgroup(t)
	c := newCgroup("i" + token())
	if !c.ok {
		t.Fatal("newCgroup made no cgroup")
	}
	child := spawn(t, "exec sleep 1000")
	if err := c.write("cgroup.procs", itoa(child.PID)); err != nil {
		t.Fatal(err)
	}
	c.killFrozen()
	<-child.Exit()
	eventually(t, "the cgroup is empty", c.empty)
	c.remove()
	if exists(c.path) {
		t.Error("the cgroup was not removed")
	}
}
