package forgejo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// about returns a scan's facts about the repository.
func (w *world) about(c *Client) forge.Repo {
	w.Helper()
	r, ok := func() (forge.Repo, bool) { f := w.scan(c); return f.Repo(w.repo) }()
	if !ok {
		w.Fatalf("the scan lacks %s", w.repo)
	}
	return r
}

// TestRenamedElsewhere: a scan notices at once that the forge redirects it, and then every claim is refused.
func TestRenamedElsewhere(t *testing.T) {
	onEach(t, func(w *world) {
		c, n := w.client(), w.file("one", "", "backlog")
		w.scan(c)
		owner, name := owner(w.repo)
		new := name + "-renamed"
		_, _, err := w.as(w.owner).EditRepo(owner, name, gitea.EditRepoOption{Name: &new})
		w.must(err)
		want := w.repo + " is now " + owner + "/" + new + ": change [forge] repos"
		w.scan(c) // the redirect shows
		if got := w.about(c).Off; got != want {
			w.Errorf("Off is %q, want %q", got, want)
		}
		if err := c.Claim(w.Context(), w.ref(n), w.dev, "run-1"); !errors.Is(err, forge.ErrOff) &&
			!errors.Is(err, forge.ErrNotFound) {
			w.Errorf("Claim: got %v", err)
		}
		_, _, err = w.as(w.owner).EditRepo(owner, new, gitea.EditRepoOption{Name: &name})
		w.must(err)
		if r := w.about(c); r.Off != "" {
			w.Errorf("afterwards Off is %q", r.Off)
		}
	})
}

// TestMadeAnew: a repository that was deleted is a failed scan. One made anew under its name is seen to be empty, and
// to lack our accounts. Its issues are not the old ones.
func TestMadeAnew(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client(func(o *Options) { o.Token = w.tokens[w.owner] })
		w.file("one", "", "backlog")
		w.scan(c)
		owner, name := owner(w.repo)
		_, err := w.as(w.owner).DeleteRepo(owner, name)
		w.must(err)
		if _, err := c.Scan(w.Context()); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("deleted: the scan got %v", err)
		}
		_, _, err = w.as(w.owner).CreateRepo(gitea.CreateRepoOption{Name: name})
		w.must(err)
		until := func(what string, seen func(f *forge.Facts, r forge.Repo) bool) {
			w.Helper()
			for range 60 { // after a failed scan the next one waits
				f, _ := c.Scan(w.Context())
				if r, _ := f.Repo(w.repo); seen(&f, r) {
					return
				}
				time.Sleep(time.Second)
			}
			w.Errorf("no scan sees %s", what)
		}
		until("that it is empty", func(_ *forge.Facts, r forge.Repo) bool {
			return strings.Contains(r.Off, "is empty")
		})
		if err := c.MayWork(w.Context(), w.tokens[w.dev], w.repo); !errors.Is(err, forge.ErrNoAccess) {
			w.Errorf("an account without access: got %v", err)
		}
		w.commitAs(w.owner, "main", "", "a.txt", "a")
		until("the first commit", func(f *forge.Facts, r forge.Repo) bool {
			return r.Off == "" && !r.AsOf.IsZero() && len(f.Issues) == 0
		})
	})
}

// TestSettingsChange: a repository that was archived, or whose default branch has another name, shows within five
// minutes; a claim, and a pull request to the new branch, show it at once.
func TestSettingsChange(t *testing.T) {
	onLocal(t, func(w *world) {
		c, n := w.client(), w.file("one", "", "backlog")
		w.scan(c)
		owner, name := owner(w.repo)
		edit := func(o gitea.EditRepoOption) {
			w.Helper()
			_, _, err := w.as(w.owner).EditRepo(owner, name, o)
			w.must(err)
		}
		yes, no, main, trunk := true, false, "main", "trunk"
		w.commit(trunk, "main", "a.txt", "a")
		edit(gitea.EditRepoOption{DefaultBranch: &trunk})
		time.Sleep(settingsEvery + time.Second)
		if got := w.about(c).DefaultBranch; got != trunk {
			w.Errorf("after five minutes the default branch is %q", got)
		}
		edit(gitea.EditRepoOption{DefaultBranch: &main})
		time.Sleep(time.Minute)
		w.commit("topic", trunk, "b.txt", "b")
		_, _, err := w.as(w.dev).CreatePullRequest(owner, name,
			gitea.CreatePullRequestOption{Head: "topic", Base: main, Title: "Work"})
		w.must(err)
		w.scan(c)
		time.Sleep(time.Second)
		if got := w.about(c).DefaultBranch; got != main {
			w.Errorf("a pull request goes to main, and the default branch is %q", got)
		}
		time.Sleep(freshFor)
		edit(gitea.EditRepoOption{Archived: &yes})
		err = c.Claim(w.Context(), w.ref(n), w.dev, "run-1")
		if !errors.Is(err, forge.ErrOff) || !strings.Contains(err.Error(), "is archived") {
			w.Errorf("Claim: got %v", err)
		}
		if got := w.about(c).Off; !strings.Contains(got, "is archived") {
			w.Errorf("Off is %q", got)
		}
		edit(gitea.EditRepoOption{Archived: &no})
		if r := w.about(c); r.Off != "" {
			w.Errorf("afterwards Off is %q", r.Off)
		}
	})
}

