package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
)

// acpHead begins every agent that speaks ACP: a script whose function turn does the work of a prompt.
const acpHead = `#!/bin/sh
say() { printf '%s' "$1" | tr -d '\n'; echo; }
update() { say '{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'"$1"'}}}'; }
words() { update '"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}'; }
tool() {
	update '"tool_call","toolCallId":"'$1'","title":"Shell","status":"pending","rawInput":{}'
	update '"tool_call_update","toolCallId":"'$1'","status":"in_progress","kind":"execute","rawInput":{"command":"make"}'
	update '"tool_call_update","toolCallId":"'$1'","status":"completed","rawOutput":{"n":"'$1'"}'
}
`

const acpLoop = `
while read -r line; do
	printf '%s\n' "$line" >> "$HOME/heard"
	case "$line" in
	*'"method":"initialize"'*) say '{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}' ;;
	*'"method":"session/new"'*) say '{"id":2,"result":{"sessionId":"s1"}}' ;;
	*'"method":"session/load"'*) words Replayed.; say '{"id":2,"result":null}' ;;
	*'"method":"session/prompt"'*)
		printf '%s\n' "$line" > "$HOME/prompt"
		turn
		say '{"id":3,"result":{"stopReason":"end_turn"}}' ;;
	esac
done
echo closed >> "$HOME/heard"
`

// acpStub writes an agent, and returns its folder.
func acpStub(t *testing.T, turn string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	script := acpHead + "turn() {\n" + turn + "\n}\n" + acpLoop
	if err := os.WriteFile(filepath.Join(bin, "my-acp"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// acp makes the bench's sessions run an agent that speaks ACP.
func (b *bench) acp(turn string) {
	path := filepath.Join(acpStub(b.t, turn), "my-acp")
	b.program = func(p *session.Program) { p.CLI, p.Command = agents.ACP, []string{path, "--acp"} }
}

// An agent that speaks ACP writes, asks, is told something at the end of its turn, and goes on with its conversation.
func TestAgentACP(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.acp(`
if grep -q "use tabs" "$HOME/prompt"; then
	echo more > more.txt; git add more.txt; git commit -qm "Add more"; words Tabs.; return
fi
say '{"id":3,"method":"session/request_permission","params":
	{"toolCall":{"toolCallId":"a"},"options":[{"optionId":"yes","kind":"allow_once"}]}}'
read -r line; printf '%s\n' "$line" >> "$HOME/heard"
say '{"id":4,"method":"terminal/create","params":[]}'
read -r line; printf '%s\n' "$line" >> "$HOME/heard"
tool a
` + strings.ReplaceAll(writeOrder, stubDone, "\n") + tellLine(t, "use tabs") + `
words "All "; words done.`)
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "", inboxVar(t))
	if got := strings.Join(b.subjects(12), ", "); out.Heard != 1 || got != "Add more, Add the order" {
		t.Errorf("heard %d, got the commits %q", out.Heard, got)
	}
	text, err := os.ReadFile(filepath.Join(b.home("dev-qwen"), "heard"))
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, part := range []string{
		`"session/new"`, `Mind: a name may contain spaces.`, `"id":3,"jsonrpc":"2.0","result":{"outcome":{"optionId":"yes"`,
		`-32601`, "closed", `"session/load"`, "use tabs", "closed",
	} {
		next := strings.Index(string(text)[at+1:], part)
		if next < 0 {
			t.Fatalf("it has not heard %q after the rest:\n%s", part, text)
		}
		at += 1 + next
	}
	for _, want := range []string{"starting my-acp\n", "execute: make\n", "All done.\n", "told by johba", "Tabs.\n"} {
		if log := b.log.String(); !strings.Contains(log, want) || strings.Contains(log, "Replayed") {
			t.Errorf("the log does not have %q, or has what is history:\n%s", want, log)
		}
	}
	b.noSecrets()
}

// gemini loses conversations: what was to go on in one begins another.
func TestAgentACPForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.acp(`
if grep -q "use tabs" "$HOME/prompt"; then
	echo more > more.txt; git add more.txt; git commit -qm "Add more"; words Tabs.; return
fi
` + strings.ReplaceAll(writeOrder, stubDone, "\n") + tellLine(t, "use tabs") + `
words Done.; sed -i 's/"result":null/"error":{"code":-32603,"message":"No previous sessions found"}/' "$0"`)
	out := b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "", inboxVar(t))
	if got := strings.Join(b.subjects(12), ", "); out.Heard != 1 || got != "Add more, Add the order" {
		t.Errorf("heard %d, got the commits %q", out.Heard, got)
	}
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Mind: a name may contain spaces.") {
		t.Errorf("the new conversation does not have the task: %s", p)
	}
	if log := b.log.String(); !strings.Contains(log, "my-acp has lost its conversation; a new one begins") {
		t.Errorf("got the log\n%s", log)
	}
}

func TestAgentACPOutcomes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, tt := range []struct {
		name, turn string
		result     agents.Result
		reason     string
	}{
		{
			"costs too much", `update '"usage_update","cost":{"amount":0.2,"currency":"USD"}'; tool a; sleep 600`,
			agents.OverBudget, "$0.20",
		},
		{"is killed", `words Hm.; kill -9 $$`, agents.Killed, "my-acp: "},
		{"ends in the middle", `echo "Error: no key" >&2; exit 3`, agents.Unanswered, "exit status 3: Error: no key"},
		{
			"fails", `say '{"id":3,"error":{"code":429,"message":"quota, try again in 2 hours"}}'`, agents.Limited,
			"quota",
		},
		{"changes nothing", `words "Nothing to do."`, agents.NoProgress, "Nothing to do."},
	} {
		b.acp(tt.turn)
		out := b.run("dev-qwen", agents.KindIssue, 8, "", "DISINTO_BACKEND=anthropic", "DISINTO_MAX_USD=0.1")
		if out.Result != tt.result || !strings.Contains(out.Reason, tt.reason) {
			t.Errorf("%s: got %s %q, want %s %q", tt.name, out.Result, out.Reason, tt.result, tt.reason)
		}
	}
}

// check starts the agent, and says what the protocol cannot.
func TestCheckACP(t *testing.T) {
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[roles.dev]\non = \"issue\"\ncommand",
		"[roles.dev]\non = \"issue\"\ncli = \"acp\"\nacp = [\"my-acp\", \"{{.Model}}\"]#")
	environ := append(f.environ(nil), "PATH="+acpStub(t, ":")+":"+os.Getenv("PATH"))
	got := disinto(t.Context(), environ, "check", "--offline", "--config", path)
	for _, want := range []string{"dev: my-acp starts", "role dev: my-acp speaks ACP: budgets in tokens do not count it"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("got\n%s, want %q", got.stdout, want)
		}
	}
	if got := disinto(t.Context(), environ, "agent", "--cli", "acp"); got.code != exitUsage {
		t.Errorf("an agent that speaks ACP starts without its command: %+v", got)
	}
}

// An agent that speaks ACP outlives the supervisor, and is told something between two calls of a tool.
func TestACPToldThroughKill(t *testing.T) {
	toldThroughKill(t, `cli = "acp"
acp = ["my-acp", "--model", "{{.Model}}"]`, func(heard string) string {
		return acpStub(t, `
if grep -q "use tabs" "$HOME/prompt"; then
`+strings.ReplaceAll(writeOrder, stubDone, "")+`
words Done.; return; fi
while [ ! -e `+heard+` ]; do sleep 0.1; done
while true; do tool a; sleep 1; done`)
	})
}
