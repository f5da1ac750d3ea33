package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// talker is a CLI that asks before it works, plans if the prompt says so, and approves every review.
const talker = `
said() { grep -q "$1" "$HOME/prompt"; }
if said "Review pull request"; then
	echo '{"verdict":"approve","summary":"Good."}' > "$DISINTO_WORKSPACE/verdict.json"
elif said "Plan the work on issue"; then
	echo '{"plan":"First the kettle, @ada."}' > "$DISINTO_WORKSPACE/answer.json"
elif said "People have answered"; then
	cp "$HOME/prompt" answered.txt; git add -A; git commit -qm "do it"
else
	echo '{"question":"Which kettle?"}' > "$DISINTO_WORKSPACE/answer.json"
fi` + stubDone

// remark is a comment on the forge.
type remark struct {
	ID   int64
	Body string
	User struct{ Login string }
}

// heard waits for a comment with words, and returns it.
func (f *testForge) heard(issue int, words string) (found remark) {
	f.t.Helper()
	eventually(f.t, "the comment "+words, func() bool {
		var all []remark
		f.get(fmt.Sprintf("/issues/%d/comments", issue), &all)
		for _, c := range all {
			if strings.Contains(c.Body, words) {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

func (f *testForge) closed(issue int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("#%d is merged", issue), func() bool {
		var is struct{ State string }
		f.get(fmt.Sprintf("/issues/%d", issue), &is)
		return is.State == "closed"
	})
}

// tag labels an issue with a token. It creates a missing label.
func (f *testForge) tag(token string, issue int, label string) {
	f.t.Helper()
	by := rest.API{URL: f.URL, Token: token}
	labels := map[string][]string{"labels": {label}}
	path := fmt.Sprintf("/repos/%s/issues/%d/labels", demo.Repo, issue)
	if err := by.Call(f.t.Context(), http.MethodPost, path, labels, nil); err != nil {
		f.t.Fatal(err)
	}
}

// like adds a thumbs-up to a comment, with a token.
func (f *testForge) like(token string, comment int64) {
	f.t.Helper()
	by := rest.API{URL: f.URL, Token: token}
	path := fmt.Sprintf("/repos/%s/issues/comments/%d/reactions", demo.Repo, comment)
	if err := by.Call(f.t.Context(), http.MethodPost, path, map[string]string{"content": "+1"}, nil); err != nil {
		f.t.Fatal(err)
	}
}

// An agent asks, a person answers, and the conversation continues to the merge. Another issue is planned first, and
// implemented after a person's thumbs-up. In between, neither an agent nor the supervisor can answer in the person's
// place.
func TestDialogueOnAForge(t *testing.T) {
	leftToStorms(t, "TestQuestion and TestPlan of the agent, and TestQuestion of the supervisor")
	onEachForge(t, dialogue)
}

func dialogue(t *testing.T, f *testForge) {
	bin, state := stub(t, talker), t.TempDir()
	path := factoryFile(t, fmt.Sprintf(cliFactory, f.URL, demo.Repo, "http://127.0.0.1:9", "http://127.0.0.1:9",
		"claude", "claude"))
	environ := withEnv(f.environ(nil), []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=none",
		"PWD=" + t.TempDir(),
	})
	f.pick(8)
	told := f.watchArguments()
	r := startDisinto(t, environ, "run", "--yes", "--config", path, "--state", state)

	question := f.heard(8, "Which kettle?")
	if !strings.HasPrefix(question.Body, "@"+demo.Human+", dev-qwen asks:\n\n```text\nWhich kettle?\n```") ||
		question.User.Login != "disinto" {
		t.Errorf("got a question by %s: %s", question.User.Login, question.Body)
	}
	eventually(t, "the status says so", func() bool {
		got := disinto(t.Context(), nil, "status", "--state", state)
		return strings.Contains(got.stdout, "NEEDS YOU") && strings.Contains(got.stdout, "dev-qwen asked @"+demo.Human+" ") &&
			strings.Contains(got.stdout, " ago, no answer: Which kettle?")
	})
	f.say(f.Tokens[agents.TokenVar("dev-qwen")], 8, "an agent's answer")
	f.say(f.HumanToken, 8, "The red one ~~~~ of the two.")
	f.closed(8)
	home := filepath.Join(state, "home", "dev-qwen")
	args := strings.Split(strings.TrimSpace(r.read(filepath.Join(home, "args"))), "\n")
	first := strings.Fields(args[0])
	if len(args) != 2 || !strings.Contains(args[1], "--resume "+first[len(first)-1]) && !resumes(args) {
		t.Errorf("got the CLI's arguments\n%s", strings.Join(args, "\n"))
	}
	prompt := r.read(filepath.Join(home, "prompt"))
	if !strings.Contains(prompt, "The red one ~~~~ of the two.") || strings.Contains(prompt, "an agent's answer") {
		t.Errorf("after the answer: got the prompt\n%s", prompt)
	}

	f.tag(f.HumanToken, 7, "plan-first")
	f.tag(f.HumanToken, 7, "picked")
	plan := f.heard(7, "First the kettle")
	f.like(f.Tokens[agents.TokenVar("dev-qwen")], plan.ID)
	f.tag(f.Tokens[agents.TokenVar("dev-qwen")], 7, "plan-approved")
	eventually(t, "an agent's approval is read", func() bool {
		got := disinto(t.Context(), nil, "why", "7", "--state", state)
		return strings.Contains(got.stdout, "the plan of dev-qwen waits for @"+demo.Human+" for ")
	})
	f.like(f.HumanToken, plan.ID)
	f.closed(7)
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	told()
	f.noTokens(state)
}

// resumes reports whether the CLI's second start resumes the conversation of the first.
func resumes(args []string) bool {
	_, id, _ := strings.Cut(args[0], "--session-id ")
	id, _, _ = strings.Cut(id, " ")
	return id != "" && strings.Contains(args[1], "--resume "+id)
}

// TestRealQuestion asks and answers with real CLIs: the conversation that asks gets the answer, also on an API.
func TestRealQuestion(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	for _, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(bin, cli)); err != nil {
				t.Skipf("found no %s in %s", cli, bin)
			}
			realQuestion(t, bin, cli)
		})
	}
}

