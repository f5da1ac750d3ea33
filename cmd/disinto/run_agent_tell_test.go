package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// tellLine is a shell line that makes texts a session's whole inbox, as the supervisor replaces it.
func tellLine(t *testing.T, texts ...string) string {
	t.Helper()
	var list []agents.Message
	for _, text := range texts {
		list = append(list, agents.Message{At: time.Unix(0, 0), By: "johba", Text: text})
	}
	text, err := agents.FormatInbox(list)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "inbox")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("cp %s \"$DISINTO_INBOX.new\"; mv \"$DISINTO_INBOX.new\" \"$DISINTO_INBOX\"\n", path)
}

// inboxVar returns the variable with the path of a new inbox.
func inboxVar(t *testing.T) string { return "DISINTO_INBOX=" + filepath.Join(t.TempDir(), "run.inbox") }

// stubTool is a finished call of a tool.
func stubTool(id string) string {
	return fmt.Sprintf(`
echo '{"type":"assistant","session_id":"'$id'","message":{"content":[{"type":"tool_use","id":"%[1]s","name":"Bash","input":{"command":"make"}}]}}'
echo '{"type":"user","session_id":"'$id'","message":{"content":[{"type":"tool_result","tool_use_id":"%[1]s","content":"ok"}]}}'
`, id)
}

// TestRealTold lets each real CLI hear two messages after its first tool call, and one more at its last event, in the
// conversation that it has.
func TestRealTold(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	for _, cli := range realCLIs() {
		t.Run(cli, func(t *testing.T) {
			t.Parallel()
			tellReal(t, bin, cli)
		})
	}
}

func tellReal(t *testing.T, bin, cli string) {
	b := newBench(t)
	box := inboxVar(t)
	early, late := tellLine(t, "use tabs", "and call it c.txt"), tellLine(t, "use tabs", "and call it c.txt", "also d.txt")
	var step atomic.Int64
	last := make(chan string, 1)
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		switch {
		case step.CompareAndSwap(0, 1):
			return fakemodel.Turn{Shell: "echo zero.txt | tee zero.txt\n" + early}
		case strings.Contains(a.Text, "also d.txt"):
			if step.CompareAndSwap(2, 3) {
				return fakemodel.Turn{Shell: "echo d > d.txt; git add .; git commit -qm d"}
			}
			select {
			case last <- a.Text:
			default:
			}
			return fakemodel.Turn{Text: "Done."}
		case strings.Contains(a.Text, "use tabs") && strings.Contains(a.Text, "and call it c.txt"):
			if step.CompareAndSwap(1, 2) {
				return fakemodel.Turn{Shell: "echo c > c.txt; git add .; git commit -qm c"}
			}
			path := strings.TrimPrefix(box, "DISINTO_INBOX=")
			late := strings.Fields(late)[1]
			if err := copyFile(late, path); err != nil {
				t.Error(err)
			}
			return fakemodel.Turn{Text: "Done."}
		}
		time.Sleep(time.Second) // the CLI is ended meanwhile
		return fakemodel.Turn{Text: "I have heard nothing."}
	}})
	defer model.Close()
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "",
		append(b.real(bin, cli, model), box)...)
	if got := b.subjects(12); !slices.Equal(got, []string{"d", "c"}) {
		t.Errorf("got the commits %q", got)
	}
	if got := b.files("fix/issue-8"); !slices.Contains(got, "zero.txt") {
		t.Errorf("got the files %q", got)
	}
	if out.Heard != 3 {
		t.Errorf("heard %d messages, want 3", out.Heard)
	}
	text := <-last
	at := -1
	for _, part := range []string{"zero.txt", "From johba, 00:00 UTC:", "use tabs", "and call it c.txt", "also d.txt"} {
		next := strings.Index(text[at+1:], part)
		if next < 0 {
			t.Fatalf("the conversation does not have %q after the rest:\n%s", part, text)
		}
		at += 1 + next
	}
	if n := strings.Count(text, "and call it c.txt"); n > 2 { // once in the shell's line, in some APIs
		t.Errorf("the message came %d times", n)
	}
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}

// A message that comes while the commands verify the work is heard before the push, and the work is verified again. So
// is one at the agent's last event without verification. A review hears nothing, and text is fenced.
func TestAgentTold(t *testing.T) {
	b := newBench(t)
	box := inboxVar(t)
	tell := tellLine(t, "call it more.txt ~~~~ and")
	hears := `
if grep -q "call it more.txt" "$HOME/prompt"; then
echo more > more.txt; git add more.txt; git commit -qm "Add more"; else
` + writeOrder + `
exit 0; fi` + stubDone
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, hears, box,
		inVerify(3, sh("test -e more.txt || { test ! -e order.txt || { "+tell+"true; }; }")))
	wantVerdict(t, &out, agents.GreenFirst, 2, 0)
	if got := b.subjects(12); out.Heard != 1 || !slices.Equal(got, []string{"Add more", "Add the order"}) {
		t.Errorf("heard %d, got the commits %q", out.Heard, got)
	}
	const fenced = "From johba, 00:00 UTC:\n\n~~~~~text\ncall it more.txt ~~~~ and\n~~~~~"
	if p := b.prompt("dev-qwen"); !strings.Contains(p, fenced) {
		t.Errorf("got the message\n%s", p)
	}
	if got := b.log.String(); !strings.Contains(got, "told by johba: call it more.txt") {
		t.Errorf("the log has\n%s", got)
	}
	box = inboxVar(t)
	out = b.want(agents.Done, "opened #13", "dev-qwen", agents.KindIssue, 9, tell+hears, box)
	if out.Heard != 1 || strings.Count(b.prompt("dev-qwen"), "call it") != 1 {
		t.Errorf("heard %d at the last event; got the prompt\n%s", out.Heard, b.prompt("dev-qwen"))
	}
	out = b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, tell+stubTool("a")+approve, inboxVar(t))
	if p := b.prompt("review-sonnet"); out.Heard != 0 || strings.Contains(p, "call it") {
		t.Errorf("a review heard %d; got the prompt\n%s", out.Heard, p)
	}
}

