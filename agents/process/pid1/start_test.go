package pid1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExitCode(t *testing.T) {
	codes, signals := []int{0, 1, 255, 2, 77, 126, 127, 128}, []int{9, 15, 1, 3, 11, 40}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			codes, signals := codes, signals
			if mode != "subreaper" {
				codes, signals = codes[:storm(len(codes), 3)], signals[:storm(len(signals), 2)]
			}
			for _, code := range codes {
				start(t, mode, "sh", "-c", "exit "+strconv.Itoa(code)).expect(code)
			}
			for _, sig := range signals {
				start(t, mode, "sh", "-c", "kill -"+strconv.Itoa(sig)+" $$").expect(128 + sig)
			}
		})
	}
}

// A command that cannot be started gives a shell's exit code and one line of error.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	t.Setenv("PATH", dir+"/plain:"+dir+":"+good+":"+os.Getenv("PATH"))
	for _, folder := range []string{good, filepath.Join(dir, "folder")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		command string
		code    int
		says    string
	}{
		{"no-such-program-9", 127, "disinto: cannot run no-such-program-9: no such file or directory\n"},
		{dir + "/none", 127, "disinto: cannot run " + dir + "/none: no such file or directory\n"},
		{write("odd", "#!/no/such/shell\n", 0o755), 127, "disinto: cannot run " + dir + "/odd: no such file or directory\n"},
		{dir, 126, "disinto: cannot run " + dir + ": permission denied\n"},
		{write("plain", "exit 0\n", 0o644), 126, "disinto: cannot run " + dir + "/plain: permission denied\n"},
		{write("closed", "exit 0\n", 0o644)[len(dir)+1:], 126, "disinto: cannot run closed: permission denied\n"},
		{write("script", "exit 9\n", 0o755), 9, ""}, // without #!, as with execvp
		{"script", 9, ""},
		// The search goes on after a file that cannot be executed, and after a file in the place of a folder.
		{write("good/odd", "exit 4", 0o755)[len(good)+1:], 4, ""},
		{write("good/folder", "exit 5", 0o755)[len(good)+1:], 5, ""},
		{write("good/plain", "exit 6", 0o755)[len(good)+1:], 6, ""},
	}
	for _, tt := range tests {
		s := start(t, "subreaper", tt.command)
		s.expect(tt.code)
		if s.errors.String() != tt.says {
			t.Errorf("%s: it printed %q, want %q", tt.command, s.errors.String(), tt.says)
		}
	}
}

// The command starts as it would without us, except for its place in the process tree.
func TestCommandFindsItsPlace(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("WORD", "two  blanks")
	const script = `#!/bin/sh
		echo "$WORD" "$@"; pwd; readlink /proc/$PPID/cwd; cat /proc/$PPID/comm
		[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leads`
	if err := os.WriteFile("here", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := start(t, "subreaper", "./here", "-c", "--", "--grace")
	s.expect(0)
	if want := "two  blanks -c -- --grace\n" + dir + "\n/\ndisinto\nleads\n"; s.out.String() != want {
		t.Errorf("the command printed %q, want %q", s.out.String(), want)
	}
}

// A signal that was ignored when we started stays ignored in the command, so that nohup works through us.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	ignored := func(how string) string {
		out, err := exec.Command("sh", "-c", "trap '' HUP INT TSTP; "+how+" grep SigIgn /proc/self/status").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := ignored("")
	if got := ignored(program(t, "subreaper") + " exec"); got != want {
		t.Errorf("through us %q, without us %q", got, want)
	}
}

// These tests pass under nohup too.
func TestUnderNohup(t *testing.T) {
	t.Parallel()
	again := exec.Command("sh", "-c", `trap '' HUP INT; exec "$0" -test.run='^TestExitCode$/plain'`, executable(t))
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// While the machine has no room for another process, the start waits, and prints the reason.
func TestNoRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become a user with a limit")
	}
	cmd := exec.Command("/proc/self/exe", "no-room")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%v, want exit code 7", err)
	}
	const want = "disinto: cannot run sh: resource temporarily unavailable: no room for another process" +
		" (is there a pids limit?), trying again for 1m0s\n"
	if said.String() != want {
		t.Errorf("it printed %q, want %q once", said.String(), want)
	}
}

// noRoom is an init whose user may temporarily start no more processes.
func noRoom() int {
	const nproc = 6
	StartThreads(8)                    // otherwise the runtime dies when it gets no thread
	time.Sleep(100 * time.Millisecond) // the runtime may be starting one more
	var old syscall.Rlimit
	_ = syscall.Getrlimit(nproc, &old)
	_ = syscall.Setrlimit(nproc, &syscall.Rlimit{Cur: 1, Max: old.Max})
	time.AfterFunc(4*StartPause, func() { _ = syscall.Setrlimit(nproc, &old) })
	return run(Options{Command: []string{"sh", "-c", "exit 7"}})
}

