package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge/rest"
)

// profile creates an agent's profile repository with files.
func (b *bench) profile(agent string, files map[string]string) *rest.API {
	b.t.Helper()
	return b.profileAt(agent, agent+"-profile", files)
}

func (b *bench) profileAt(agent, name string, files map[string]string) *rest.API {
	b.t.Helper()
	token, err := b.forge.AddToken(forgeAdmin)
	if err != nil {
		b.t.Fatal(err)
	}
	admin := &rest.API{URL: b.URL, Token: token}
	form := map[string]any{"name": name, "private": true, "default_branch": "main"}
	if err := admin.Post(b.t.Context(), "/admin/users/"+agent+"/repos", form, nil); err != nil {
		b.t.Fatal(err)
	}
	var changes []map[string]string
	for name, text := range files {
		changes = append(changes, map[string]string{
			"operation": "create", "path": name,
			"content": base64.StdEncoding.EncodeToString([]byte(text)),
		})
	}
	self := &rest.API{URL: b.URL, Token: b.Tokens[agents.TokenVar(agent)]}
	seed := map[string]any{"message": "Seed", "branch": "main", "files": changes}
	if err := self.Post(b.t.Context(), "/repos/"+agent+"/"+name+"/contents", seed, nil); err != nil {
		b.t.Fatal(err)
	}
	return self
}

func raw(t *testing.T, a *rest.API, path string) string {
	t.Helper()
	var text []byte
	if err := a.Get(t.Context(), path, &text); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An agent reads its lessons and records each session. After enough records it learns from them.
func TestAgentProfile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	files := map[string]string{
		"lessons.md":     "Orders end in a newline.\n",
		"prompts/dev.md": "Mine: {{.Lessons}} {{.Title}}",
	}
	for i := range 9 {
		files[fmt.Sprintf("journal/20260101T00000%d-issue-x.md", i)] = fmt.Sprintf("Note %d.", i)
	}
	self := b.profile("dev-qwen", files)
	const repo = "/repos/dev-qwen/dev-qwen-profile"
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`echo '{"summary":"It checks."}' > "$DISINTO_WORKSPACE/answer.json";`+writeOrder)
	if p := b.prompt("dev-qwen"); p != "Mine: ~~~~text\nOrders end in a newline.\n~~~~ ~~~~text\n"+
		"Refuse an order without a name\n~~~~" {
		t.Errorf("got prompt %q", p)
	}
	var record struct {
		Outcome agents.Result
		Repo    string
		Number  int
		Usage   agents.Usage
	}
	lines := strings.Split(strings.TrimSpace(raw(t, self, repo+"/raw/record.jsonl")), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &record); err != nil || len(lines) != 1 || record.Outcome != agents.Done ||
		record.Number != 8 || record.Usage.OutputTokens != 20 {
		t.Errorf("got record %q, %+v, %v", lines, record, err)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `
if grep -q "You are dev-qwen. Below is" "$HOME/prompt"; then
  grep -q "Note 0." "$HOME/prompt" && grep -q "It checks." "$HOME/prompt" && echo "Learnt from the journal." > "$DISINTO_WORKSPACE/lessons.md"
else echo more >> order.txt; git commit -qam more; fi`+stubDone)
	if n := strings.Count(raw(t, self, repo+"/raw/record.jsonl"), "\n"); n != 2 {
		t.Errorf("got %d records, want 2", n)
	}
	if got := raw(t, self, repo+"/raw/lessons.md"); got != "Learnt from the journal.\n" {
		t.Errorf("got lessons %q\n%s", got, b.log.String())
	}
	if !storms() {
		return
	}
	b.want(agents.NoProgress, "", "dev-qwen", agents.KindIssue, 7, stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "repository has changed") &&
		!strings.Contains(p, "Learnt from the journal.") {
		t.Errorf("the next prompt lacks the lesson: %q", p)
	}
	if got := raw(t, self, repo+"/raw/lessons.md"); got != "Learnt from the journal.\n" ||
		strings.Count(b.log.String(), "starting claude") != 5 {
		t.Errorf("the agent learnt from the same records twice:\n%s", b.log.String())
	}
}

// A profile that upstream created is used unless the agent has one of disinto's.
func TestAgentUpstreamProfile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	self := b.profileAt("dev-qwen", ".profile", map[string]string{"lessons.md": "Learnt long ago.\n"})
	const script = stubDone + `echo '{"refused": "enough"}' > "$DISINTO_WORKSPACE/answer.json"`
	b.want(agents.Refused, "enough", "dev-qwen", agents.KindIssue, 8, script)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Learnt long ago.") {
		t.Errorf("the prompt lacks the lesson: %q", p)
	}
	if n := strings.Count(raw(t, self, "/repos/dev-qwen/.profile/raw/record.jsonl"), "\n"); n != 1 {
		t.Errorf("got %d records, want 1", n)
	}
	b.profile("dev-qwen", map[string]string{"lessons.md": "Learnt here.\n"})
	b.want(agents.Refused, "enough", "dev-qwen", agents.KindIssue, 8, script)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Learnt here.") || strings.Contains(p, "Learnt long ago.") {
		t.Errorf("the prompt lacks the lesson of disinto's profile: %q", p)
	}
}