// TestNoPush: what keeps every agent from pushing the branch of an issue shows before a session, and until it is gone.
func TestNoPush(t *testing.T) {
	onEach(t, func(w *world) {
		owner, name := owner(w.repo)
		w.commit("fix", "main", "a.txt", "a")
		c := w.client(func(o *Options) { o.Ours = func(login string) bool { return login == w.dev } })
		if got := w.about(c).NoPush; !strings.Contains(got, "has a branch named fix") {
			w.Errorf("a branch named fix: got %q", got)
		}
		_, _, err := w.as(w.owner).DeleteRepoBranch(owner, name, "fix")
		w.must(err)
		if got := w.about(c).NoPush; got != "" {
			w.Errorf("without the branch: got %q", got)
		}
		for _, row := range []struct {
			rule gitea.CreateBranchProtectionOption
			want bool
		}{
			{gitea.CreateBranchProtectionOption{RuleName: "main"}, false},
			{gitea.CreateBranchProtectionOption{RuleName: "*"}, false},
			{gitea.CreateBranchProtectionOption{RuleName: "FIX/*", EnablePush: true}, false},
			{gitea.CreateBranchProtectionOption{
				RuleName: "**", EnablePush: true, EnablePushWhitelist: true, PushWhitelistUsernames: []string{w.dev},
			}, false},
			{gitea.CreateBranchProtectionOption{
				RuleName: "**1", EnablePush: true, EnablePushWhitelist: true, PushWhitelistUsernames: []string{w.owner},
			}, true},
			{gitea.CreateBranchProtectionOption{RuleName: "fix/*"}, true},
		} {
			_, _, err := w.as(w.owner).CreateBranchProtection(owner, name, row.rule)
			w.must(err)
			c := w.client(func(o *Options) {
				o.Token, o.Ours = w.tokens[w.owner], func(login string) bool { return login == w.dev }
			})
			if got := w.about(c).NoPush; (got != "") != row.want || row.want && !strings.Contains(got, row.rule.RuleName) {
				w.Errorf("%s: got %q, want a reason: %v", row.rule.RuleName, got, row.want)
			}
			if row.want {
				_, err := w.as(w.owner).DeleteBranchProtection(owner, name, row.rule.RuleName)
				w.must(err)
			}
		}
	})
}

// TestLacksLFS: nothing is done in a repository that uses Git LFS while git-lfs is missing.
func TestLacksLFS(t *testing.T) {
	onEach(t, func(w *world) {
		lacks := true
		client := func() *Client { return w.client(func(o *Options) { o.LacksLFS = func() bool { return lacks } }) }
		w.commit("main", "", ".gitattributes", "# *.png filter=lfs\n*.jpg filter=lfsx\n")
		if r := w.about(client()); r.Off != "" {
			w.Errorf("it does not use Git LFS, and Off is %q", r.Off)
		}
		w.commit("main", "", ".gitattributes", "*.jpg -text\n*.bin filter=lfs diff=lfs merge=lfs -text\n")
		c := client()
		if r := w.about(c); !strings.Contains(r.Off, "git-lfs is not installed") || !r.AsOf.IsZero() {
			w.Errorf("got %+v", r)
		}
		lacks = false
		if r := w.about(c); r.Off != "" || r.AsOf.IsZero() {
			w.Errorf("with git-lfs: got %+v", r)
		}
	})
}

// TestEmptyRepository: nothing can be done in an empty repository, until it has a first commit.
func TestEmptyRepository(t *testing.T) {
	onEach(t, func(w *world) {
		_, name := owner(w.repo)
		in, _, err := w.as(w.owner).CreateRepo(gitea.CreateRepoOption{Name: name + "-empty"})
		w.must(err)
		w.collaborator(in.FullName, w.boss, gitea.AccessModeWrite)
		w.repo = in.FullName
		c := w.client()
		if r := w.about(c); !strings.Contains(r.Off, "is empty") || !r.AsOf.IsZero() {
			w.Errorf("got %+v", r)
		}
		if err := c.MayWork(w.Context(), w.tokens[w.boss], w.repo); !errors.Is(err, forge.ErrOff) {
			w.Errorf("MayWork: got %v", err)
		}
		_, _, err = w.as(w.owner).CreateFile(w.owner, name+"-empty", "README.md", gitea.CreateFileOptions{Content: "eA=="})
		w.must(err)
		if r := w.about(c); r.Off != "" || r.AsOf.IsZero() {
			w.Errorf("with a commit: got %+v", r)
		}
	})
}
