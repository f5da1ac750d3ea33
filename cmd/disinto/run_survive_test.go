package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A factory works in each of these containers, and stops on a signal. $STATE is the only folder that it can count on.
// The script's first argument is a full pipe.
func TestRunSurvives(t *testing.T) {
	const contained = "unshare --pid --mount --fork --mount-proc --kill-child"
	tests := []struct {
		name   string
		inside string // a command that runs the script
		script string // "$@" is the supervisor
		storm  bool   // only in make check
	}{
		{"log without a reader", "", `pipe=$1; shift; exec "$@" >"$pipe" 2>&1`, false},
		{"closed output", "", `shift; exec "$@" >&- 2>&-`, true},
		{"broken pipe", "", `shift; { "$@" 2>&1; echo $? >$STATE/code; } | true; exit $(cat $STATE/code)`, true},
		{"hidepid", contained, `shift; mount -o remount,hidepid=2 /proc && exec "$@"`, true},
		{
			"read-only root", contained,
			`shift; mount --bind $STATE $STATE && mount -o remount,bind,ro / && ! touch /tmp/x 2>/dev/null && exec "$@"`, true,
		},
		{"bare /dev", contained, `shift; mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.inside != "" && os.Geteuid() != 0 {
				t.Skip("needs root, to make namespaces")
			}
			if tt.storm && !storms() {
				t.Skip("make check runs it")
			}
			f := newTestForge(t)
			state, self := t.TempDir(), executable(t)
			path := f.file(state, append(f.justOne(), `"demo-agent"`, `"demo-agent", "--think", "1h"`)...)
			argv := append(strings.Fields(tt.inside), "sh", "-c", tt.script, "sh", fullPipe(t), self, "run", "--yes",
				"--config", path)
			r := start(t, append(f.environ(nil), "STATE="+state), argv...)
			d := status(t, state, "an agent works", working)
			pid := d.PID
			if tt.inside != "" {
				pid = onlyChild(t, r)
			}
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(); code != exitDone {
				t.Errorf("got exit code %d, want 0", code)
			}
		})
	}
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// fullPipe returns the path of a full pipe whose reader does not read.
func fullPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	for block := make([]byte, 4096); err == nil; {
		_, err = unix.Write(fd, block)
	}
	return path
}

// onlyChild returns the pid of the process that unshare forked.
func onlyChild(t *testing.T, r *running) int {
	t.Helper()
	pid := 0
	eventually(t, "unshare has a child", func() bool {
		pid, _ = strconv.Atoi(strings.TrimSpace(r.read("/proc/" + itoa(r.pid) + "/task/" + itoa(r.pid) + "/children")))
		return pid > 0
	})
	return pid
}
