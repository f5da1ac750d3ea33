package session

import (
	"context"
	"path/filepath"
)

// setOrigin gives the mirror, and so each worktree, the remote origin that prompts and agents expect. Our own
// commands name the address instead, because an agent can change the remote. The address holds no credentials.
func (t *tree) setOrigin(ctx context.Context) error {
	const url, fetch, branches = "remote.origin.url", "remote.origin.fetch", "+refs/heads/*:" + remotes + "*"
	if at, _ := t.do(ctx, t.mirror, "config", "--local", "--get-all", url); at == t.url {
		return nil
	}
	if _, err := t.do(ctx, t.mirror, "config", "--local", "--replace-all", url, t.url); err != nil {
		return err
	}
	_, err := t.do(ctx, t.mirror, "config", "--local", "--replace-all", fetch, branches)
	return err
}

// setOriginHead makes origin/HEAD the default branch, where agents look for its name.
func (t *tree) setOriginHead(ctx context.Context, base string) error {
	_, err := t.do(ctx, t.mirror, "symbolic-ref", remotes+"HEAD", remotes+base)
	return err
}

// isOfMirror reports whether a folder is a worktree of one of the agent's mirrors.
func (t *tree) isOfMirror(ctx context.Context) bool {
	common, err := t.runGit(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return false
	}
	mirrors, err := filepath.EvalSymlinks(filepath.Dir(t.mirror))
	return err == nil && (filepath.Dir(common) == mirrors || filepath.Dir(common) == filepath.Dir(t.mirror))
}
