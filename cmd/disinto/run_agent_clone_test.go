package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// cloneCommands are git commands that an agent may run, by what they do to the clone that all its worktrees share.
var cloneCommands = []struct{ name, script string }{
	{"a proxy", `git config http.proxy http://127.0.0.1:1`},
	{"another address", `git config url.http://127.0.0.1:1/.insteadOf "$FORGE_URL/"; git remote set-url origin http://127.0.0.1:1/x`},
	{"everything excluded", `echo '*' > "$(git rev-parse --git-common-dir)/info/exclude"`},
	{"a branch called origin/main", `git branch origin/main`},
	{"a tag called origin/main", `git tag origin/main`},
	{"a broken file", `echo '[[[' >> "$(git rev-parse --git-common-dir)/config"`},
	{"only at make check", ""},
	{"another format", `git config core.repositoryformatversion 7`},
	{"another hash", `git config extensions.objectFormat sha256`},
	{"no protocol", `git config protocol.allow never`},
	{"a sparse checkout", `git sparse-checkout set --no-cone nothing`},
	{"a shallow clone", `git rev-parse HEAD > "$(git rev-parse --git-common-dir)/shallow"`},
	{"another history", `git replace --graft HEAD`},
	{"a switched branch", `git switch -qc other`},
	{"a second worktree", `git worktree add -q --force ../second fix/issue-8; git worktree lock ../second`},
	{"a moved worktree", `git worktree move . ../moved; git worktree lock ../moved`},
	{"no unreachable objects", `git reflog expire --expire=now --all; git gc -q --prune=now`},
	{"no remote branches", `git for-each-ref --format='delete %(refname)' refs/remotes | git update-ref --stdin`},
	{"a push of everything", `git push --quiet --mirror origin && exit 9`},
	{"a worktree's folder as the work tree", `git config core.bare false; git config core.worktree /nowhere`},
}

// No git command of one session keeps the agent's later sessions from their work, or loses another chain's work.
func TestAgentHarmsItsClone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.want(agents.Failed, "", "dev-qwen", agents.KindIssue, 7, `echo c > c.txt; git add c.txt; git commit -qm c
echo more >> c.txt; echo s > s.txt; git add s.txt; echo u > u.txt`+stubAnswer+`exit 3`, "DISINTO_WORKSPACE="+b.chain(7))
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder, "DISINTO_WORKSPACE="+b.chain(8))
	for _, c := range cloneCommands {
		if c.script == "" && !storms() {
			break
		}
		b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `test -f order.txt && test -f README.md || exit 8
echo more >> order.txt; git commit -qam "`+c.name+`"
`+c.script+stubDone, "DISINTO_WORKSPACE="+b.chain(8))
		if got := b.subjects(12); got[0] != c.name {
			t.Errorf("%s: got the commits %q", c.name, got)
		}
	}
	b.want(agents.Done, "opened #13", "dev-qwen", agents.KindIssue, 7, `grep -q more c.txt && test -f s.txt && test -f u.txt || exit 9
git add .; git commit -qm d`+stubDone, "DISINTO_WORKSPACE="+b.chain(7))
	if got := b.branches(""); len(got) != 3 || !slices.Contains(got, "main") {
		t.Errorf("got the branches %q", got)
	}
}

// A clone or a worktree that a kill left half made, or a power failure damaged, costs one session at most, and no
// attempt.
func TestAgentCloneDamaged(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script string
		again        bool // the first session after it finds the damage
	}{
		{name: "an empty folder", script: `mkdir repo`},
		{name: "a worktree that is being made", script: `mkdir -p repo $M/worktrees/repo
echo "gitdir: $M/worktrees/repo" > repo/.git; echo "$PWD/repo/.git" > $M/worktrees/repo/gitdir
echo initializing > $M/worktrees/repo/locked`},
		{name: "its folder is gone", script: `mkdir -p $M/worktrees/repo; echo "$PWD/repo/.git" > $M/worktrees/repo/gitdir
echo initializing > $M/worktrees/repo/locked; echo ../.. > $M/worktrees/repo/commondir
echo "ref: refs/heads/fix/issue-8" > $M/worktrees/repo/HEAD`},
		{name: "a clone that is being made", script: `rm -rf $M/HEAD $M/refs; : > $M/config`},
		{name: "an empty object", script: `for f in $(find $M/objects -type f); do chmod u+w $f; : > $f; done`, again: true},
		{name: "an empty ref", script: `: > $M/refs/remotes/origin/main`, again: true},
	}
	for _, tt := range tests {
		b := newBench(t)
		b.want(agents.Failed, "", "dev-qwen", agents.KindIssue, 7, `echo c > c.txt; git add c.txt
git config --file "$HOME/.gitconfig" url.http://127.0.0.1:1/.pushInsteadOf "$FORGE_URL/"`+stubAnswer+`exit 3`)
		mirror := filepath.Join(b.home("dev-qwen"), "mirrors", "ada_teashop.git")
		for _, path := range []string{
			b.workspace("dev-qwen"), filepath.Join(mirror, "worktrees"), filepath.Join(b.home("dev-qwen"), ".gitconfig"),
		} {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(b.workspace("dev-qwen"), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := agents.Cmd{
			Argv: []string{"sh", "-ec", tt.script}, Dir: b.workspace("dev-qwen"),
			Env: withEnv(os.Environ(), []string{"M=" + mirror}),
		}
		if err := sessionRun(b.reaper)(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
		if tt.again {
			b.want(agents.Unanswered, "git fetch", "dev-qwen", agents.KindIssue, 8, writeOrder)
			if beside, err := filepath.Glob(filepath.Dir(mirror) + "/*"); err != nil || !slices.Equal(beside, []string{mirror}) {
				t.Errorf("got the clones %q, %v, want a new one only", beside, err)
			}
			if _, err := os.Stat(filepath.Join(b.workspace("dev-qwen"), "damaged.git", "objects")); err != nil {
				t.Error(err) // retention deletes workspaces
			}
		}
		if b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder); tt.name == "an empty ref" {
			if got := b.kept("dev-qwen"); !strings.Contains(got, "c.txt") {
				t.Errorf("got the kept work %q", got)
			}
		}
	}
}