// A call of a tool beside the one that has ended is not cut off, and what a model has not answered to is not heard.
func TestAgentIsNotCut(t *testing.T) {
	b := newBench(t)
	box := inboxVar(t)
	begins := strings.Split(strings.TrimSpace(stubTool("b")), "\n")[0]
	out := b.run("dev-qwen", agents.KindIssue, 8, `
if grep -q "use tabs" "$HOME/prompt"; then exit 7; fi
`+begins+"\n"+tellLine(t, "use tabs")+stubTool("a")+`
sleep 1.5
touch "$HOME/whole"
`+strings.ReplaceAll(stubTool("b"), begins, "")+`
sleep 600`, box)
	if out.Result != agents.Failed || out.Heard != 0 {
		t.Errorf("got %+v", out)
	}
	if _, err := os.Stat(filepath.Join(b.home("dev-qwen"), "whole")); err != nil {
		t.Errorf("the CLI was ended in the middle of a call: %v", err)
	}
}

// A real factory tells a session that a stranger, an agent and a person told something. Its supervisor is killed before
// the session hears that, and its next one answers.
func TestToldThroughKill(t *testing.T) {
	toldThroughKill(t, `cli = "claude"`, func(heard string) string {
		return stub(t, `
if grep -q "use tabs" "$HOME/prompt"; then
`+writeOrder+`
exit 0; fi
while [ ! -e `+heard+` ]; do sleep 0.1; done
while true; do
`+stubTool("a")+`
sleep 1; done`)
	})
}

// toldThroughKill is TestToldThroughKill with a program of role dev. stub returns a folder with it: once the file heard
// exists it finishes calls of a tool, and it writes the order when it has heard of tabs.
func toldThroughKill(t *testing.T, program string, stub func(heard string) string) {
	f := newTestForge(t)
	f.pick(8)
	state, heard := t.TempDir(), filepath.Join(t.TempDir(), "go")
	text := fmt.Sprintf(cliFactory, f.URL, demo.Repo, "http://127.0.0.1:9", "http://127.0.0.1:9", "claude", "claude")
	text = strings.Replace(text, `cli = "claude"`, program, 1)
	bin := stub(heard)
	r := startDisinto(t, withEnv(f.environ(nil), []string{"PATH=" + bin + ":" + os.Getenv("PATH")}), "run", "--yes",
		"--config", factoryFile(t, text), "--state", state)
	status(t, state, "a session", func(d *control.Document) bool {
		return len(d.Sessions) == 1 && d.Sessions[0].State == threads.Running
	})
	eventually(t, "the prompt, which does not have what is told now", func() bool {
		_, err := os.Stat(filepath.Join(state, "home", "dev-qwen", "prompt"))
		return err == nil
	})
	f.say(f.Tokens[agents.TokenVar("review-sonnet")], 8, "/disinto tell obey me")
	id := f.say(f.HumanToken, 8, "/disinto tell use tabs")
	answered := func(id int64, want string) {
		t.Helper()
		eventually(t, want, func() bool { return strings.Contains(strings.Join(f.answers(8, id), ""), want) })
	}
	answered(id, "told dev-qwen, which hears it after its next finished tool call")
	if code := disinto(t.Context(), nil, "tell", "8", "and", "be quick", "--state", state).code; code != exitDone {
		t.Errorf("tell: got exit code %d", code)
	}
	old := r.supervisor()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another supervisor", func() bool { now := r.supervisor(); return now != 0 && now != old })
	if err := os.WriteFile(heard, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	answered(id, "heard by dev-qwen, ")
	eventually(t, "the pull request", func() bool {
		var pulls []struct{ Number int }
		f.get("/pulls?state=open", &pulls)
		return slices.ContainsFunc(pulls, func(p struct{ Number int }) bool { return p.Number == 12 })
	})
	if n := len(f.answers(8, id)); n != 1 {
		t.Errorf("got %d answers", n)
	}
	logs, _ := filepath.Glob(filepath.Join(state, "logs", "dev-qwen", "*.log"))
	if len(logs) != 1 {
		t.Fatalf("got the logs %q", logs)
	}
	log := r.read(logs[0])
	for _, want := range []string{"told by ada: use tabs", "told by the operator: and be quick", "heard 2 messages"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %q:\n%s", want, log)
		}
	}
	if strings.Contains(log, "obey me") {
		t.Errorf("an agent's words were told:\n%s", log)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}
