package session

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// A mirror keeps the newest thousand of the commits that no branch has.
func TestPruneKept(t *testing.T) {
	dir := t.TempDir()
	run := func(ctx context.Context, c agents.Cmd) error {
		cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr
		return cmd.Run()
	}
	environ := append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@b")
	kept := &tree{git: git{run: run, environ: environ}, mirror: dir}
	do := func(args ...string) string {
		t.Helper()
		out, err := kept.do(t.Context(), dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	do("init", "--quiet", "--bare", ".")
	tree := do("mktree") // empty
	commit := func(date string) string {
		kept.environ = append(kept.environ, "GIT_COMMITTER_DATE="+date)
		return do("commit-tree", tree, "-m", date)
	}
	older, newer := commit("2026-01-01T00:00:00Z"), commit("2026-02-01T00:00:00Z")
	var refs strings.Builder // sorted, as git wants them
	fmt.Fprintf(&refs, "%s %sa-old\n", older, keptRefs)
	fmt.Fprintf(&refs, "%s %sb-old\n", older, keptRefs)
	for n := range keptMost {
		fmt.Fprintf(&refs, "%s %snew-%04d\n", newer, keptRefs, n)
	}
	if err := os.WriteFile(dir+"/packed-refs", []byte(refs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	kept.pruneKept(t.Context())
	if left := do("for-each-ref", keptRefs); strings.Count(left, "new-") != keptMost || strings.Contains(left, "-old") {
		t.Errorf("got %d refs, old ones among them: %v", strings.Count(left, "\n")+1, strings.Contains(left, "-old"))
	}
}
