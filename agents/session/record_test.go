package session

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
)

var update = flag.Bool("update", false, "rewrite golden files; with $DISINTO_CLIS, the recordings of the CLIs too")

// clisVar names the folder with the real CLIs. Without it, tests use the recordings in testdata.
const clisVar = "DISINTO_CLIS"

// resetAt is when the fake usage limit is lifted. CLIs accept only a time in the future.
var resetAt = time.Unix(1893456000, 0).UTC()

// recording is a situation in which every CLI is tested.
type recording struct {
	name      string
	turn      fakemodel.Turn // the model's answer to every request
	then      fakemodel.Turn // its answer after a tool call
	resume    bool           // resumes the conversation of the previous recording
	interrupt bool           // sends TERM once the tool runs
	api       bool           // as on a paid API
	what      class          // the expected trouble
	silent    []string       // the CLIs that do not report the trouble, and end as if there were none
}

var recordings = []recording{
	{name: "text", turn: fakemodel.Turn{Text: "Hello from the model."}},
	{name: "tool", turn: fakemodel.Turn{Shell: "echo made > made.txt"}, then: fakemodel.Turn{Text: "I made a file."}},
	{name: "resume", turn: fakemodel.Turn{Text: "Hello again."}, resume: true},
	{name: "limit", api: true, what: limited, turn: fakemodel.Turn{
		Status: 429, Type: "rate_limit_error", Text: "This request would exceed your account's usage limit.",
		Headers: map[string]string{
			"retry-after": "7200", "anthropic-ratelimit-unified-status": "rejected",
			"anthropic-ratelimit-unified-reset":                fmt.Sprint(resetAt.Unix()),
			"anthropic-ratelimit-unified-representative-claim": "five_hour", "anthropic-ratelimit-unified-5h-status": "rejected",
			"anthropic-ratelimit-unified-5h-reset":       fmt.Sprint(resetAt.Unix()),
			"anthropic-ratelimit-unified-5h-utilization": "1.0",
		},
	}},
	{name: "auth", what: signedOut, turn: fakemodel.Turn{
		Status: 401, Type: "authentication_error",
		Text: "invalid x-api-key",
	}},
	{name: "down", what: down, turn: fakemodel.Turn{Status: 500, Type: "api_error", Text: "Internal server error"}},
	{name: "overflow", what: overflown, turn: fakemodel.Turn{
		Status: 400, Type: "exceed_context_size_error",
		Text: "the request exceeds the available context size, try increasing it",
	}},
	{name: "billing", what: unusable, turn: fakemodel.Turn{
		Status: 400, Type: "invalid_request_error", Text: "Your credit balance is too low to access the API.",
	}},
	{name: "payment", what: unusable, turn: fakemodel.Turn{
		Status: 402, Type: "payment_required", Text: "Insufficient credits. Add more to continue.",
	}},
	{name: "model", what: unusable, turn: fakemodel.Turn{
		Status: 404, Type: "not_found_error", Text: "model: fake-model",
	}},
	{name: "cut", what: down, turn: fakemodel.Turn{Text: "This answer never ends.", Cut: true}},
	{
		name: "refusal", what: refused, silent: []string{"codex", "qwen"},
		turn: fakemodel.Turn{Text: "I cannot help with that.", Refuse: true},
	},
	{name: "interrupted", interrupt: true, what: broken, turn: fakemodel.Turn{Shell: "touch begun; sleep 30"}},
}

// TestRealCLIs tests the real CLIs in every situation. With -update it records their output.
func TestRealCLIs(t *testing.T) {
	bin := os.Getenv(clisVar)
	if bin == "" {
		t.Skipf("$%s names no folder with the real CLIs: make agents-e2e installs them", clisVar)
	}
	for _, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			t.Parallel() // most of the time they wait to retry
			if _, err := os.Stat(filepath.Join(bin, cli)); err != nil {
				t.Skipf("no %s in %s", cli, bin)
			}
			if *update {
				recordVersion(t, cli, bin)
			}
			dir := t.TempDir()
			session := ""
			for i := range recordings {
				rec := &recordings[i]
				t.Run(rec.name, func(t *testing.T) { session = rec.check(t, cli, bin, dir, session) })
			}
		})
	}
}

