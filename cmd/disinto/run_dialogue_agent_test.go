package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// say comments as the demo's person and returns the comment's id.
func (b *bench) say(number int, words string) int64 {
	b.t.Helper()
	return b.testForge.say(b.HumanToken, number, words)
}

// lastArgs returns the arguments of the CLI's last run.
func (b *bench) lastArgs(agent string) string {
	lines := strings.Split(strings.TrimSpace(b.read(filepath.Join(b.home(agent), "args"))), "\n")
	return lines[len(lines)-1]
}

// asks is a CLI that starts the work and then asks. An agent's answer file is beside its worktree.
const asks = `
echo begun > half.txt
cat > ../answer.json <<'JSON'
{"question": "Which database?\n\n- <postgres>\n- @sqlite"}
JSON` + stubDone

// After a question, an agent continues the same conversation in its worktree with the answers. It does so even on
// another slot and on an API, where other sessions start a new conversation.
func TestQuestion(t *testing.T) {
	t.Parallel()
	workers := []string{"dev-sonnet"}
	if storms() {
		workers = append(workers, "dev-qwen")
	}
	for _, agent := range workers {
		b := newBench(t)
		if agent == "dev-sonnet" {
			b.Tokens[agents.TokenVar(agent)] = b.Tokens[agents.TokenVar("dev-qwen")]
		}
		first := b.want(agents.Question, "Which database?", agent, agents.KindIssue, 8, asks)
		if first.Words != "Which database?\n\n- <postgres>\n- @sqlite" || first.SessionID == "" {
			t.Errorf("%s: got %+v", agent, first)
		}
		id, other := b.say(8, "sqlite ~~~~ please"), b.say(8, "something else")
		b.want(agents.Done, "opened #12", agent, agents.KindIssue, 8, `test -f half.txt || exit 3
git add -A; git commit -qm "use it"`+stubDone, "DISINTO_SLOT=1", fmt.Sprintf("DISINTO_COMMENTS=%d", id))
		if !strings.Contains(b.lastArgs(agent), "--resume "+first.SessionID) {
			t.Errorf("%s does not resume: %s", agent, b.lastArgs(agent))
		}
		prompt := b.prompt(agent)
		if !strings.Contains(prompt, "~~~~~text\nsqlite ~~~~ please\n~~~~~") || strings.Contains(prompt, "something else") {
			t.Errorf("%s: want the answer and not comment %d in the prompt:\n%s", agent, other, prompt)
		}
		if !storms() {
			continue // TestAgentFlow shows that a review on an API starts a new conversation
		}
		b.want(agents.Done, "", agent, agents.KindRework, 12, `echo more >> half.txt; git commit -qam more`+stubDone)
		if strings.Contains(b.lastArgs(agent), "--resume "+first.SessionID) && agent == "dev-sonnet" {
			t.Errorf("%s resumes without a question: %s", agent, b.lastArgs(agent))
		}
	}
}

// A lost conversation, and one cut off by a usage limit, do not lose the person's answer.
func TestQuestionAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.want(agents.Question, "", "dev-qwen", agents.KindIssue, 8, asks)
	about := fmt.Sprintf("DISINTO_COMMENTS=%d", b.say(8, "the first one"))
	const limit = `
echo '{"type":"assistant","session_id":"'$id'","message":{"content":[{"type":"text","text":"..."}]}}'
echo '{"type":"result","subtype":"success","is_error":true,"session_id":"'$id'","result":"Claude AI usage limit reached|1999999999","usage":{}}'
exit 1
`
	resumed := 1
	if storms() {
		resumed = 2
		b.want(agents.Limited, "", "dev-qwen", agents.KindIssue, 8, limit, about, "DISINTO_SLOT=1")
	}
	b.want(agents.Question, "Which", "dev-qwen", agents.KindIssue, 8, `case "$(tail -1 "$HOME/args")" in
*--resume*) echo "No conversation found with session ID: $id" >&2; exit 1;;
esac`+asks, about, "DISINTO_SLOT=2")
	if strings.Contains(b.lastArgs("dev-qwen"), "--resume") {
		t.Errorf("no new conversation replaces the lost one: %s", b.lastArgs("dev-qwen"))
	}
	tried := b.read(filepath.Join(b.home("dev-qwen"), "args"))
	if strings.Count(tried, "--resume "+first.SessionID) != resumed {
		t.Errorf("the conversation is not resumed after the limit:\n%s", tried)
	}
	for _, part := range []string{"## Issue #8", "## What was planned or asked", "the first one"} {
		if !strings.Contains(b.prompt("dev-qwen"), part) {
			t.Errorf("the prompt of the new conversation lacks %q:\n%s", part, b.prompt("dev-qwen"))
		}
	}
}

