package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"codeberg.org/johba/disinto/agents"
)

// runJob runs a job to its end.
func runJob(t *testing.T, job agents.Job) agents.Outcome {
	t.Helper()
	return (&Executor{Reaper: reaper}).Run(t.Context(), job, nil)
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script string
		want   agents.Outcome
	}{
		{"status 0 claims nothing", "echo hello", agents.Outcome{Result: agents.Done, Tail: "hello"}},
		{
			"status 3", "echo out; echo err >&2; exit 3",
			agents.Outcome{Result: agents.Failed, Reason: "/bin/sh: exit status 3", ExitCode: 3, Tail: "out\nerr"},
		},
		{
			"killed", "kill -SEGV $$",
			agents.Outcome{Result: agents.Failed, Reason: "/bin/sh: killed by SIGSEGV", ExitCode: -1, Signal: "SIGSEGV"},
		},
		{
			"a program of its own is missing", "exit 127",
			agents.Outcome{
				Result: agents.Failed, Reason: "/bin/sh: exit status 127 (it did not find a program it needs)",
				ExitCode: 127,
			},
		},
		{
			"a result stands above the status",
			`echo '{"outcome":"refused","reason":"too large","session_id":"s1"}' >$DISINTO_RESULT; exit 1`,
			agents.Outcome{Result: agents.Refused, Reason: "too large", SessionID: "s1", Claimed: true, ExitCode: 1},
		},
		{
			"garbage is no result", `echo oops >$DISINTO_RESULT`,
			agents.Outcome{
				Result: agents.Done,
				Reason: "result is not the JSON it should be: invalid character 'o' looking for beginning of value",
			},
		},
		{
			"garbage and a bad status", `echo '{"outcome":"great"}' >$DISINTO_RESULT; exit 2`,
			agents.Outcome{
				Result: agents.Failed, ExitCode: 2,
				Reason: `/bin/sh: exit status 2; result has the unknown outcome "great"`,
			},
		},
		{
			"a result that is a pipe", `mkfifo $DISINTO_RESULT`,
			agents.Outcome{Result: agents.Done, Reason: "the result is not a plain file of at most 65536 bytes"},
		},
		{
			"a result that is too long", `head -c 65537 /dev/zero >$DISINTO_RESULT`,
			agents.Outcome{Result: agents.Done, Reason: "the result is not a plain file of at most 65536 bytes"},
		},
		{
			"a result that is a link", `ln -s /etc/passwd $DISINTO_RESULT`,
			agents.Outcome{Result: agents.Done, Reason: "the result is not a plain file of at most 65536 bytes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := newJob(t, tt.script)
			got := runJob(t, job)
			measured := cmpopts.IgnoreFields(agents.Outcome{}, "CPU", "MaxRSS", "Digest", "Seen")
			if diff := cmp.Diff(tt.want, got, measured); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			noneAlive(t, job.RunID)
		})
	}
}

// A program starts in exactly this environment.
func TestProgramsWorld(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"stdin is closed", "read x; echo $?", "1"},
		{
			"the environment is the job's", "env | cut -d= -f1 | sort | tr '\\n' ' '",
			"DISINTO_RESULT DISINTO_RUN_ID PATH PWD T ",
		},
		{"umask", "umask", "0077"},
		{"its own session", "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo yes", "yes"},
		{"no new privileges", "grep -o 'NoNewPrivs:.*' /proc/self/status | tr '\\t' ' '", "NoNewPrivs: 1"},
		{"no descriptor of ours", "ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 "},
		// Signal 32 belongs to the C library. timeout(1) leaves it ignored for all processes below, and no process can send
		// it.
		{"no signal is ignored", "m=0x$(awk '/^SigIgn/ {print $2}' /proc/self/status); echo $((m & 0x7fffffff))", "0"},
	}
	var script, want []string
	for _, tt := range tests {
		script, want = append(script, "echo \"$("+tt.script+")\""), append(want, tt.want)
	}
	got := strings.Split(runJob(t, newJob(t, strings.Join(script, "\n"))).Tail, "\n")
	if len(got) != len(want) {
		t.Fatalf("the script printed %q, want a line per case", got)
	}
	for i, tt := range tests {
		if got[i] != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got[i], tt.want)
		}
	}
}

func TestCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name    string
		command string
		code    int
		want    string
	}{
		{"a path", "dev/dev-agent.sh", 127, "cannot start dev/dev-agent.sh: no such file; looked for WORK/dev/dev-agent.sh"},
		{"a name", "no-such-agent", 127, "cannot start no-such-agent: no such program in PATH"},
		{"a folder", dir, 126, "cannot start DIR: DIR is a directory"},
		{
			"not executable", write("plain", "#!/bin/sh\n", 0o600), 126,
			"cannot start DIR/plain: not executable; chmod +x DIR/plain",
		},
		{
			"no interpreter", write("odd", "#!/no/such/shell\n", 0o700), 127,
			"cannot start DIR/odd: DIR/odd needs /no/such/shell to run it: no such file; looked for /no/such/shell",
		},
		{
			"no program", write("text", "hello\n", 0o700), 126,
			"cannot start DIR/text: DIR/text is neither a program nor a script that begins with #!",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := newJob(t, "")
			job.Command = []string{tt.command}
			called := false
			o := (&Executor{Reaper: reaper}).Run(t.Context(), job, func(agents.Started) { called = true })
			want := strings.NewReplacer("WORK", job.Dir, "DIR", dir).Replace(tt.want)
			if o.Result != agents.Failed || o.Reason != want || o.ExitCode != tt.code || o.Claimed || called {
				t.Errorf("outcome %+v (started: %v)\nwant the reason %q and status %d", o, called, want, tt.code)
			}
		})
	}
}

