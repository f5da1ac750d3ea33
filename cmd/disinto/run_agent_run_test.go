package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents/session/fakemodel"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
)

// cliFactory is a factory with a developer on a local thread and a reviewer on an API, both with built-in programs.
const cliFactory = `[forge]
url = %q
token = "$FORGE_TOKEN"
repos = [%q]

[threads.api]
backend = "anthropic"
base_url = %q
interval = "500ms"
idle_interval = "500ms"
agents = ["review-sonnet"]

[threads.llama]
backend = "local"
base_url = %q
interval = "500ms"
idle_interval = "500ms"
agents = ["dev-qwen"]

[agents.dev-qwen]
model = "fake-model"

[agents.review-sonnet]
model = "fake-model"

[roles.dev]
cli = %q
label = "picked"

[roles.review]
cli = %q
`

// pick labels one issue of the backlog, so that agents work only on it.
func (f *testForge) pick(issue int) {
	f.t.Helper()
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	var label struct {
		ID int64 `json:"id"`
	}
	if err := human.Post(f.t.Context(), "/repos/"+demo.Repo+"/labels",
		map[string]string{"name": "picked", "color": "0e8a16"}, &label); err != nil {
		f.t.Fatal(err)
	}
	labels := map[string][]int64{"labels": {label.ID}}
	if err := human.Post(f.t.Context(), fmt.Sprintf("/repos/%s/issues/%d/labels", demo.Repo, issue), labels,
		nil); err != nil {
		f.t.Fatal(err)
	}
}

// issueToMerge runs a factory until issue 8 is implemented, approved and merged. want are the states of its reviews.
func issueToMerge(t *testing.T, bin, model, dev, reviewer string, patience time.Duration, want ...string) {
	f := newTestForge(t)
	f.pick(8)
	state := t.TempDir()
	text := fmt.Sprintf(cliFactory, f.URL, demo.Repo, model, model, dev, reviewer)
	path := factoryFile(t, ownPrograms.ReplaceAllString(text, "command = [$1]\nprompt = \"stdin\""))
	environ := withEnv(f.environ(nil), []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "IS_SANDBOX=1", "OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none",
		"PWD=" + t.TempDir(), // not this checkout: opencode once committed to the folder in PWD
	})
	told := f.watchArguments()
	r := startDisinto(t, environ, "run", "--yes", "--config", path, "--state", state)
	var issue struct{ State string }
	for deadline := time.Now().Add(patience); issue.State != "closed"; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("issue 8 is still open after %s\n%s", patience, disinto(t.Context(), nil, "status", "--state",
				state).stdout)
			break
		}
		f.get("/issues/8", &issue)
	}
	var d control.Document
	if issue.State == "closed" {
		d = *status(t, state, "no agent works", func(d *control.Document) bool { return len(d.Sessions) == 0 })
	}
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	var reviews []struct{ State string }
	f.get("/pulls/12/reviews", &reviews)
	var states []string
	for _, r := range reviews {
		states = append(states, r.State)
	}
	var pull struct {
		Merged bool
		Body   string
	}
	f.get("/pulls/12", &pull)
	if !slices.Equal(states, want) || !pull.Merged || !strings.Contains(pull.Body, "created by dev-qwen") {
		t.Errorf("got pull request %+v, reviews %q, want %q; recent %+v", pull, states, want, d.Recent)
	}
	told()
	f.noTokens(state)
	f.noTokens(filepath.Dir(path))
	f.noTokens(filepath.Dir(r.stderr))
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(state, "logs", "*", "*.log"))
		for _, log := range logs {
			t.Logf("%s:\n%s", log, r.read(log))
		}
	}
}

// watchArguments reads the arguments of all processes on the machine until told is called. Every account can read
// them, so none may contain a token.
func (f *testForge) watchArguments() (told func()) {
	f.t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	var leaks []string
	supervisors := 0 // counts supervisors: gits last only milliseconds
	go func() {
		defer close(done)
		pause := 200 * time.Millisecond
		if storms() {
			pause = 50 * time.Millisecond
		}
		for seen := map[string]bool{}; ; time.Sleep(pause) {
			select {
			case <-stop:
				return
			default:
			}
			paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range paths {
				text, _ := os.ReadFile(path)
				if line := string(text); !seen[line] {
					seen[line] = true
					if strings.Contains(line, "\x00run\x00") {
						supervisors++
					}
					for name, token := range f.Tokens {
						if strings.Contains(line, token) {
							leaks = append(leaks, name+" in "+strings.ReplaceAll(line, "\x00", " "))
						}
					}
				}
			}
		}
	}()
	return func() {
		f.t.Helper()
		close(stop)
		<-done
		for _, leak := range leaks {
			f.t.Errorf("a process has a token in its arguments: %s", leak)
		}
		if supervisors == 0 {
			f.t.Error("the watch did not even see the supervisor")
		}
	}
}

