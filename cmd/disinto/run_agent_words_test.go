package main

import (
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge"
)

// What a model writes becomes our words on the forge. They contain no secret of the session, wherever they go.
func TestAgentPostsNoSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const key = "sk-live-0123456789"
	vars := []string{"OPENAI_API_KEY=" + key, "ANTHROPIC_API_KEY=none", "LLAMA_KEY=sk-no-key-required"}
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
echo '{"title":"Use '$OPENAI_API_KEY'","summary":"With '$FORGE_TOKEN', none and sk-no-key-required"}' > ../answer.json
`+writeOrder, vars...)
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12,
		`echo '{"verdict":"request_changes","summary":"Why '$FORGE_TOKEN'?","comments":[{"path":"order.txt","line":1,`+
			`"body":"And '$OPENAI_API_KEY'?"}]}' > ../verdict.json`+stubDone, vars...)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`echo '{"summary":"Now '$OPENAI_API_KEY'"}' > ../answer.json; echo x > x.txt; git add .; git commit -qm x`+stubDone,
		vars...)
	var pull struct{ Title, Body string }
	b.get("/pulls/12", &pull)
	want := "With [secret], none and sk-no-key-required"
	if pull.Title != "Use [secret] (created by dev-qwen)" || !strings.Contains(pull.Body, want) {
		t.Errorf("got the pull request %+v, want %q", pull, want)
	}
	reviews, err := b.desk("dev-qwen").Reviews(b.ctx, forge.Ref{Repo: demo.Repo, Number: 12})
	if err != nil || len(reviews) != 1 {
		t.Fatalf("got the reviews %+v, %v", reviews, err)
	}
	var comments []struct{ Body string }
	if b.get("/issues/12/comments", &comments); len(comments) != 1 {
		t.Fatalf("got the comments %+v", comments)
	}
	for _, said := range []string{reviews[0].Body, comments[0].Body} {
		if !strings.Contains(said, "[secret]") || strings.Contains(said, key) {
			t.Errorf("got %q, want [secret] in it", said)
		}
	}
}

// Code is never altered: a secret in a commit or in its message stops the push, and the agent is told. Where it does
// not help itself, the work stays in its clone.
func TestAgentPushesNoSecret(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	vars := []string{"OPENAI_API_KEY=sk-live-0123456789"}
	const reason = "a commit contains the value of $OPENAI_API_KEY, so that nothing is pushed"
	b.want(agents.Failed, reason, "dev-qwen", agents.KindIssue, 8,
		`echo "k=$OPENAI_API_KEY" > k.txt; git add k.txt; git commit -qm k
git rm -q k.txt; echo x > x.txt; git add .; git commit -qm gone`+stubDone, vars...)
	if got := b.branches("fix/"); len(got) > 0 || !strings.Contains(b.kept("dev-qwen"), "k.txt") {
		t.Errorf("got the branches %q, and in the clone %s", got, b.kept("dev-qwen"))
	}
	if got := b.nudged(); len(got) != 1 || !strings.Contains(got[0], reason) {
		t.Errorf("got the messages %q", got)
	}
	b.want(agents.Failed, reason, "dev-qwen", agents.KindIssue, 8,
		`git reset -q --hard origin/main; echo x > x.txt; git add .; git commit -qm "With $OPENAI_API_KEY"`+stubDone, vars...)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8,
		`if grep -q "The change cannot be pushed" "$HOME/prompt"; then git commit -q --amend -m "Without it"; else
echo order > order.txt; git add .; git commit -qm more --amend -m "Still $OPENAI_API_KEY"; fi`+stubDone, vars...)
	if got := b.subjects(12); !slices.Equal(got, []string{"Without it"}) {
		t.Errorf("got the commits %q", got)
	}
	if got := b.branches("wip/"); len(got) > 0 {
		t.Errorf("got the branches %q", got)
	}
}

// Text from a model closes only the item's own issue, and those that people asked to close.
func TestAgentClosesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "The change cannot be pushed" "$HOME/prompt"; then git commit -q --amend -m "As for #2. Fixes #8"; else
echo '{"title":"Sibling fixes #2","summary":"Resolves #8, closes #3 and ada/other#1"}' > ../answer.json
echo order > order.txt; git add .; git commit -qm "The same approach fixes #2 too. Fixes #8"; fi`+stubDone)
	if got := b.nudged(); len(got) != 1 || !strings.Contains(got[0], "`fixes #2` Reword them") {
		t.Errorf("got the messages %q", got)
	}
	var pull struct{ Title, Body string }
	b.get("/pulls/12", &pull)
	const body = "created by dev-qwen\n\nResolves #8, closes `#3` and ada/other#1\n\nFixes #8"
	if pull.Title != "Sibling fixes `#2` (created by dev-qwen)" || pull.Body != body {
		t.Errorf("got the pull request %+v, want the text %q", pull, body)
	}
	b.want(agents.Question, "", "dev-qwen", agents.KindRework, 12,
		`echo more > more.txt; git add .; git commit -qm "Closes #3"`+stubDone)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, stubDone) // after a person's answer
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "the forge would close other issues") ||
		!strings.Contains(p, "`Closes #3`") {
		t.Errorf("the reviewer is not told:\n%s", p)
	}
	b.merge(12)
	for issue, want := range map[string]string{"2": "open", "8": "closed"} {
		var is struct{ State string }
		if b.get("/issues/"+issue, &is); is.State != want {
			t.Errorf("issue %s is %s, want %s", issue, is.State, want)
		}
	}
}