func TestBadJobs(t *testing.T) {
	tests := map[string]struct {
		change func(*agents.Job)
		want   string
	}{
		"no command":       {func(j *agents.Job) { j.Command = nil }, "internal error"},
		"no run id":        {func(j *agents.Job) { j.RunID = "" }, "internal error"},
		"a run id with /":  {func(j *agents.Job) { j.RunID = "../x" }, "internal error"},
		"NUL in arguments": {func(j *agents.Job) { j.Command = []string{"echo", "a\x00b"} }, "NUL byte"},
		"NUL in variables": {func(j *agents.Job) { j.Env = append(j.Env, "A=b\x00C=d") }, "NUL byte"},
		"relative folder":  {func(j *agents.Job) { j.Dir = "work" }, "not absolute"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, "true")
			tt.change(&job)
			if o := runJob(t, job); o.Result != agents.Failed || !strings.Contains(o.Reason, tt.want) {
				t.Errorf("outcome %+v, want a reason with %q", o, tt.want)
			}
		})
	}
}

// Arguments and variables are bytes, and need not be UTF-8.
func TestBytesArriveAsTheyAre(t *testing.T) {
	job := newJob(t, `printf %s "$1$LATIN" | od -An -tx1`)
	job.Command = append(job.Command, "sh", "a\xff\"<")
	job.Env = append(job.Env, "LATIN=\xe4\n")
	if o := runJob(t, job); o.Tail != " 61 ff 22 3c e4 0a" {
		t.Errorf("the program got %q, want the bytes unchanged", o.Tail)
	}
}

func TestStarted(t *testing.T) {
	job := newJob(t, "echo $$")
	var got agents.Started
	o := (&Executor{Reaper: reaper}).Run(t.Context(), job, func(s agents.Started) { got = s })
	if want := o.Tail; want == "" || want != itoa(got.PID) {
		t.Errorf("started with pid %d, the program says %q", got.PID, want)
	}
	if age := time.Since(got.At); age < 0 || age > time.Minute {
		t.Errorf("started at %v, %v ago; want within the last minute", got.At, age)
	}
}

func TestSessionIsMeasured(t *testing.T) {
	// An orphan of an orphan does the work: only the shim waits for it.
	job := newJob(t, `mkfifo $T/p
		(setsid sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo >$T/p' &); read x <$T/p`)
	o := runJob(t, job)
	if o.CPU < 20*time.Millisecond || o.CPU > time.Minute {
		t.Errorf("CPU %v, want that of the loop", o.CPU)
	}
	if o.MaxRSS < 1<<20 || o.MaxRSS > 1<<30 {
		t.Errorf("MaxRSS = %d bytes, want 1 MiB to 1 GiB", o.MaxRSS)
	}
}

func TestLogIsAppendedAndPrivate(t *testing.T) {
	job := newJob(t, "echo second")
	if err := os.MkdirAll(filepath.Dir(job.LogPath), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job.LogPath, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runJob(t, job)
	if got := read(job.LogPath); got != "first\nsecond" {
		t.Errorf("log %q, want both lines", got)
	}
	info, err := os.Stat(job.LogPath)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log has mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	e := &Executor{Reaper: reaper, Secrets: func() []string { return []string{"hunter2/hunter2"} }}
	long := strings.Repeat("x", 490)
	for reason, want := range map[string]string{
		"tried hunter2/hunter2":         "tried [secret]",
		`tried hunter2\/hunter2`:        "tried [secret]",
		long + " hunter2/hunter2 again": long + " [secret]…", // cut after it was hidden
	} {
		job := newJob(t, `echo the token is hunter2/hunter2;
			printf '{"outcome":"failed","reason":"%s"}' "$1" >$DISINTO_RESULT`)
		job.Command = append(job.Command, "sh", reason)
		o := e.Run(t.Context(), job, nil)
		if o.Tail != "the token is [secret]" || o.Reason != want {
			t.Errorf("tail %q, reason %q, want %q", o.Tail, o.Reason, want)
		}
	}
}

func TestActivity(t *testing.T) {
	job := newJob(t, "echo $$; read x <$T/go")
	fifo := filepath.Dir(job.Dir) + "/go"
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	e := &Executor{Reaper: reaper}
	if _, ok := e.Activity(job.RunID); ok {
		t.Error("Activity found the run before its start")
	}
	var wg sync.WaitGroup
	started := make(chan agents.Started, 1)
	wg.Go(func() { e.Run(t.Context(), job, func(s agents.Started) { started <- s }) })
	<-started
	eventually(t, "the program's output", func() bool { return read(job.LogPath) != "" })
	a, ok := e.Activity(job.RunID)
	age := time.Since(a.LastOutput)
	if !ok || itoa(a.PID) != read(job.LogPath) || a.Place != "" || age > time.Minute || age < -time.Second {
		t.Errorf("activity %+v %v; the program is %s", a, ok, read(job.LogPath))
	}
	if o := e.Run(t.Context(), job, nil); !strings.Contains(o.Reason, "is running already") {
		t.Errorf("the same run twice: %+v", o)
	}
	if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if _, ok := e.Activity(job.RunID); ok {
		t.Error("Activity found the run after its end")
	}
}

func TestCancelledBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("issue closed"))
	job := newJob(t, "touch $T/ran")
	o := (&Executor{Reaper: reaper}).Run(ctx, job, nil)
	if o.Result != agents.Cancelled || o.Reason != "ended: issue closed" {
		t.Errorf("outcome %+v, want cancelled because the issue was closed", o)
	}
	if exists(filepath.Dir(job.Dir) + "/ran") {
		t.Error("the program ran")
	}
}
