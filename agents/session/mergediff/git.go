package mergediff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// emptyTree is the id of the tree without files, which git knows without an object.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// repo is an empty repository of our own that borrows the objects of another one.
type repo struct {
	run     func(context.Context, agents.Cmd) error
	environ []string
	dir     string
	most    int // bytes of the longest patch that is held
}

// open makes the repository.
func open(
	ctx context.Context, run func(context.Context, agents.Cmd) error, environ []string, objects string, most int,
) (g *repo, err error) {
	g = &repo{run: run, most: most}
	if g.dir, err = os.MkdirTemp("", "disinto-merge-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	g.environ = agents.Setenv(environ, []string{
		"GIT_DIR=" + g.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
		"GIT_ATTR_SOURCE=" + emptyTree, "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C",
		// Without core.attributesFile, git reads ~/.config/git/attributes even if there is no configuration.
		"GIT_CONFIG_COUNT=3", "GIT_CONFIG_KEY_0=core.attributesFile", "GIT_CONFIG_VALUE_0=" + os.DevNull,
		"GIT_CONFIG_KEY_1=core.bigFileThreshold", fmt.Sprint("GIT_CONFIG_VALUE_1=", maxText),
		"GIT_CONFIG_KEY_2=core.quotePath", "GIT_CONFIG_VALUE_2=false",
		"GIT_AUTHOR_NAME=disinto", "GIT_AUTHOR_EMAIL=", "GIT_COMMITTER_NAME=disinto", "GIT_COMMITTER_EMAIL=",
	})
	if err := g.do(ctx, nil, io.Discard, "init", "--quiet", "--bare", "--template=", g.dir); err != nil {
		return nil, err
	}
	info := filepath.Join(g.dir, "objects", "info")
	if err := os.MkdirAll(info, 0o700); err != nil {
		return nil, err
	}
	return g, os.WriteFile(filepath.Join(info, "alternates"), []byte(objects+"\n"), 0o600)
}

func (g *repo) close() { _ = os.RemoveAll(g.dir) }

// do runs git. Its error has git's words.
func (g *repo) do(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	var words bytes.Buffer
	err := g.run(ctx, agents.Cmd{
		Argv: append([]string{"git"}, args...), Dir: g.dir, Env: g.environ, Stdin: in, Stdout: out, Stderr: &words,
	})
	if err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(words.String()))
	}
	return nil
}

// read runs git and returns its output without the last newline, also with an error.
func (g *repo) read(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.do(ctx, nil, &out, args...)
	return strings.TrimRight(out.String(), "\n"), err
}

// mergeBases returns the merge bases of two commits, at least one. The forge takes the first.
func (g *repo) mergeBases(ctx context.Context, base, head string) ([]string, error) {
	out, err := g.read(ctx, "merge-base", "--all", base, head)
	switch {
	case out != "":
		return strings.Fields(out), nil
	case err != nil && ctx.Err() == nil && g.do(ctx, nil, io.Discard, "cat-file", "-e", head) == nil:
		return nil, errors.New("the branch and its base have no common commit")
	}
	return nil, err
}

// outcome is what a merge makes.
type outcome struct {
	tree     string // empty in a conflict, and if this git cannot tell
	conflict bool
	head     bool // the tree is that of the head, which has all of the base
	rebased  bool // the tree is that of a rebase, which differs from that of a merge
	untried  bool // the forge rebases, and nobody knows what comes out
}

// result returns what the forge would make of a change. A rebase that does not succeed is refused by the forge; then
// the merge says most about the change.
func (g *repo) result(ctx context.Context, c Change) (m outcome, err error) {
	if g.do(ctx, nil, io.Discard, "merge-base", "--is-ancestor", c.Base, c.Head) == nil {
		m.head = true
		m.tree, err = g.read(ctx, "rev-parse", c.Head+"^{tree}")
	} else {
		m.tree, m.conflict, err = g.merge(ctx, c.Base, c.Head)
	}
	if err != nil || m.tree == "" || !c.Rebases {
		return m, err
	}
	out, err := g.read(ctx, "rev-list", "--reverse", "--topo-order", "--no-merges", "--right-only", "--cherry-pick",
		c.Base+"..."+c.Head)
	commits := strings.Fields(out)
	if err != nil || len(commits) > maxCommits {
		m.untried = true
		return m, err
	}
	tree, err := g.rebase(ctx, c.Base, commits)
	if err == nil && tree != "" && tree != m.tree {
		m.tree, m.rebased, m.head = tree, true, false
	}
	return m, err
}

// merge returns the tree of a merge of two commits; empty if they conflict, or if this git is older than 2.38.
func (g *repo) merge(ctx context.Context, base, head string) (tree string, conflict bool, err error) {
	out, err := g.read(ctx, "merge-tree", "--write-tree", "--name-only", "--no-messages", base, head)
	tree, _, _ = strings.Cut(out, "\n")
	switch {
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case objectID(tree) && err != nil: // a conflict: the tree has markers, and git exits with 1
		return "", true, nil
	case objectID(tree):
		return tree, false, nil
	case err != nil && strings.Contains(err.Error(), "usage: git merge-tree"):
		return "", false, nil
	case err == nil:
		err = fmt.Errorf("git merge-tree: cannot read %.100q", out)
	}
	return "", false, err
}

func objectID(word string) bool {
	return len(word) >= 40 && strings.Trim(word, "0123456789abcdef") == ""
}

// maxCommits bounds the commits of a rebase that is tried: each costs five runs of git.
const maxCommits = 200

// rebase returns the tree that a rebase of some commits onto base makes; empty if it conflicts. git merge-tree has no
// --merge-base before 2.40. So each commit is made again without a history, beside what it has to be applied to, on a
// common parent with the tree of its own parent: a merge of the two applies it.
func (g *repo) rebase(ctx context.Context, base string, commits []string) (tree string, err error) {
	if tree, err = g.read(ctx, "rev-parse", base+"^{tree}"); err != nil {
		return "", err
	}
	for _, commit := range commits {
		before, err := g.read(ctx, "rev-parse", "--verify", "--quiet", commit+"^^{tree}")
		if err != nil {
			before = emptyTree // the first commit of a history
		}
		parent, err := g.commit(ctx, before)
		if err != nil {
			return "", err
		}
		onto, err := g.commit(ctx, tree, "-p", parent)
		if err != nil {
			return "", err
		}
		change, err := g.commit(ctx, commit+"^{tree}", "-p", parent)
		if err != nil {
			return "", err
		}
		if tree, _, err = g.merge(ctx, onto, change); err != nil || tree == "" {
			return "", err
		}
	}
	return tree, nil
}

func (g *repo) commit(ctx context.Context, tree string, more ...string) (string, error) {
	return g.read(ctx, append([]string{"commit-tree", tree, "-m", "applied"}, more...)...)
}
