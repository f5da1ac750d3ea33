package process

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// reaper is the only one of this test process.
var reaper *Reaper

// TestMain also makes the test binary run the programs that tests start: see helpers_test.go.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "test-helper" {
		syscall.Exit(runHelper(os.Args[2], os.Args[3:])) // os.Exit sleeps for a second under the race detector
	}
	var err error
	if reaper, err = NewReaper(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cgroupRoot = func() string { return "" } // the shim alone must suffice; TestCgroup restores it
	_ = flag.Set("test.parallel", "8")       // parallel tests mostly wait
	os.Exit(m.Run())
}

// storm returns the number of processes or tries: all in make check, which sets DISINTO_STORMS, and part of them in
// make test, where the race detector slows each down tenfold.
func storm(all, part int) int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return all
	}
	return part
}

var serial atomic.Int64

// token returns a word that no other process has among its arguments.
func token() string {
	return fmt.Sprintf("tok%dx%dx%d", os.Getpid(), serial.Add(1), time.Now().UnixNano())
}

// newJob returns a session of a shell script in fresh folders, which an account without rights can reach.
func newJob(t *testing.T, script string) agents.Job {
	t.Helper()
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	id := "i" + token()
	result := filepath.Join(dir, "result", "result.json")
	return agents.Job{
		RunID: id, Agent: "dev-test", Kind: agents.KindIssue, Repo: "o/r", Number: 1,
		Command:    []string{"/bin/sh", "-c", script},
		Dir:        filepath.Join(dir, "work"),
		Home:       filepath.Join(dir, "home"),
		Env:        []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + id, "DISINTO_RESULT=" + result, "T=" + dir},
		LogPath:    filepath.Join(dir, "logs", "run.log"),
		MaxLog:     64 << 20,
		ResultPath: result,
		Grace:      5 * time.Second,
	}
}

// helperCommand returns the command line with which this test binary runs a helper.
func helperCommand(name string, args ...string) []string {
	return append([]string{"/proc/self/exe", "test-helper", name}, args...)
}

// eventually polls, because a process has no channel to wait on. The deadline allows for ten other jobs on the
// machine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still false after a minute: %s", what)
		}
	}
}

// alive returns the living processes that have word among their arguments or in their environment. It shares no code
// with the code under test.
func alive(t *testing.T, word string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		args, _ := os.ReadFile(d + "/cmdline")
		for range 1000 { // neither can be read in execve: 1 of 75 strangers seemed dead
			if _, err := os.Readlink(d + "/exe"); err != nil || len(args) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
			args, _ = os.ReadFile(d + "/cmdline")
		}
		env, _ := os.ReadFile(d + "/environ")
		if pid != os.Getpid() && (bytes.Contains(args, []byte(word)) || bytes.Contains(env, []byte(word))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// noneAlive checks that no process with one of the words is left.
func noneAlive(t *testing.T, words ...string) {
	t.Helper()
	for _, w := range words {
		if pids := alive(t, w); len(pids) > 0 {
			for _, pid := range pids {
				args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("process %d is still alive: %q", pid, args)
			}
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
}

// read returns the text of a file; empty if it cannot be read.
func read(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func itoa(n int) string { return strconv.Itoa(n) }
