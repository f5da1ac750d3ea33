package pid1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// as runs the init under another name, and returns its exit code and output.
func as(t *testing.T, name, environ string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := &exec.Cmd{
		Path: program(t, "subreaper"), Args: append([]string{"/sbin/" + name}, args...),
		Env: append(os.Environ(), environ), Stdout: &out, Stderr: &errs,
		WaitDelay: 100 * time.Millisecond, // leftovers hold the pipes open
	}
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// An image with tini or dumb-init keeps its options. The exit codes and texts are those of the two programs.
func TestOtherNames(t *testing.T) {
	usage := strings.ReplaceAll(tiniUsage, "NAME", "tini")
	tests := []struct {
		name, environ  string
		args           string
		code           int
		stdout, stderr string // a part of the output; "" means no output
	}{
		{name: "tini", args: "-s -- sh -c exit\t7", code: 7},
		{name: "tini", args: "-s -e 7 -e143 sh -c exit\t7"},
		{name: "tini", args: "-s -e 7 -e143 sh -c kill\t$$"},
		{name: "tini", args: "-e 256 true", code: 1, stderr: "Not a valid option for -e: 256"},
		{name: "tini", args: "-p SIGFOO true", code: 1, stderr: "Not a valid option for -p: SIGFOO"},
		{name: "tini", args: "-x true", code: 1, stderr: "invalid option -- 'x'\n" + usage},
		{name: "tini", args: "-e", code: 1, stderr: "option requires an argument -- 'e'\n" + usage},
		{name: "tini", code: 1, stderr: usage},
		{name: "tini", args: "-h", stdout: usage},
		{name: "tini", args: "--version", stdout: "tini version 0.19.0\n"},
		{name: "tini", args: "-s /no/such", code: 127, stderr: "exec /no/such failed: No such file or directory\n"},
		{name: "tini", args: "-s /etc/passwd", code: 126, stderr: "exec /etc/passwd failed: Permission denied\n"},
		{name: "tini", args: "-s /etc/passwd/x", code: 1, stderr: "exec /etc/passwd/x failed: Not a directory\n"},
		{name: "tini", args: "true", stderr: "zombie reaping won't work."},
		{name: "tini", args: "true", environ: "TINI_SUBREAPER="},
		{
			name: "tini", args: "-s true", environ: "TINI_VERBOSITY=2",
			stdout: "Main child exited normally (with status '0')\n",
		},
		{name: "tini", args: "-svv true", stdout: "Spawned child process 'true' with pid '"},
		{name: "tini", args: "-sw sh -c (sleep\t0.1&);sleep\t0.5", stderr: "Reaped zombie process with pid="},
		{name: "dumb-init", args: "sh -c exit\t7", code: 7},
		{name: "dumb-init", args: "-c -r 15:2 --rewrite=1:0 --rewrite 2:3 -- sh -c exit\t7", code: 7},
		{name: "dumb-init", args: "-r 1:32 true", code: 1, stderr: dumbInitRewrite},
		{name: "dumb-init", args: "--yolo true", code: 1, stderr: "/sbin/dumb-init: unrecognized option '--yolo'\n"},
		{name: "dumb-init", args: "--verbose=1 true", code: 1, stderr: "unrecognized option"},
		{name: "dumb-init", code: 1, stderr: "Usage: /sbin/dumb-init [option] program [args]\n"},
		{name: "dumb-init", args: "-h", stderr: dumbInitVersion + "Usage: /sbin/dumb-init" + dumbInitUsage},
		{name: "dumb-init", args: "--version", stderr: dumbInitVersion},
		{name: "dumb-init", args: "/no/such", code: 2, stderr: "[dumb-init] /no/such: No such file or directory\n"},
		{name: "dumb-init", args: "-v true", stderr: "[dumb-init] Child exited with status 0. Goodbye.\n"},
		{name: "dumb-init", args: "true", environ: "DUMB_INIT_DEBUG=1", stderr: "[dumb-init] setsid complete.\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.args+" "+tt.environ, func(t *testing.T) {
			var args []string
			for word := range strings.FieldsFuncSeq(tt.args, func(r rune) bool { return r == ' ' }) {
				args = append(args, strings.ReplaceAll(word, "\t", " "))
			}
			code, stdout, stderr := as(t, tt.name, tt.environ, args...)
			fits := func(said, part string) bool { return said == part || part != "" && strings.Contains(said, part) }
			if code != tt.code || !fits(stdout, tt.stdout) || !fits(stderr, tt.stderr) {
				t.Errorf("exit code %d, want %d; it printed %q and %q", code, tt.code, stdout, stderr)
			}
		})
	}
}