// A planning session produces only a plan: the CLI's changes stay in the worktree. The code follows after the
// approval, in the same conversation.
func TestPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const plans = `
echo "code already" > code.txt; git add -A; git commit -qm code
cat > ../answer.json <<'JSON'
{"plan": "1. First\n2. Then"}
JSON` + stubDone
	first := b.want(agents.Planned, "1. First", "dev-qwen", agents.KindIssue, 8, plans, "DISINTO_CAUSE=plan")
	if first.Words != "1. First\n2. Then" {
		t.Errorf("got the plan %q", first.Words)
	}
	if !strings.Contains(b.prompt("dev-qwen"), "Plan the work on issue #8") {
		t.Errorf("got the prompt\n%s", b.prompt("dev-qwen"))
	}
	if got := b.branches("fix/issue-8"); len(got) != 0 {
		t.Errorf("got the pushed branches %v, want none", got)
	}
	id := b.say(8, "leave the second out")
	about := fmt.Sprintf("DISINTO_COMMENTS=%d", id)
	if storms() {
		b.want(agents.Planned, "", "dev-qwen", agents.KindIssue, 8, plans, "DISINTO_CAUSE=plan", about)
		if p := b.prompt("dev-qwen"); !strings.Contains(p, "leave the second out") ||
			!strings.Contains(p, "Write the plan now") {
			t.Errorf("the second plan: got the prompt\n%s", p)
		}
	}
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder, about)
	if !strings.Contains(b.lastArgs("dev-qwen"), "--resume "+first.SessionID) {
		t.Errorf("the session that codes does not resume: %s", b.lastArgs("dev-qwen"))
	}
}

// A session that splits an issue is told what is wrong with its plan, once, and what people answered. Its code stays in
// the worktree.
func TestSplit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const splits = `
echo "code already" > code.txt; git add -A; git commit -qm code
if grep -q "depends on .b., which is not a task" "$HOME/prompt"; then
	printf '%s' '{"plan": "## A\n\n## C\nDepends on: 1\n"}' > ../answer.json
else
	printf '%s' '{"plan": "## A\nDepends on: b\n"}' > ../answer.json
fi` + stubDone
	first := b.want(agents.Planned, "## A", "dev-qwen", agents.KindIssue, 8, splits, "DISINTO_CAUSE=split")
	if first.Words != "## A\n\n## C\nDepends on: 1" {
		t.Errorf("got the plan %q", first.Words)
	}
	if got := b.branches("fix/issue-8"); len(got) != 0 {
		t.Errorf("got the pushed branches %v, want none", got)
	}
	about := fmt.Sprintf("DISINTO_COMMENTS=%d", b.say(8, "three, please"))
	const three = `printf '%s' '{"plan": "## A\n## B\n## C\n"}' > ../answer.json` + stubDone
	b.want(agents.Planned, "## A ## B ## C", "dev-qwen", agents.KindIssue, 8, three, "DISINTO_CAUSE=split", about)
	p := b.prompt("dev-qwen")
	if !strings.Contains(p, "three, please") || !strings.Contains(p, "Write the plan of issues now") {
		t.Errorf("the second plan: got the prompt\n%s", p)
	}
	// A plan that stays wrong is the supervisor's to refuse.
	b.want(agents.Planned, "## A", "dev-qwen", agents.KindIssue, 9,
		`printf '%s' '{"plan": "## A\nDepends on: b\n"}' > ../answer.json`+stubDone, "DISINTO_CAUSE=split")
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "The plan cannot be used:") {
		t.Errorf("got the last prompt\n%s", p)
	}
}

// A planning session without a plan ends as no progress. A CLI that forgot its plan is reminded once.
func TestNoPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.NoProgress, "no plan", "dev-qwen", agents.KindIssue, 8, stubDone, "DISINTO_CAUSE=plan")
	b.want(agents.Planned, "late", "dev-qwen", agents.KindIssue, 9, `
grep -q "There is no plan yet" "$HOME/prompt" && echo '{"plan": "late"}' > ../answer.json`+stubDone, "DISINTO_CAUSE=plan")
}
