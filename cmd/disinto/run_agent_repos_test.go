package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
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

// largeFiles makes the demo's repository one with a file in Git LFS, as a person.
func (b *bench) largeFiles() {
	b.t.Helper()
	lookPath(b.t, "git-lfs")
	clone := filepath.Join(b.t.TempDir(), "clone")
	remote := strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1) + "/" + demo.Repo
	b.git(b.dir, "clone", "--quiet", remote, clone)
	b.git(clone, "lfs", "install", "--local")
	b.git(clone, "lfs", "track", "*.bin")
	b.write(filepath.Join(clone, "old.bin"), strings.Repeat("old", 1000))
	b.git(clone, "add", ".")
	b.git(clone, "commit", "--quiet", "-m", "Add a large file")
	b.git(clone, "push", "--quiet", "origin", "HEAD:main")
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// A repository with Git LFS is checked out with the contents of its files, and a push brings the new ones to the forge,
// at the address of the forge. What the branch's .lfsconfig says does not count.
func TestAgentLargeFiles(t *testing.T) { onEachBench(t, largeFilesMerge) }

func largeFilesMerge(b *bench) {
	b.largeFiles()
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
test "$(head -c 6 old.bin)" = oldold || exit 9
printf '[lfs]\n\turl = http://127.0.0.1:1/x\n\tpushurl = http://127.0.0.1:1/x\n' > .lfsconfig
head -c 5000 /dev/zero > new.bin; cp old.bin same.bin; git add .; git commit -qm "Add a large file"`+stubDone)
	b.want(agents.Done, "approved", "review-sonnet", agents.KindReview, 12,
		`test "$(wc -c < "$DISINTO_WORKSPACE/repo/new.bin")" = 5000 || exit 9; `+approve)
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `rm -r "$HOME"/mirrors/*/lfs; echo x >> new.bin; `+
		`git rm -q .lfsconfig; git commit -qam "Change it"`+stubDone)
	b.merge(12)
	clone := filepath.Join(b.t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", b.URL+"/"+demo.Repo, clone)
	b.git(clone, "lfs", "install", "--local")
	b.git(clone, "lfs", "pull")
	if size := len(b.read(filepath.Join(clone, "new.bin"))); size != 5002 {
		b.t.Errorf("a new clone of main has %d bytes of new.bin, want 5002", size)
	}
	b.noSecrets()
}

// A pointer without content anywhere stays off the forge.
func TestAgentLostLargeFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.largeFiles()
	b.want(agents.Failed, "no content", "dev-qwen", agents.KindIssue, 8, `
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12\n' 7 > lost.bin
git add .; git commit -qm "Add a pointer"`+stubDone)
	if b.branches("fix/issue-8") != nil {
		t.Error("the pointer is on the forge")
	}
}

// Without git-lfs a session on such a repository does not begin, and no issue is to blame.
func TestAgentWithoutLFS(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.largeFiles()
	bin := stub(t, writeOrder)
	for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != "git-lfs" {
				_ = os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(bin, e.Name())) // the first of a name counts
			}
		}
	}
	b.want(agents.BackendDown, "git-lfs is not installed here", "dev-qwen", agents.KindIssue, 8, "", "PATH="+bin)
	if p, err := os.ReadFile(filepath.Join(b.home("dev-qwen"), "prompt")); err == nil {
		t.Errorf("the CLI was started with %s", p)
	}
}

// A refusal that the commits may have caused goes to the agent, once.
func TestAgentMendsRefusedPush(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	pushes := 0
	b.forge.SetHook(func(_, ref string) string {
		if pushes++; pushes > 1 || ref != "refs/heads/fix/issue-8" {
			return ""
		}
		return "the message lacks a ticket"
	})
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, `
grep -q "lacks a ticket" "$HOME/prompt" && git commit -q --amend -m "T-1: Add the order" && : mended`+stubDone+`
test -f order.txt && exit 0
`+writeOrder)
	if got := b.subjects(12); !slices.Equal(got, []string{"T-1: Add the order"}) {
		t.Errorf("got the commits %q", got)
	}
}

// Where no other commit would help, the session ends with the forge's words, which is no attempt. Its work is kept, and
// the next session pushes it without the model.
func TestAgentPushRefused(t *testing.T) { onEachBench(t, pushRefused) }

func pushRefused(b *bench) {
	rules := "/repos/" + demo.Repo + "/branch_protections"
	b.asAdmin(http.MethodPost, rules, map[string]any{"rule_name": "fix/*"})
	b.want(agents.PushRefused, "Not allowed to push to protected branch fix/issue-8", "dev-qwen", agents.KindIssue, 8,
		`echo '{"title":"Check orders","summary":"It checks."}' > "$DISINTO_WORKSPACE/answer.json";`+writeOrder)
	again := `exit 9` // the CLI is not started
	b.want(agents.PushRefused, "protected branch", "dev-qwen", agents.KindIssue, 8, again)
	b.asAdmin(http.MethodDelete, rules+"/fix%2F*", nil)
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, again)
	if n := strings.Count(b.read(filepath.Join(b.home("dev-qwen"), "args")), "\n"); n != 1 {
		b.t.Errorf("the CLI was started %d times, want 1", n)
	}
	var pull struct{ Title, Body string }
	if b.get("/pulls/12", &pull); pull.Title != "Check orders (created by dev-qwen)" ||
		pull.Body != "created by dev-qwen\n\nIt checks.\n\nFixes #8" {
		b.t.Errorf("got pull request %+v", pull)
	}
}

// A branch named fix leaves no room for fix/issue-8.
func TestAgentBranchNamedFix(t *testing.T) { onEachBench(t, branchNamedFix) }

func branchNamedFix(b *bench) {
	human := rest.API{URL: b.URL, Token: b.HumanToken}
	path := "/repos/" + demo.Repo + "/branches"
	if err := human.Post(b.t.Context(), path, map[string]any{"new_branch_name": "fix"}, nil); err != nil {
		b.t.Fatal(err)
	}
	b.want(agents.PushRefused, "the forge refuses the push: error: cannot lock ref", "dev-qwen", agents.KindIssue, 8,
		writeOrder)
}

// asAdmin sends a request as the forge's administrator.
func (b *bench) asAdmin(method, path string, form map[string]any) {
	b.t.Helper()
	if err := b.admin.Call(b.t.Context(), method, path, form, nil); err != nil {
		b.t.Fatal(err)
	}
}

// A forced push gave the default branch another history, as in a mirror whose original was rewritten. The next session
// starts from the new one, and a rework can move its branch there.
func TestAgentBaseReplaced(t *testing.T) { onEachBench(t, baseReplaced) }

func baseReplaced(b *bench) {
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, writeOrder)
	clone := filepath.Join(b.t.TempDir(), "clone")
	b.git(b.dir, "clone", "--quiet", strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1)+"/"+demo.Repo, clone)
	b.git(clone, "checkout", "--quiet", "--orphan", "new")
	b.git(clone, "mv", "README.md", "new.md")
	b.git(clone, "commit", "--quiet", "-m", "Start again")
	b.git(clone, "push", "--quiet", "--force", "origin", "HEAD:main")
	b.want(agents.Done, "opened #13", "dev-qwen", agents.KindIssue, 7,
		`test -f new.md && ! test -e README.md && test "$(git rev-list --count HEAD)" = 1 || exit 9; `+writeOrder,
		"DISINTO_WORKSPACE="+b.chain(7))
	b.want(agents.Done, "", "dev-qwen", agents.KindRework, 12, `git rebase -q --onto origin/main HEAD~1 || exit 9`+stubDone)
	if got := b.files("fix/issue-8"); !slices.Equal(got, []string{"new.md", "order.txt"}) {
		b.t.Errorf("after the rework the branch has the files %q", got)
	}
}

// submodule makes a private repository with one file a submodule of the demo's repository, as a person, beside one of
// another host.
func (b *bench) submodule() {
	b.t.Helper()
	owner, _, _ := strings.Cut(demo.Repo, "/")
	form := map[string]any{"name": "lib", "private": true, "auto_init": true, "default_branch": "main"}
	b.asAdmin(http.MethodPost, "/admin/users/"+owner+"/repos", form)
	b.asAdmin(http.MethodPost, "/repos/"+owner+"/lib/contents/x",
		map[string]any{"content": "eA==", "message": "Add x to the library"})
	for _, login := range []string{"dev-qwen", "review-sonnet"} {
		b.asAdmin(http.MethodPut, "/repos/"+owner+"/lib/collaborators/"+login, map[string]any{"permission": "read"})
	}
	clone := filepath.Join(b.t.TempDir(), "clone")
	at := strings.Replace(b.URL, "://", "://x:"+b.HumanToken+"@", 1) + "/"
	b.git(b.dir, "clone", "--quiet", at+demo.Repo, clone)
	b.git(clone, "submodule", "--quiet", "add", at+owner+"/lib", "lib")
	b.git(clone, "config", "--file", ".gitmodules", "submodule.lib.url", "../lib.git")
	for key, value := range map[string]string{"path": "evil", "url": "ext::sh -c touch% $HOME/evil-submodule"} {
		b.git(clone, "config", "--file", ".gitmodules", "submodule.evil."+key, value)
	}
	b.git(clone, "add", ".")
	b.git(clone, "commit", "--quiet", "-m", "Use the library")
	b.git(clone, "push", "--quiet", "origin", "HEAD:main")
}

// Submodules of the same forge are checked out, with the agent's rights; the prompt names the others. A commit within
// one that is on no branch there gets no pull request, and the agent is told so.
func TestAgentSubmodules(t *testing.T) { onEachBench(t, submodulesReview) }

func submodulesReview(b *bench) {
	b.submodule()
	b.want(agents.Failed, "is on no branch of its own repository", "dev-qwen", agents.KindIssue, 8, `
test -f lib/README.md || exit 9
echo dirt >> lib/README.md
git -C lib commit -qam "Only here" && git add lib && git commit -qm "Use it"; echo more >> lib/README.md`+stubDone)
	if p := b.prompt("dev-qwen"); !strings.Contains(p, "Your commits cannot be pushed") {
		b.t.Errorf("the agent was not told:\n%s", p)
	}
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 7,
		`grep -q "evil: ext::sh" "$HOME/prompt" && grep -q "is not on this forge" "$HOME/prompt" || exit 8
git -C lib checkout --quiet HEAD~1; git add lib; echo dirt >> lib/README.md; `+writeOrder,
		"DISINTO_WORKSPACE="+b.chain(7))
	b.want(agents.TooBig, "lib: submodule, from commit ", "review-sonnet", agents.KindReview, 12, approve)
	if p := b.prompt("review-sonnet"); !strings.Contains(p, "(rewind)") || !strings.Contains(p, "< Add x to the library") {
		b.t.Errorf("the review does not show the change of the submodule:\n%s", p)
	}
	if left := b.evil("dev-qwen"); len(left) > 0 {
		b.t.Errorf("the branch ran %q", left)
	}
	b.noSecrets()
}

// A worktree with submodules is deleted after a merge as any other is, unless one of them has work that exists nowhere
// else.
func TestAgentTidiesSubmodules(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.submodule()
	b.implement(1) // #12
	b.implement(2) // #13
	half := filepath.Join(b.chain(2), "repo", "lib", "half.txt")
	b.write(half, "half")
	b.merge(12)
	b.merge(13)
	b.implement(3)
	if exists(b.chain(1)) {
		t.Errorf("the worktree of a merged branch still exists\n%s", b.log.String())
	}
	if !exists(half) {
		t.Error("a file that exists nowhere else was deleted")
	}
}
