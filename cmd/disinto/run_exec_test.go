package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/process"
)

// TestExecUsage checks the command lines that package pid1 leaves to main: the wrong ones.
func TestExecUsage(t *testing.T) {
	for args, want := range map[string]string{
		"exec":                "disinto: usage: disinto exec [--] COMMAND... [flags]\n",
		"exec --frob ls":      "disinto: unknown flag: --frob (disinto help exec)\n",
		"exec --grace=-1s ls": "disinto: --grace -1s: want a time that is not negative\n",
		"exec --rewrite 1:x ls": `disinto: invalid argument "1:x" for "-r, --rewrite" flag: write it as TERM:QUIT or 15:3; ` +
			`0 on the right drops the signal (disinto help exec)` + "\n",
	} {
		got := disinto(t.Context(), nil, strings.Fields(args)...)
		if got.code != exitUsage || got.stderr != want {
			t.Errorf("disinto %s: got exit code %d, %q, want %q", args, got.code, got.stderr, want)
		}
	}
}

// A valid command line in an unusual form is parsed by main, and works.
func TestExecTheLongWay(t *testing.T) {
	r := startDisinto(t, nil, "exec", "-cr15:3", "--", "sh", "-c", "echo $0 $1; exit 7", "-r", "--")
	if code := r.wait(); code != 7 || r.read(r.stdout) != "-r --\n" {
		t.Errorf("got exit code %d, output %q\n%s", code, r.read(r.stdout), r.read(r.stderr))
	}
}

// exec runs before most of the program is initialised, which would take 5 ms and 5 MiB. One more import in package
// pid1 can undo that, so some large packages must not be initialised.
func TestExecComesFirst(t *testing.T) {
	r := startDisinto(t, []string{"GODEBUG=inittrace=1"}, "exec", "--", "true")
	if code := r.wait(); code != 0 {
		t.Fatalf("got exit code %d\n%s", code, r.read(r.stderr))
	}
	trace := r.read(r.stderr)
	for name, want := range map[string]bool{"os": true, "crypto/tls": false, "encoding/json": false, "regexp": false} {
		if strings.Contains(trace, "init "+name+" @") != want {
			t.Errorf("package %s was initialised: %v, want %v\n%s", name, !want, want, trace)
		}
	}
}

// docker run IMAGE ls runs ls. A mistyped command of disinto is an error.
func TestForeignCommand(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a PID namespace")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args           []string
		code           int
		stdout, stderr string
		storm          bool // only in make check
	}{
		{args: []string{"sh", "-c", "exit 7"}, code: 7, storm: true},
		{args: []string{"stat", "--version"}, code: 0, stdout: "stat ("}, // not a mistyped status
		{args: []string{"/bin/echo", "exec", "-r"}, code: 0, stdout: "exec -r\n", storm: true},
		{
			args: []string{"stauts"}, code: exitUsage,
			stderr: `disinto: there is no command "stauts", did you mean status or start? (disinto help lists them)` + "\n",
		},
		{
			args: []string{"/no/such"}, code: exitUsage,
			stderr: `disinto: there is no command "/no/such" (disinto help lists them)` + "\n", storm: true,
		},
	}
	for _, tt := range tests {
		if tt.storm && !storms() {
			continue
		}
		r := start(t, nil, append([]string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child", self},
			tt.args...)...)
		if code := r.wait(); code != tt.code || !strings.HasPrefix(r.read(r.stdout), tt.stdout) ||
			r.read(r.stderr) != tt.stderr {
			t.Errorf("disinto %q: got exit code %d, output %q, %q", tt.args, code, r.read(r.stdout), r.read(r.stderr))
		}
	}
	if got := disinto(t.Context(), nil, "ls"); got.code != exitUsage { // not PID 1
		t.Errorf("disinto ls, not as an entrypoint: got exit code %d", got.code)
	}
}

// linked builds the program with the Makefile's flags and returns its path.
func linked(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, name := range []string{"LDFLAGS", "ENTRY"} {
		line := regexp.MustCompile(`(?m)^` + name + ` = (.*)$`).FindSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile lacks %s", name)
		}
		flags = append(flags, string(line[1]))
	}
	path := t.TempDir() + "/disinto"
	environ := withEnv(os.Environ(), []string{"CGO_ENABLED=0"})
	var said strings.Builder
	err = oneReaper(t).Run(t.Context(), process.Cmd{
		Argv: []string{
			"go", "build", "-trimpath", "-buildvcs=false", "-tags", "entry", "-ldflags", strings.Join(flags, " "),
			"-o", path, ".",
		}, Env: environ, Stderr: &said,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return path
}

// TestLinkedProgram checks properties that only the linked program has.
func TestLinkedProgram(t *testing.T) {
	if !storms() {
		t.Skip("builds the program, which takes a minute of processor time with a cold cache: make check runs it")
	}
	path := linked(t)
	t.Run("SIGURG", func(t *testing.T) {
		// The runtime must not send itself SIGURG, so that each SIGURG comes from outside and is passed on. The
		// command spins and starts orphans, to give the runtime reasons for a preemption.
		script := `n=0; trap 'n=$((n+1))' URG; echo up; while [ $n -lt 2 ]; do (true &); sleep 0.01; done; echo "$n"; exit 7`
		r := start(t, nil, path, "exec", "bash", "-c", script)
		eventually(t, "the command runs", func() bool { return r.read(r.stdout) == "up\n" && listens(r.pid) })
		time.Sleep(200 * time.Millisecond) // for the runtime's own signals
		for range 2 {
			r.signal(syscall.SIGURG)
			time.Sleep(100 * time.Millisecond) // two at once would be merged
		}
		if code := r.wait(); code != 7 || r.read(r.stdout) != "up\n2\n" {
			t.Errorf("got exit code %d, output %q", code, r.read(r.stdout))
		}
	})
	t.Run("at rest", func(t *testing.T) {
		r := start(t, nil, path, "exec", "sleep", "1000")
		eventually(t, "exec is at rest", func() bool { return listens(r.pid) && resident(r) < 4096 })
		// The runtime's monitor wakes up about once a minute.
		eventually(t, "exec sleeps for a whole second", func() bool {
			before := field(r, "voluntary_ctxt_switches")
			time.Sleep(time.Second)
			return field(r, "voluntary_ctxt_switches") == before
		})
		r.signal(syscall.SIGTERM)
		if code := r.wait(); code != 143 {
			t.Errorf("got exit code %d, want 143", code)
		}
	})
}

// listens reports whether the init has started its command.
func listens(pid int) bool {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
	return len(text) > 0
}

// resident returns a process's resident memory in KiB.
func resident(r *running) int { return field(r, "VmRSS") }

// field returns a number of /proc/PID/status.
func field(r *running, name string) int {
	text := r.read("/proc/" + strconv.Itoa(r.pid) + "/status")
	number := regexp.MustCompile(`(?m)^` + name + `:\s*(\d+)`).FindStringSubmatch(text)
	if number == nil {
		return -1
	}
	n, _ := strconv.Atoi(number[1])
	return n
}