// recordVersion writes the version of a CLI beside its recordings.
func recordVersion(t *testing.T, cli, bin string) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, cli), "--version")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.Output()
	version := regexp.MustCompile(`\d+\.\d+\.\d+`).Find(out)
	if err != nil || version == nil {
		t.Fatalf("%s does not say its version: %v, %s", cli, err, out)
	}
	writeGolden(t, filepath.Join("testdata", cli, "version"), append(version, '\n'))
}

// check runs a CLI in the situation, checks its adapter's report, and returns the conversation.
func (rec *recording) check(t *testing.T, cli, bin, dir, session string) string {
	turn := rec.turn
	if turn.Headers != nil && cli != "claude" {
		// The other CLIs would wait silently all that time.
		turn.Headers = map[string]string{"retry-after": "2"}
	}
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		if a.Answer && rec.then.Text != "" {
			return rec.then
		}
		return turn
	}})
	defer model.Close()
	home, tree := filepath.Join(dir, "home"), filepath.Join(dir, "tree")
	for _, d := range []string{home, tree} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	environ := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "IS_SANDBOX=1", "TERM=dumb"}
	if rec.api {
		environ = append(environ, "CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-none", "OPENAI_API_KEY=none",
			"OPENAI_BASE_URL="+model.URL+"/v1")
	}
	c := &call{
		Session: newID(), Model: "fake-model", BaseURL: model.URL, Local: !rec.api, Context: 65536,
		environ: environ,
	}
	if rec.resume {
		c.Session, c.Resume = session, true
	}
	a := adapters[cli]
	stdout, stderr, err := rec.run(t, a, c, tree)
	r := parse(a, stdout)
	if *update {
		text := strings.NewReplacer(dir, "/agent", model.URL, "http://127.0.0.1:8080", os.Getenv("HOME"),
			"/home/x").Replace(string(stdout))
		writeGolden(t, filepath.Join("testdata", cli, rec.name+".jsonl"), []byte(text))
		writeGolden(t, filepath.Join("testdata", cli, rec.name+".stderr"),
			fmt.Appendf(nil, "%v\n%s", err, lastLine(string(stderr))))
	}
	out := outcome(cli, r, r.Answered, err, string(stderr), time.Now())
	t.Logf("%+v, report %+v", out, r)
	what := r.What
	if what == noFailure && !r.Ended {
		what = unended(r, err, string(stderr)).What
	}
	want := rec.what
	if slices.Contains(rec.silent, cli) {
		want = noFailure
	}
	if what != want {
		t.Errorf("trouble %q, want %q; %v\n%s\n%s", what, want, err, stdout, stderr)
	}
	if rec.name == "tool" {
		if _, err := os.Stat(filepath.Join(tree, "made.txt")); err != nil {
			t.Errorf("the tool did not run: %v", err)
		}
	}
	if rec.resume && r.Session != session {
		t.Errorf("it continued session %q, want %q", r.Session, session)
	}
	return r.Session
}

