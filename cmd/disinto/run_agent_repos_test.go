package main

import (
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// The worktree has the remote that agents expect, with the forge's default branch, and no credentials in its address.
func TestAgentHasOrigin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
test "$(git remote get-url origin)" = "`+b.URL+"/"+demo.Repo+`.git" || exit 7
test "$(git symbolic-ref --short refs/remotes/origin/HEAD)" = origin/main || exit 8
git merge-base --is-ancestor origin/main HEAD && git fetch -q origin && git status -sb >&2 || exit 9
`+writeOrder)
	b.noSecrets()
}
