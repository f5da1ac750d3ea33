package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// rewriteMain replaces the default branch's newest commit on the forge, as a person.
func (b *bench) rewriteMain(file, text string) {
	b.t.Helper()
	remote := strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1) + "/ada/teashop.git"
	clone := filepath.Join(b.t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", remote, clone)
	b.git(clone, "reset", "--quiet", "--hard", "HEAD~1")
	if err := os.WriteFile(filepath.Join(clone, file), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.git(clone, "add", ".")
	b.git(clone, "commit", "--quiet", "-m", "Rewritten")
	b.git(clone, "push", "--quiet", "--force", "origin", "HEAD:main")
}

// A branch whose base was rewritten while it waited is rebased on the new one: the pull request shows none of the
// commits that the base has dropped, and does not bring them back. git does it, or else the agent is told how.
func TestAgentBaseRewritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.commitToMain("secret.txt")
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.rewriteMain("other.txt", "other")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `test -f secret.txt && exit 9
echo more >> order.txt; git commit -qam more`+stubDone)
	if got := b.subjects(12); !slices.Equal(got, []string{"more", "Add the order"}) {
		t.Errorf("got the commits %q", got)
	}
	b.rewriteMain("order.txt", "theirs")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `
fork=$(sed -n 's/.*git rebase --onto origin.main \([0-9a-f]*\).*/\1/p' "$HOME/prompt")
git rebase -q -X theirs --onto origin/main "$fork" || exit 9`+stubDone, "DISINTO_CAUSE=conflict")
	if got := b.subjects(12); !slices.Equal(got, []string{"more", "Add the order"}) {
		t.Errorf("with a conflict: got the commits %q", got)
	}
}

// A conflict that the forge reports and git does not see costs no run of the CLI: the base is merged, or the session
// says that there is nothing to merge.
func TestAgentNoConflict(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	b.commitToMain("elsewhere.txt")
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, "exit 9", "DISINTO_CAUSE=conflict")
	if got := b.subjects(12); len(got) != 2 || !strings.HasPrefix(got[0], "Merge") {
		t.Errorf("got the commits %q", got)
	}
	b.want(agents.NoProgress, "the branch has all of main", "dev-qwen", agents.KindRework, 12, "exit 9",
		"DISINTO_CAUSE=conflict")
	b.want(agents.Refused, "reopening the pull request makes the forge look again", "dev-qwen", agents.KindRework, 12,
		"exit 9", "DISINTO_CAUSE=conflict", "DISINTO_ATTEMPT=2")
}