// An early TERM is not lost, whether it arrives before the command starts, during its start, or after it. In a plain
// program the runtime ends the process in the millisecond between its handlers and ours.
func TestEarlyTERM(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			for i := 0; i < 20; i += storm(1, 6) {
				s := start(t, mode, "sleep", "1000")
				time.Sleep(time.Duration(i) * 500 * time.Microsecond)
				eventually(t, "it handles TERM, or has ended", func() bool {
					// Unshare blocks TERM too, before it becomes the init.
					exe, _ := os.Readlink("/proc/" + strconv.Itoa(s.pid) + "/exe")
					return exe == program(t, mode) && handles(s.pid, syscall.SIGTERM) || state(s.pid) == ""
				})
				_ = syscall.Kill(s.pid, syscall.SIGTERM)
				if code := s.wait(); code != 128+15 {
					t.Errorf("exit code %d, want 143\n%s", code, s.errors.String())
				}
			}
		})
	}
}

// bashGaveUp is the exit code of a bash that cannot fork. It tries again after a second, unless a signal wakes it, such
// as that of a child's end.
const bashGaveUp = 254

// An init at the process limit starts no thread: those from before its command's start suffice.
func TestNoRoomForThreads(t *testing.T) {
	// The command takes all available processes from its first moment on, while its init waits, reaps and passes signals
	// on.
	const hog = `trap '' USR1; for i in $(seq 30); do sleep 0.2 & done 2>/dev/null
		for i in $(seq 20); do kill -USR1 $PPID; done; kill -WINCH $PPID; while ! wait; do :; done; exit 7`
	for _, max := range []string{"7", "20", "9", "11"}[:storm(4, 2)] {
		t.Run(max, func(t *testing.T) {
			t.Parallel()
			group := "/sys/fs/cgroup/pids/disinto-" + strconv.Itoa(os.Getpid()) + "-" + max
			if os.Mkdir(group, 0o700) != nil || os.WriteFile(group+"/pids.max", []byte(max), 0o600) != nil {
				t.Skip("cannot limit processes here")
			}
			defer func() { eventually(t, "the cgroup is empty", func() bool { return os.Remove(group) == nil }) }()
			for range 20 {
				cmd := exec.Command("sh", "-c", `echo $$ >`+group+`/cgroup.procs; exec "$@"`, "sh",
					program(t, "PID 1"), "exec", "bash", "-c", hog)
				out, _ := cmd.CombinedOutput()
				code := cmd.ProcessState.ExitCode()
				if code == bashGaveUp {
					continue
				}
				if code != 7 {
					t.Errorf("exit code %d, want 7\n%.300s", code, out)
				}
				return
			}
			t.Error("bash gave up 20 times")
		})
	}
}

// Where the init cannot work, it says so. With a lower limit Go's runtime itself may end the process.
func TestPidsLimitTooLow(t *testing.T) {
	group := "/sys/fs/cgroup/pids/disinto-" + strconv.Itoa(os.Getpid()) + "-low"
	if os.Mkdir(group, 0o700) != nil || os.WriteFile(group+"/pids.max", []byte("5"), 0o600) != nil {
		t.Skip("cannot limit processes here")
	}
	defer func() { eventually(t, "the cgroup is empty", func() bool { return os.Remove(group) == nil }) }()
	for _, mode := range modes {
		const want = "disinto: cannot run true: the pids limit is 5, and the init and one process need 6\n"
		var out []byte
		var err error
		for range 20 { // on a busy machine, Go's runtime may need the fifth thread before the init has looked
			cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind `+group+` /sys/fs/cgroup/pids &&
				echo $$ >/sys/fs/cgroup/pids/cgroup.procs && exec "$@"`, "sh", program(t, mode), "exec", "true")
			if out, err = cmd.CombinedOutput(); !strings.Contains(string(out), "pthread_create failed") {
				break
			}
		}
		if exitCodeOf(err) != 1 || string(out) != want {
			t.Errorf("%s: %v, %.300q; want exit code 1 and %q", mode, err, out, want)
		}
	}
}

// Go's runtime obeys GODEBUG, which is for the command alone: schedtrace would print a line of the init every second.
func TestGODEBUGIsForTheCommand(t *testing.T) {
	t.Setenv("GODEBUG", "madvdontneed=0")
	for _, mode := range modes {
		s := start(t, mode, "sh", "-c", `echo $GODEBUG; tr '\0' '\n' </proc/$PPID/environ | grep ^GODEBUG`)
		s.expect(1)
		if got := s.out.String(); got != "madvdontneed=0\n" {
			t.Errorf("%s: the command and the init have GODEBUG %q, want only the command", mode, got)
		}
	}
}

// handles reports whether the process has a handler for the signal, or takes it from the kernel: then all threads
// block it except the one that waits for it.
func handles(pid int, sig syscall.Signal) bool {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/status")
	return slices.ContainsFunc(threads, func(path string) bool {
		return slices.ContainsFunc([]string{"SigCgt", "SigBlk"}, func(set string) bool {
			_, mask, _ := strings.Cut(read(path), set+":\t")
			mask, _, _ = strings.Cut(mask, "\n")
			bits, err := strconv.ParseUint(mask, 16, 64)
			return err == nil && bits&(1<<(sig-1)) != 0
		})
	})
}