// run runs the CLI as a session does: the prompt on stdin, ended when success is impossible.
func (rec *recording) run(t *testing.T, a adapter, c *call, tree string) (stdout, stderr []byte, err error) {
	argv, more := a.command(c)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.SplitList(agents.Getenv(c.environ, "PATH"))[0], argv[0]),
		argv[1:]...)
	cmd.Dir, cmd.Env = tree, withVars(c.environ, more)
	cmd.Stdin = strings.NewReader("Say hello, or do what you are told.")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	var out, complaint bytes.Buffer
	live := &report{}
	cmd.Stderr = &complaint
	cmd.Stdout = io.MultiWriter(&out, &lines{each: func(line []byte) {
		if a.read(line, live); live.Hopeless {
			cancel()
		}
	}})
	if rec.interrupt {
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(filepath.Join(tree, "begun")); err == nil {
					cancel()
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	err = cmd.Run()
	if errors.Is(err, context.Canceled) {
		err = errors.New("ended by us")
	}
	return out.Bytes(), complaint.Bytes(), err
}

// parse parses a whole stream.
func parse(a adapter, stream []byte) *report {
	r := &report{}
	l := &lines{each: func(line []byte) { r.add(a, line, noon) }}
	_, _ = l.Write(stream)
	l.flush()
	r.Unread += l.dropped
	return r
}

func writeGolden(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRealCLIsStop plays a model that repeats a call for ever, and one that does something new each time until the
// session exceeds its budget. In the first case each real CLI is ended at the eighth call, unless it ends by itself
// earlier, in the second at the answer that reaches the limit.
func TestRealCLIsStop(t *testing.T) {
	bin := os.Getenv(clisVar)
	if bin == "" {
		t.Skipf("$%s names no folder with the real CLIs: make agents-e2e installs them", clisVar)
	}
	for _, cli := range agents.CLINames() {
		for _, want := range []agents.Result{agents.Looped, agents.OverBudget} {
			t.Run(cli+"/"+string(want), func(t *testing.T) {
				t.Parallel()
				if _, err := os.Stat(filepath.Join(bin, cli)); err != nil {
					t.Skipf("no %s in %s", cli, bin)
				}
				out, r, asks := stopped(t, cli, bin, want)
				if out.Result != want || asks > 12 {
					t.Errorf("%+v after %d answers, with %+v", out, asks, r.usage)
				}
				const answer = 75 // tokens at most
				if used := r.usage.Tokens(); want == agents.OverBudget && (used < 350 || used > 350+answer) {
					t.Errorf("it used %d tokens of 350", used)
				}
				t.Logf("%s: %s after %d answers, %d tokens", cli, out.Reason, asks, r.usage.Tokens())
			})
		}
	}
}

func stopped(t *testing.T, cli, bin string, want agents.Result) (agents.Outcome, *run, int) {
	asks := 0
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		if !a.Tools {
			return fakemodel.Turn{Text: "A title"}
		}
		if asks++; asks > 30 {
			return fakemodel.Turn{Text: "enough"}
		}
		if want == agents.Looped {
			return fakemodel.Turn{Shell: "echo the same"}
		}
		return fakemodel.Turn{Shell: fmt.Sprint("echo ", asks)}
	}})
	t.Cleanup(model.Close)
	r := realRun(t, cli, bin, model.URL)
	if want == agents.OverBudget {
		r.Left.Tokens = 350
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, err := r.runPrompt(ctx, "Do what you are told.")
	return r.outcomeOf(err), r, asks
}

// realRun is a session of a real CLI on a local thread, in empty folders.
func realRun(t *testing.T, cli, bin, url string) *run {
	dir := t.TempDir()
	r := &run{
		Program: &Program{CLI: cli, Out: t.Output(), Now: time.Now, Run: runReal}, cli: adapters[cli],
		work: work{
			Workspace: filepath.Join(dir, "work"), Home: filepath.Join(dir, "home"),
			ResultPath: filepath.Join(dir, "result.json"),
			Local:      true, BaseURL: url, Model: "fake-model",
		},
	}
	for _, d := range []string{r.Home, r.treePath()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.Environ = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + r.Home, "IS_SANDBOX=1", "TERM=dumb"}
	return r
}

// runReal runs a program and ends its process group when ctx is done.
func runReal(ctx context.Context, c agents.Cmd) error { return realCommand(ctx, c).Run() }

func realCommand(ctx context.Context, c agents.Cmd) *exec.Cmd {
	path := filepath.Join(filepath.SplitList(agents.Getenv(c.Env, "PATH"))[0], c.Argv[0])
	cmd := exec.CommandContext(ctx, path, c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}