// Only tini -g and dumb-init without -c signal the command's group. The cases differ only in that.
func TestOtherNamesSignal(t *testing.T) {
	const script = `trap 'exit 3' TERM; (trap 'echo child >>$LINES; exit' TERM; echo up >>$LINES; while :; do sleep 0.01; done) &
		while [ ! -e $LINES ]; do sleep 0.01; done; kill -TERM $PPID; while :; do sleep 0.01; done`
	for args, group := range map[string]bool{
		"tini": false, "tini -g": true, "dumb-init": true, "dumb-init -c": false,
		"tini TINI_KILL_PROCESS_GROUP=1": true, "dumb-init DUMB_INIT_SETSID=0": false,
	} {
		t.Run(args, func(t *testing.T) {
			lines := filepath.Join(t.TempDir(), "lines")
			t.Setenv("LINES", lines)
			words := strings.Fields(args)
			environ := "NONE=1"
			if n := len(words) - 1; strings.Contains(words[n], "=") {
				environ, words = words[n], words[:n]
			}
			code, _, stderr := as(t, words[0], environ, append(words[1:], "sh", "-c", script)...)
			if code != 3 {
				t.Errorf("exit code %d, want 3: %s", code, stderr)
			}
			if group {
				eventually(t, "the child got the signal", func() bool { return strings.HasSuffix(read(lines), "child\n") })
			} else if got := read(lines); got != "up\n" {
				t.Errorf("the child got a signal: %q, want none", got)
			}
			(&started{lines: lines}).killAll()
		})
	}
}

// As tini and dumb-init, we end with the command and leave other processes to themselves, so that a container ends at
// once.
func TestOtherNamesLeaveLeftovers(t *testing.T) {
	const script = `(trap '' TERM; echo up >>$LINES; while :; do sleep 0.01; done) >/dev/null 2>&1 &
		while [ ! -e $LINES ]; do sleep 0.01; done; exit 3`
	for _, name := range []string{tini, dumbInit} {
		lines := filepath.Join(t.TempDir(), "lines")
		t.Setenv("LINES", lines)
		cmd := exec.Command(executable(t), "inherit", "orphans", name+"="+program(t, "subreaper"), "sh", "-c", script)
		if out, err := cmd.CombinedOutput(); exitCodeOf(err) != 3 {
			t.Errorf("%s: %v, want exit code 3\n%s", name, err, out)
		}
		if (&started{lines: lines}).killAll() == 0 {
			t.Errorf("%s: the leftover was ended", name)
		}
	}
}

// tini -p delivers the death of tini's parent to the command as a signal.
func TestParentDeath(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "lines")
	cmd := exec.Command("sh", "-c", `(exec -a tini "$0" -s -p SIGUSR1 -- sh -c 'trap "echo usr1 >>$LINES; exit" USR1
		echo $$ >>$LINES; while :; do sleep 0.01; done') & until [ -s $LINES ]; do sleep 0.01; done; kill -KILL $$`, program(t, "subreaper"))
	cmd.Args[0], cmd.Path = "bash", "/bin/bash"
	cmd.Env = append(os.Environ(), "LINES="+lines)
	if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("error %v, want a kill by SIGKILL", err)
	}
	eventually(t, "the command has got the signal", func() bool { return strings.HasSuffix(read(lines), "usr1\n") })
	pid, _ := strconv.Atoi(strings.Fields(read(lines))[0])
	eventually(t, "tini has ended", func() bool { return state(pid) == "" || state(pid) == "Z" })
}

func FuzzOptions(f *testing.F) {
	f.Add("-svve 7 --rewrite=1:2 -r 15:3 -- sh")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		rest, wrong := options(args, "hvwgls", "per", map[string]byte{"rewrite": 'r', "help": 'h'},
			func(byte, string) bool { return true })
		if wrong == "" && len(rest) > len(args) {
			t.Errorf("options of %q left %q, which is longer", args, rest)
		}
	})
}
