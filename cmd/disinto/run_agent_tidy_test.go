package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// chain returns the workspace of an issue's chain. As under a supervisor, each chain has its own.
func (b *bench) chain(issue int) string { return filepath.Join(b.dir, "chains", itoa(issue)) }

// implement has dev-qwen implement an issue in the chain's workspace.
func (b *bench) implement(issue int) {
	b.t.Helper()
	b.want(agents.Done, "opened #", "dev-qwen", agents.KindIssue, issue,
		fmt.Sprintf("echo order > order-%d.txt; git add .; git commit -q -m order", issue)+stubDone,
		"DISINTO_WORKSPACE="+b.chain(issue))
}

func (b *bench) merge(pull int) {
	b.t.Helper()
	human := rest.API{URL: b.URL, Token: b.HumanToken}
	form := map[string]any{"Do": "merge", "delete_branch_after_merge": true}
	var err error
	for range 40 { // a real forge first computes whether it merges
		err = human.Post(b.t.Context(), fmt.Sprintf("/repos/%s/pulls/%d/merge", demo.Repo, pull), form, nil)
		if err == nil || b.forge != nil {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) isThere(issue int) bool {
	_, err := os.Stat(filepath.Join(b.chain(issue), "repo"))
	return err == nil
}

// A worktree is deleted after its branch is merged, unless it has work that exists nowhere else.
func TestAgentTidiesMerged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.implement(1) // #12
	b.implement(2) // #13
	half := filepath.Join(b.chain(2), "repo", "half.txt")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !b.isThere(1) {
		t.Error("a worktree was deleted before its merge")
	}
	b.merge(12)
	b.merge(13)
	b.implement(3)
	if b.isThere(1) || exists(b.chain(1)) {
		t.Errorf("the worktree of a merged branch still exists\n%s", b.log.String())
	}
	if !exists(half) {
		t.Error("a file that exists nowhere else was deleted")
	}
}

// Of the worktrees that wait for a merge, only the newest are kept, so that disks do not fill up. A deleted one is
// recreated from the forge.
func TestAgentTidiesOldest(t *testing.T) {
	leftToStorms(t, "the worktrees of TestAgentTidiesMerged")
	t.Parallel()
	b := newBench(t)
	for issue := 1; issue <= 10; issue++ {
		b.implement(issue)
	}
	for issue := 1; issue <= 10; issue++ {
		if there := b.isThere(issue); there != (issue > 1) { // the session's own, and eight others
			t.Errorf("worktree of issue %d: got exists = %v", issue, there)
		}
	}
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `echo more >> order-1.txt; git commit -qam more`+stubDone,
		"DISINTO_WORKSPACE="+b.chain(1))
}