func realQuestion(t *testing.T, bin, cli string) {
	b := newBench(t)
	model := &fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		switch {
		case !a.Tools:
			return fakemodel.Turn{Text: "A title"}
		case a.Answer:
			return fakemodel.Turn{Text: "All said."}
		case strings.Contains(a.Text, "People have answered"):
			return fakemodel.Turn{Shell: "echo red > kettle.txt && git add -A && git commit -qm kettle"}
		}
		return fakemodel.Turn{Shell: `printf '{"question": "Which kettle?"}' > ../answer.json; echo asked of the kettle`}
	}}
	server := httptest.NewServer(model)
	defer server.Close()
	more := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "IS_SANDBOX=1", "OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none",
		"DISINTO_BASE_URL=" + server.URL + "/v1", "DISINTO_MODEL=fake-model",
	}
	b.cli = cli
	first := b.want(agents.Question, "Which kettle?", "dev-qwen", agents.KindIssue, 8, "exit 9\n", more...)
	id := b.say(8, "The red one.")
	second := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "exit 9\n",
		append(more, "DISINTO_SLOT=1", fmt.Sprintf("DISINTO_COMMENTS=%d", id))...)
	if first.SessionID == "" || first.SessionID != second.SessionID {
		t.Errorf("got conversations %q and %q, want one", first.SessionID, second.SessionID)
	}
	heard := false
	for _, a := range model.Prompts() {
		heard = heard || strings.Contains(a.Text, "asked of the kettle") && strings.Contains(a.Text, "The red one.")
	}
	if !heard {
		t.Error("no request to the model contains both the question and the answer")
	}
}
