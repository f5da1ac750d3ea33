package process

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A program is held before its first action until the thread that started it has ended, and then continues.
func TestHeldUntilThreadEnds(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	end, started := make(chan struct{}), make(chan startedProgram)
	thread := 0
	onThread(func() {
		thread = unix.Gettid()
		attr := &syscall.ProcAttr{Env: []string{"PATH=" + os.Getenv("PATH")}, Sys: &syscall.SysProcAttr{}}
		started <- forkUnreaped("/bin/sh", []string{"sh", "-c", "echo runs >" + mark}, attr)
		<-end
	})
	b := <-started
	if b.err != nil || !b.held {
		t.Fatalf("fork = %+v, want a held program", b)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); continueAfter(b.pid, thread) }()
	status := "/proc/" + itoa(b.pid) + "/status"
	eventually(t, "the program is stopped", func() bool {
		text, err := os.ReadFile(status)
		return err == nil && strings.Contains(string(text), "State:\tT (stopped)")
	})
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran while the thread existed")
	}
	close(end)
	<-gone
	eventually(t, "the program runs", func() bool { _, err := os.Stat(mark); return err == nil })
}

// forkUnreaped starts a held program while this test process's reaper collects nothing. A shim starts its program
// before it reaps, because wait4(-1) would consume the stop of a traced child that fork waits for.
func forkUnreaped(path string, argv []string, attr *syscall.ProcAttr) startedProgram {
	reaper.mu.Lock()
	defer reaper.mu.Unlock()
	return fork(path, argv, attr, true)
}

// A program that cannot be started gives the reason, held or not.
func TestHeldMissing(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := &syscall.ProcAttr{Sys: &syscall.SysProcAttr{}}
	if b := forkUnreaped("/nowhere", []string{"nowhere"}, attr); b.err != syscall.ENOENT || b.held {
		t.Errorf("fork = %+v, want ENOENT", b)
	}
}
