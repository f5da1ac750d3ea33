package main

import (
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// lastReview returns the state and the text of the last review of a pull request.
func (b *bench) lastReview(pull string) (state, body string) {
	b.t.Helper()
	var all []struct{ State, Body string }
	b.get("/pulls/"+pull+"/reviews", &all)
	if len(all) == 0 {
		return "", ""
	}
	last := all[len(all)-1]
	return last.State, last.Body
}

// A reviewer that has nothing against a change that it was not shown whole does not approve it on the forge: another
// host's supervisor, or the forge itself, would merge it.
func TestAgentReviewsTooBig(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
head -c 20000 /dev/zero > big.bin; head -c 9000 /dev/zero > small.bin; git add .; git commit -qm "Add it"`+stubDone)
	b.want(agents.TooBig, "big.bin: binary, 20000 bytes, blob ", "review-sonnet", agents.KindReview, 12, approve)
	state, body := b.lastReview("12")
	if state != "COMMENT" || !strings.Contains(body, "Good.\n\nThis was not shown whole") ||
		!strings.Contains(body, "- `big.bin: binary, 20000 bytes, blob ") || strings.Contains(body, "small.bin") {
		t.Errorf("got %s: %s", state, body)
	}
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "=== small.bin: binary, 9000 bytes, blob ") {
		t.Errorf("got the prompt\n%s", p)
	}
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12, objections)
	if state, _ := b.lastReview("12"); state != "REQUEST_CHANGES" {
		t.Errorf("got %s", state)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `git rm -q big.bin; git commit -qm "Remove it"`+stubDone)
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
}

// A long difference comes in parts, in one conversation. A verdict that the CLI writes before the last part does not
// count, and comments are placed on lines of any part.
func TestAgentReviewsInParts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
seq 1 50000 > long.txt; git add .; git commit -qm "Add it"`+stubDone)
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12, `
n=$(ls "$HOME" | grep -c part); cp "$HOME/prompt" "$HOME/part$n"
case $n in
2) echo '{"verdict":"request_changes","summary":"The last part.","comments":[{"path":"long.txt","line":49999,"body":"No."}]}' ;;
*) echo '{"verdict":"approve","summary":"The first part."}' ;;
esac > "$DISINTO_WORKSPACE/verdict.json"`+stubDone)
	if state, body := b.lastReview("12"); state != "REQUEST_CHANGES" || !strings.HasPrefix(body, "The last part.") ||
		strings.Contains(body, "No.") {
		t.Errorf("got %s: %s", state, body)
	}
	part := func(n string) string { return b.read(filepath.Join(b.home("review-sonnet"), "part"+n)) }
	for n, words := range map[string][]string{
		"0": {"\n+1\n", "you have part 1 of 3"},
		"1": {"This is part 2 of 3", "=== continued: diff --git a/long.txt b/long.txt\n", "Do not write your verdict yet."},
		"2": {"This is part 3 of 3", "\n+50000\n", "This is the last part."},
	} {
		for _, want := range words {
			if !strings.Contains(part(n), want) {
				t.Errorf("part %s lacks %q", n, want)
			}
		}
	}
	if args := b.lastArgs("review-sonnet"); !strings.Contains(args, "--resume") {
		t.Errorf("got %s, want the same conversation", args)
	}
	b.want(agents.TooBig, "the model has no room for part 2 of 3", "review-sonnet", agents.KindReview, 12, `
grep -q "part 2 of 3" "$HOME/prompt" || { `+approve+`
exit 0; }
echo '{"type":"result","subtype":"success","is_error":true,"terminal_reason":"prompt_too_long","session_id":"'$id'","result":"Prompt is too long"}'
exit 1`)
}

// A change that conflicts with its base is reviewed by what it is, and not approved: nobody knows what its merge does.
func TestAgentReviewsConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	human := rest.API{URL: b.URL, Token: b.HumanToken}
	form := map[string]any{"content": "eA==", "message": "Add another order"}
	if err := human.Post(b.t.Context(), "/repos/"+demo.Repo+"/contents/order.txt", form, nil); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Done, "it conflicts with main", "review-sonnet", agents.KindReview, 12, approve)
	if state, body := b.lastReview("12"); state != "COMMENT" || !strings.Contains(body, "so it is not approved") {
		t.Errorf("got %s: %s", state, body)
	}
}

// Where the forge rebases, the reviewer sees what the rebase does.
func TestAgentReviewsRebase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.commitToMain("other.txt")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `
git fetch -q origin; git merge -q --no-commit origin/main; echo guard > guard.txt; git add .; git commit -qm "Merge main"`+stubDone)
	owner := rest.API{URL: b.URL, Token: b.HumanToken}
	style := map[string]any{"default_merge_style": "rebase", "allow_rebase": true, "has_pull_requests": true}
	if err := owner.Call(b.t.Context(), "PATCH", "/repos/"+demo.Repo, style, nil); err != nil {
		t.Fatal(err)
	}
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12, approve)
	p := b.prompt("review-sonnet")
	first, second, found := strings.Cut(p, "=== Of these files, base...head is another difference.")
	if !found || strings.Contains(first, "+guard") || !strings.Contains(second, "+guard") {
		t.Errorf("got the prompt\n%s", p)
	}
}
