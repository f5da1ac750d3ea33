package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// All worktrees of an agent share its mirror, and any git command in one of them can change it. Of 39 such commands a
// proxy, an insteadOf, a format of another version, a clone of depth 1 and 8 others made every later session of the
// agent fail. So the mirror's settings are ours: a session begins and ends with these files as restore writes them.

// restore creates the mirror if it is missing, and removes from it what is not ours: settings, locks, the border of a
// shallow clone.
func (t *tree) restore(ctx context.Context) error {
	config := filepath.Join(t.mirror, "config")
	text := t.config()
	was, _ := plainfile.Read(config, maxLeft)
	if strings.Contains(string(was), `[filter "lfs"]`) {
		text += t.lfsConfig()
	}
	files := map[string]string{config: text}
	head := filepath.Join(t.mirror, "HEAD")
	if at, _ := plainfile.Read(head, maxLeft); !strings.HasPrefix(string(at), "ref: refs/heads/") {
		files[head] = "ref: refs/heads/main\n" // nothing uses it, but git demands it
	}
	for _, dir := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(t.mirror, dir), 0o700); err != nil {
			return err
		}
	}
	for path, text := range files {
		if at, err := plainfile.Read(path, maxLeft); err == nil && string(at) == text {
			continue
		}
		if err := errors.Join(os.RemoveAll(path), writeFile(path, []byte(text))); err != nil {
			return err
		}
	}
	t.unlock()
	for _, name := range []string{"info/grafts", "info/attributes"} {
		_ = os.RemoveAll(filepath.Join(t.mirror, name))
	}
	t.unshallow(ctx)
	return nil
}

// config returns the mirror's settings. The remote origin is what prompts and agents expect. Our own commands name the
// address instead. It holds no credentials. The logs of its branches show where work left one that was rewritten.
func (t *tree) config() string {
	return fmt.Sprintf(`[core]
	repositoryformatversion = 0
	filemode = true
	bare = true
	logAllRefUpdates = true
[remote "origin"]
	url = "%s"
	fetch = +refs/heads/*:%s*
`, configQuoted.Replace(t.url), remotes)
}

// configQuoted escapes a value in quotation marks in git's configuration.
var configQuoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// unlock removes the locks that a killed git left, also those of worktrees, without which git never forgets one whose
// folder is gone. No other git uses the mirror: an agent runs one session at a time, and the supervisor has ended every
// process of the previous session.
func (t *tree) unlock() {
	_ = filepath.WalkDir(t.mirror, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case entry.IsDir() && entry.Name() == "objects":
			return filepath.SkipDir
		case entry.IsDir():
		case strings.HasSuffix(path, ".lock"),
			entry.Name() == "locked" && filepath.Dir(filepath.Dir(path)) == filepath.Join(t.mirror, "worktrees"):
			_ = os.Remove(path)
		}
		return nil
	})
}

// unshallow completes the history that a `git fetch --depth` cut off: the forge accepts no push from a shallow clone.
func (t *tree) unshallow(ctx context.Context) {
	border := filepath.Join(t.mirror, "shallow")
	if _, err := os.Lstat(border); err != nil {
		return
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--unshallow", t.url, "+refs/heads/*:" + remotes + "*"}
	if _, err := t.ask(ctx, t.mirror, args...); err == nil {
		_ = os.RemoveAll(border) // names only what the forge does not know
	}
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

// inspectTime bounds the inspection of a mirror, which reads all commits and trees.
const inspectTime = 5 * time.Minute

// replaceDamaged replaces the mirror if a git command failed because it is damaged, as after a power failure or an
// `rm` in it: otherwise no session of the agent could ever begin again. The damaged one is set aside, and its
// branches and kept work are taken over as far as git can read them. It is deleted with the workspace.
func (r *run) replaceDamaged(ctx context.Context, cause error) {
	failed, ok := errors.AsType[*gitFailure](cause)
	if !ok || ctx.Err() != nil || strings.Contains(failed.said, "unable to access") ||
		strings.Contains(failed.said, "rejected]") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	t := r.tree
	_, err := t.do(ctx, t.mirror, "fsck", "--connectivity-only", "--no-dangling", "--no-progress")
	if err == nil || ctx.Err() != nil {
		return
	}
	aside := r.damagedPath()
	if err := errors.Join(os.RemoveAll(aside), os.Rename(t.mirror, aside)); err != nil {
		r.logf("cannot set the damaged clone aside: %v", err)
		return
	}
	r.logf("the clone %s is damaged (%v): it is now %s, and the next session makes a new one", t.mirror, err, aside)
	if err := t.fetch(ctx); err != nil {
		return
	}
	refs, err := t.do(ctx, aside, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/disinto")
	if err != nil {
		return
	}
	for ref := range strings.Lines(refs) {
		ref = strings.TrimSpace(ref)
		_, _ = t.do(ctx, t.mirror, "fetch", "--quiet", "--no-tags", aside, "+"+ref+":"+ref)
	}
}
