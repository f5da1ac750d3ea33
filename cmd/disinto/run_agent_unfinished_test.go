package main

import (
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// lastWords returns an end of a stub with these last words of the agent.
func lastWords(words string) string { return strings.ReplaceAll(stubDone, "All done.", words) }

// An agent that ends its turn to wait for something is asked once to go on: nobody will tell it, and half of its work
// would be handed in. One that has handed in its answer is not asked, nor one that speaks of something else.
func TestAgentWaits(t *testing.T) {
	t.Parallel()
	half := `echo half >> half.txt; git add .; git commit -qm half`
	tasks := `
echo '{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}'`
	answer := `
echo '{"title":"T"}' > ../answer.json`
	tests := []struct {
		name, script string
		asked        bool
	}{
		{"says so", half + lastWords("I have started the tests in the background and am waiting for them to finish."), true},
		{"has a task in the background", half + tasks + stubDone, true},
		{"has handed in", half + answer + tasks + lastWords("I am waiting for your review."), false},
		{"is done", half + lastWords("The queue no longer blocks while a worker sleeps."), false},
	}
	for _, tt := range tests {
		b := newBench(t)
		// The second run finishes the work.
		script := `case "$(cat "$HOME/prompt")" in "You have ended your turn"*)
echo rest > rest.txt; git add .; git commit -qm rest` + stubDone + `exit;; esac
` + tt.script
		b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, script)
		if got := len(b.subjects(12)) == 2; got != tt.asked {
			t.Errorf("%s: got commits %q, want asked %v\n%s", tt.name, b.subjects(12), tt.asked, b.log.String())
		}
	}
}

// A reviewer that approves and says that it still waits for somebody is asked once for its verdict. Findings that it
// calls minor do not turn its request for changes into an approval.
func TestAgentReviewsUnfinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	verdict := func(v, summary string) string {
		return `echo '{"verdict":"` + v + `","summary":"` + summary + `"}' > ../verdict.json`
	}
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12, `case "$(cat "$HOME/prompt")" in
"Your review does not count yet: it approves"*) `+verdict("request_changes", "My delegate found a mistake.")+`;;
*) `+verdict("approve", "Looks good so far; waiting for my delegates.")+`;; esac`+stubDone)
	b.want(agents.Done, "asked for changes", "review-sonnet", agents.KindReview, 12,
		verdict("request_changes", "All findings are minor (deferred): approve after them.")+stubDone)
}

// Commits that change nothing are no work: an empty pull request would be merged, and its issue closed. In a rework an
// empty commit starts the checks again.
func TestAgentEmptyCommits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	empty := `git commit -q --allow-empty -m "As asked"` + stubDone
	b.want(agents.NoProgress, "no commits that change anything", "dev-qwen", agents.KindIssue, 8, empty)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, empty)
}
