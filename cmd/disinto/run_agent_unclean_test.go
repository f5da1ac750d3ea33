package main

import (
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// commitAs commits a file to a branch as a person.
func (b *bench) commitAs(branch, name string) {
	b.t.Helper()
	human := rest.API{URL: b.URL, Token: b.HumanToken}
	form := map[string]any{"content": "eA==", "message": "Add " + name, "branch": branch}
	if err := human.Post(b.t.Context(), "/repos/"+demo.Repo+"/contents/"+name, form, nil); err != nil {
		b.t.Fatal(err)
	}
}

// An agent that commits conflict markers is asked once to resolve them. Those that it says belong there stay.
func TestAgentConflictMarkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.commitAs("main", "order.txt")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `
if grep -q "conflict markers" "$HOME/prompt"; then echo both > order.txt; git commit -qam resolved; else
git merge -q origin/main >/dev/null; git add -A; git commit -qm merged; fi`+stubDone, "DISINTO_CAUSE=conflict")
	if got := b.subjects(12); got[0] != "resolved" {
		t.Errorf("got the commits %q", got)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `
if ! grep -q "conflict markers" "$HOME/prompt"; then
printf '<<<<<<< a\n=======\n>>>>>>> b\n' > test.txt; git add .; git commit -qm test; fi
`+stubDone)
	if got := b.subjects(12); got[0] != "test" {
		t.Errorf("got the commits %q", got)
	}
	const want = "It adds conflict markers (<<<<<<< and >>>>>>>) to `%s`. Resolve these conflicts, and commit that. " +
		"Leave markers that belong to a file, such as a test."
	all := []string{strings.ReplaceAll(want, "%s", "order.txt"), strings.ReplaceAll(want, "%s", "test.txt")}
	if got := b.nudged(); !slices.Equal(got, all) {
		t.Errorf("got the messages %q, want %q", got, all)
	}
}

// A clone or a worktree within the repository, which `git add .` commits as a submodule that nobody can check out, is
// not pushed. The agent is asked once to take it out.
func TestAgentNestedRepository(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const inside = ".claude/worktrees/agent-1"
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
if grep -q "git rm --cached" "$HOME/prompt"; then git rm -q --cached `+inside+`; git commit -qm out; else
git worktree add -q `+inside+` -b x; echo order > order.txt; git add . 2>/dev/null; git commit -qm order; fi`+stubDone)
	if got := b.files("fix/issue-8"); !slices.Equal(got, []string{"README.md", "order.txt"}) {
		t.Errorf("got the files %q", got)
	}
}

// What a person pushes to the branch during a session is merged into the agent's work, if git can do that alone.
func TestAgentTakesPushIn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	remote := "http://x:" + b.HumanToken + "@" + strings.TrimPrefix(b.URL, "http://") + "/" + demo.Repo + ".git"
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12,
		`(cd "$HOME"; git clone -q -b fix/issue-8 `+remote+` other; cd other; echo x > person.txt; git add .
git commit -qm theirs; git push -q); echo more >> order.txt; git commit -qam more`+stubDone)
	if got := b.files("fix/issue-8"); !slices.Equal(got, []string{"README.md", "order.txt", "person.txt"}) {
		t.Errorf("got the files %q", got)
	}
}

// The branch of an interrupted rework is deleted when the next session has handed in its work.
func TestAgentDropsTakenBranches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	for _, half := range []string{"one", "two"} { // the second one continues the first
		b.want(agents.Failed, "", "dev-qwen", agents.KindRework, 12,
			"echo "+half+" >> order.txt; git commit -qam "+half+stubAnswer+"exit 3")
	}
	if got := b.branches("wip/"); len(got) != 2 {
		t.Errorf("after two interrupted sessions: got the branches %q", got)
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, "grep -q two order.txt || exit 9\n"+
		"echo more >> order.txt; git commit -qam more"+stubDone)
	if got := b.branches("wip/"); len(got) > 0 {
		t.Errorf("after the hand-in: got the branches %q", got)
	}
}