// noTokens fails if a token is in a file that a factory left: the journal, logs, results, clones and their
// configuration, homes.
func (f *testForge) noTokens(dir string) {
	f.t.Helper()
	_ = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() || info.Size() > 10<<20 {
			return nil
		}
		text, _ := os.ReadFile(path)
		for name, token := range f.Tokens {
			if strings.Contains(string(text), token) {
				f.t.Errorf("%s contains %s", path, name)
			}
		}
		return nil
	})
}

// A whole factory with built-in agents and a script as their CLI takes an issue to its merge. In make check the
// reviewer first sends it back, as in TestAgentFlow.
func TestBuiltinAgents(t *testing.T) {
	t.Parallel()
	first, want := "approve", []string{"APPROVED"}
	if storms() {
		first, want = "request_changes", []string{"REQUEST_CHANGES", "APPROVED"}
	}
	bin := stub(t, `
if grep -q "a reviewer" "$HOME/prompt"; then
  if grep -q "Earlier review" "$HOME/prompt"; then v=approve; else v=`+first+`; fi
  echo '{"verdict":"'$v'","summary":"As I see it."}' > "$DISINTO_WORKSPACE/verdict.json"
else
  echo more >> order.txt; git add order.txt; git commit -q -m "Work on the order"
fi`+stubDone)
	issueToMerge(t, bin, "http://"+deadAddress(t), "claude", "claude", time.Minute, want...)
}

// ownPrograms matches a path in place of a CLI's name: a program of the operator's.
var ownPrograms = regexp.MustCompile(`cli = ("/[^"]*")`)

// TestOwnProgramInFactory is TestBuiltinAgents with the lines of shell of docs/agents.md in place of a CLI.
func TestOwnProgramInFactory(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "    #!/bin/sh\n")
	script, _, found := strings.Cut(script, "\n\n")
	if !found {
		t.Fatal("docs/agents.md has no script")
	}
	script = "#!/bin/sh\n" + strings.ReplaceAll(script, "\n    ", "\n")
	bin := t.TempDir()
	model := `#!/bin/sh
if grep -q "verdict.json"; then echo '{"verdict": "approve", "summary": "As it should be."}'; else echo more; fi
`
	for name, text := range map[string]string{"my-agent": script, "my-model": model} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(bin, "my-agent")
	issueToMerge(t, bin, "http://"+deadAddress(t), own, own, time.Minute, "APPROVED")
}

var verdictPath = regexp.MustCompile(`Write your verdict to the file (\S+verdict\.json)`)

// scriptedModel answers as the developer and the reviewer, for any CLI.
func scriptedModel(a fakemodel.Prompt) fakemodel.Turn {
	if a.Answer {
		return fakemodel.Turn{Text: "Done."}
	}
	m := verdictPath.FindAllStringSubmatch(a.Text, -1)
	if m == nil {
		return fakemodel.Turn{Shell: `echo more >> order.txt && git add order.txt && git commit -q -m "Work on the order"`}
	}
	verdict := "request_changes"
	if strings.Contains(a.Text, "Earlier review by") {
		verdict = "approve"
	}
	return fakemodel.Turn{Shell: fmt.Sprintf(`echo '{"verdict":"%s","summary":"As I see it."}' > %s`, verdict,
		m[len(m)-1][1])}
}

// TestRealAgents is TestBuiltinAgents with the real CLIs and a fake model.
func TestRealAgents(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	for _, pair := range [][2]string{{"claude", "qwen"}, {"opencode", "codex"}, {"codex", "claude"}} {
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: scriptedModel})
			defer model.Close()
			issueToMerge(t, bin, model.URL+"/v1", pair[0], pair[1], 5*time.Minute, "REQUEST_CHANGES", "APPROVED")
		})
	}
}
