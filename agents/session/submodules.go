package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// mostSubmodules bounds the submodules of a checkout, with theirs: a repository can be its own submodule.
const mostSubmodules = 100

// fillSubmodules checks the submodules of the worktree out, as far as they are on the forge, and notes the others in
// the prompt. The branch's author writes .gitmodules, so no other host is asked, in no other protocol.
func (r *run) fillSubmodules(ctx context.Context, d *promptData) {
	left := mostSubmodules
	absent := r.tree.fillSubmodules(ctx, r.ForgeURL, r.tree.dir, r.tree.url, &left)
	if len(absent) == 0 {
		return
	}
	r.logf("submodules that are not checked out: %s", strings.Join(absent, "; "))
	d.Absent = quoted(joined(string(d.Absent), "submodules:\n"+strings.Join(absent, "\n")))
}

// fillSubmodules checks out the submodules of the repository in a folder, which was cloned from an address. It returns
// those that it left out, with the reason. left is how many more it may check out.
func (t *tree) fillSubmodules(ctx context.Context, forge, dir, from string, left *int) (absent []string) {
	read := func(args ...string) (string, error) {
		return t.do(ctx, dir, append([]string{"config", "--blob", "HEAD:.gitmodules"}, args...)...)
	}
	paths, err := read("--get-regexp", `^submodule\..*\.path$`)
	if err != nil { // no .gitmodules
		return nil
	}
	for line := range strings.Lines(paths) {
		key, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		said, _ := read("--get", "submodule."+name+".url")
		at, ok := submoduleURL(forge, from, said)
		switch {
		case !ok:
			absent = append(absent, fmt.Sprintf("%s: %s is not on this forge", path, firstWords(said)))
			continue
		case *left <= 0:
			return append(absent, path+": there are too many submodules")
		}
		*left--
		settings := [][2]string{{"submodule." + name + ".url", at}, {"submodule." + name + ".update", "checkout"}}
		g := git{t.run, withSettings(t.environ, settings), t.forge, t.answers}
		scheme, _, _ := strings.Cut(forge, ":")
		g.environ = append(g.environ, "GIT_ALLOW_PROTOCOL="+scheme, "GIT_LFS_SKIP_SMUDGE=1")
		_, err := g.ask(ctx, dir, "submodule", "--quiet", "update", "--init", "--force", "--", path)
		if err != nil {
			absent = append(absent, path+": "+firstWords(err.Error()))
			continue
		}
		for _, one := range t.fillSubmodules(ctx, forge, filepath.Join(dir, path), at, left) {
			absent = append(absent, path+"/"+one)
		}
	}
	return absent
}

// submoduleURL returns the address of a submodule that a repository's .gitmodules names, if it is on the forge.
func submoduleURL(forge, from, said string) (at string, ok bool) {
	at = said
	if strings.HasPrefix(said, "./") || strings.HasPrefix(said, "../") {
		base, err := url.Parse(from)
		if err != nil {
			return "", false
		}
		at = base.JoinPath(said).String() // git resolves below the repository, not beside it
	}
	u, err := url.Parse(at)
	clean := err == nil && u.RawQuery == "" && u.Fragment == "" && u.User == nil && u.JoinPath().String() == at
	return at, clean && strings.HasPrefix(at, forge+"/")
}

// withSettings adds settings of git to an environment that newGit made.
func withSettings(environ []string, settings [][2]string) []string {
	n, _ := strconv.Atoi(agents.Getenv(environ, "GIT_CONFIG_COUNT"))
	var more []string
	for _, s := range settings {
		more = append(more, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s[1]))
		n++
	}
	return agents.Setenv(environ, append(more, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n)))
}

// errNoSubmodule means that a commit of a submodule cannot be checked out anywhere else.
var errNoSubmodule = errors.New("a submodule cannot be checked out anywhere else")

// checkSubmodules returns an error if the commits since one name a commit of a submodule that nobody else has, or that
// .gitmodules does not name: `git add .` makes that of a clone or a worktree within the repository, and no later
// `git submodule update` of anyone succeeds.
func (t *tree) checkSubmodules(ctx context.Context, since string) error {
	changed, err := t.runGit(ctx,
		"diff", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", since, "HEAD")
	if err != nil {
		return err
	}
	named, _ := t.runGit(ctx, "config", "--blob", "HEAD:.gitmodules", "--get-regexp", `^submodule\..*\.path$`)
	for line := range strings.Lines(changed) { // :160000 160000 OLD NEW M<tab>PATH
		meta, path, _ := strings.Cut(strings.TrimSpace(line), "\t")
		field := strings.Fields(meta)
		if len(field) != 5 || field[1] != "160000" {
			continue
		}
		if !strings.Contains("\n"+named+"\n", ".path "+path+"\n") {
			return fmt.Errorf("%w: %s is a repository of its own, which .gitmodules does not name; take it out with "+
				"git rm --cached, or add it with git submodule add", errNoSubmodule, path)
		}
		dir := filepath.Join(t.dir, path)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue // not checked out: the agent did not commit there
		}
		if on, err := t.do(ctx, dir, "branch", "--remotes", "--contains", field[3]); err != nil || on == "" {
			return fmt.Errorf("%w: the commit %.12s of %s is on no branch of its own repository", errNoSubmodule, field[3], path)
		}
	}
	return nil
}
