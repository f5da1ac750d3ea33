package rules

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
)

var gitRules = []rule{
	{
		"git accepts a token as the password of any user name",
		"agents/session, whose git credentials are the agent's login and token",
		tokenAsPassword,
	},
	{
		"Git LFS accepts a token as a password",
		"agents/session, which signs in so: with the header \"token\" Forgejo 10 panics at an upload",
		lfsPassword,
	},
	{
		"a private repository requires credentials",
		"agents/session, which always sends credentials",
		privateClone,
	},
	{
		"an account with read access cannot push",
		"agents/hire, which gives agents write access",
		pushRights,
	},
	{
		"a token's scopes also apply to git",
		"agents/hire, which requests write:repository",
		gitScopes,
	},
	{
		"a protected branch refuses pushes",
		"agents/session, which pushes only to its own branches",
		protectedPush,
	},
	{
		"a branch that has moved refuses a push, unless the push is forced",
		"agents/session, which pushes rework with --force-with-lease",
		forcedPush,
	},
	{
		"a push to the branch moves the pull request",
		"forge/forgejo, which sees the new head in the next scan, and a new updated_at later",
		pushMovesPull,
	},
	{
		"a commit that changes nothing leaves reviews fresh",
		"forge/forgejo, which compares commit_id with the head instead of trusting stale",
		emptyCommit,
	},
}

// checkout is a work tree of a repository for an account.
type checkout struct {
	r   *repo
	by  *account
	dir string
	at  string // the commit on which push makes its commits
}

// url returns the repository's address for git, without credentials.
func (r *repo) url() string { return r.w.server.URL + "/" + r.fullName() + ".git" }

// gitEnv returns git's environment with the account as author and committer, and its credentials. The token is passed
// in the environment, where no list of processes shows it.
func (a *account) gitEnv() []string {
	env := []string{
		"GIT_AUTHOR_NAME=" + a.name, "GIT_AUTHOR_EMAIL=" + a.name + "@example.invalid",
		"GIT_COMMITTER_NAME=" + a.name, "GIT_COMMITTER_EMAIL=" + a.name + "@example.invalid",
	}
	if a.token == "" {
		return env
	}
	return append(env,
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false", // saves a process a commit
		// A credential helper would be two more processes for each push.
		"GIT_CONFIG_KEY_1=http.extraHeader",
		"GIT_CONFIG_VALUE_1=Authorization: Basic "+encode(a.name+":"+a.token),
	)
}

// tryGit runs git as an account and returns its output and exit status.
func (a *account) tryGit(dir string, args ...string) (string, int) {
	a.w.Helper()
	out, err := a.w.server.Git(a.w.ctx, dir, a.gitEnv(), args...)
	if err == nil {
		return out, 0
	}
	var ended interface{ ExitCode() int }
	if !errors.As(err, &ended) {
		a.w.Fatalf("git %s did not run: %v", args[0], err)
	}
	return out, ended.ExitCode()
}

// git runs git and returns its output. It ends the test if git fails.
func (a *account) git(dir string, args ...string) string {
	a.w.Helper()
	out, code := a.tryGit(dir, args...)
	if code != 0 {
		a.w.Fatalf("git %s ended with %d: %s", strings.Join(args, " "), code, out)
	}
	return strings.TrimSpace(out)
}

// clone clones the repository as an account.
func (r *repo) clone(a *account) *checkout {
	r.w.Helper()
	c := &checkout{r: r, by: a, dir: r.w.TempDir(), at: "HEAD"}
	c.git("clone", "--quiet", r.url(), ".")
	return c
}

// checkout returns the folder with the commits of code, which rules share, for pushes on one of its branches. It saves
// a clone.
func (r *repo) checkout(a *account, branch string) *checkout {
	return &checkout{r: r, by: a, dir: r.dir, at: branch}
}

func (c *checkout) git(args ...string) string {
	c.r.w.Helper()
	return c.by.git(c.dir, args...)
}

// push makes an empty commit, pushes it to a branch, and returns the commit and git's exit status.
func (c *checkout) push(branch string, options ...string) (string, int) {
	c.r.w.Helper()
	only := "only " + rand.Text() // makes commits of one second differ
	commit := c.git("commit-tree", "-p", c.at, "-m", only, c.at+"^{tree}")
	_, code := c.by.tryGit(c.dir, append(append([]string{"push", "--quiet"}, options...), c.r.url(),
		commit+":refs/heads/"+branch)...)
	return commit, code
}

// commits returns the number of commits on main.
func (r *repo) commits() string {
	r.w.Helper()
	return r.clone(r.owner).git("rev-list", "--count", "origin/main")
}

func tokenAsPassword(w *world) {
	r := w.code()
	dev := r.writer("dev")
	commit, code := r.clone(dev).push("mine")
	same(w, "exit status of the push", code, 0)
	same(w, "the branch", r.branch("mine").Commit.ID, commit)
	other := dev.as(dev.token)
	other.name = "whoever"
	_, code = r.clone(other).push("theirs")
	same(w, "exit status of the push with another name", code, 0)
	c := r.clone(w.anonymous()) // a public repository is cloned without credentials
	c.by = dev.as(strings.Repeat("0", 40))
	if _, code = c.push("wrong"); code == 0 {
		w.Error("a push with a wrong token succeeded")
	}
	same(w, "branches", r.branches(), "main mine theirs")
}

func lfsPassword(w *world) {
	r := w.code()
	batch := func(operation string, sign func(*http.Request)) answer {
		const lfs = "application/vnd.git-lfs+json"
		req := w.request(http.MethodPost, "", fields{
			"operation": operation, "transfers": []string{"basic"},
			"objects": []fields{{"oid": strings.Repeat("7", 64), "size": 3}},
		}, sign)
		req.Header.Set("Accept", lfs)
		req.Header.Set("Content-Type", lfs)
		req.URL.Path = "/" + r.fullName() + ".git/info/lfs/objects/batch"
		return w.send(req)
	}
	by := func(a *account) func(*http.Request) {
		return func(req *http.Request) { req.SetBasicAuth("token", a.token) }
	}
	type objects struct {
		Objects []struct {
			Actions map[string]struct{ Href string }
			Error   *struct{ Code int }
		}
	}
	up := decode[objects](batch("upload", by(r.writer("dev"))).want(http.StatusOK))
	if len(up.Objects) != 1 || up.Objects[0].Actions["upload"].Href == "" {
		w.Errorf("got %+v, want an upload", up)
	}
	down := decode[objects](batch("download", by(r.owner)).want(http.StatusOK))
	if len(down.Objects) != 1 || len(down.Objects[0].Actions) > 0 || down.Objects[0].Error == nil {
		w.Errorf("got %+v, want no object", down)
	}
	batch("upload", by(r.collaborator("reader", "read"))).want(http.StatusUnauthorized, http.StatusForbidden)
	batch("upload", func(*http.Request) {}).want(http.StatusUnauthorized)
}

func privateClone(w *world) {
	r := w.account("owner").repo("secret", fields{"private": true, "auto_init": true, "default_branch": "main"})
	r.clone(r.owner)
	stranger := w.account("stranger")
	for _, a := range []*account{w.anonymous(), stranger} {
		if out, code := a.tryGit(w.TempDir(), "ls-remote", r.url()); code == 0 {
			w.Errorf("%q can read a private repository: %s", a.name, out)
		}
	}
	stranger.get(r.at("")).want(http.StatusNotFound)
}

func pushRights(w *world) {
	r := w.code()
	for _, a := range []*account{r.collaborator("reader", "read"), w.account("stranger")} {
		if _, code := r.checkout(a, "main").push("mine"); code == 0 {
			w.Errorf("a push by %s succeeded", a.name)
		}
	}
	same(w, "branches", r.branches(), "main")
}

func gitScopes(w *world) {
	r := w.account("owner").repo("secret", fields{"private": true, "auto_init": true, "default_branch": "main"})
	c := r.clone(r.owner.as(r.owner.newToken("reading", "read:repository")))
	if _, code := c.push("mine"); code == 0 {
		w.Error("a push with a token of scope read:repository succeeded")
	}
	if _, code := r.owner.as(r.owner.newToken("issues", "write:issue")).
		tryGit(w.TempDir(), "ls-remote", r.url()); code == 0 {
		w.Error("a token of scope write:issue can read the code")
	}
	c.by = r.owner.as(r.owner.newToken("writing", "write:repository"))
	_, code := c.push("mine")
	same(w, "exit status with write:repository", code, 0)
}

func protectedPush(w *world) {
	r := w.code()
	dev := r.writer("dev")
	r.owner.post(r.at("/branch_protections"), fields{"rule_name": "main", "enable_push": false}).want(http.StatusCreated)
	c := r.checkout(dev, "main")
	before := r.branch("main").Commit.ID
	if _, code := c.push("main"); code == 0 {
		w.Error("a push to the protected branch succeeded")
	}
	_, code := c.push("mine")
	same(w, "exit status of a push to another branch", code, 0)
	same(w, "main", r.branch("main").Commit.ID, before)
}

func forcedPush(w *world) {
	r := w.code()
	dev := r.writer("dev")
	one, two := r.checkout(dev, "main"), r.checkout(dev, "main")
	held, _ := one.push("shared")
	if _, code := two.push("shared"); code == 0 { // a sibling, not a descendant
		w.Error("a push without the branch's new commits succeeded")
	}
	if _, code := two.push("shared", "--force-with-lease=refs/heads/shared:"+strings.Repeat("1", 40)); code == 0 {
		w.Error("a push with a lease on another commit succeeded")
	}
	same(w, "the branch", r.branch("shared").Commit.ID, held)
	commit, code := two.push("shared", "--force-with-lease=refs/heads/shared:"+held)
	same(w, "exit status of a push with the right lease", code, 0)
	same(w, "the branch", r.branch("shared").Commit.ID, commit)
}

func pushMovesPull(w *world) {
	r := w.code("one")
	dev := r.writer("dev")
	p := r.ready("one")
	head, code := r.checkout(dev, "one").push("one")
	same(w, "exit status", code, 0)
	w.eventually("the head has moved", func() bool { return r.pull(p).Head.SHA == head })
}

// emptyCommit waits for the timeline entry that the forge writes before it checks the reviews, and then for the
// conflict check, which comes later.
func emptyCommit(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	p := r.ready("one")
	old := r.pull(p).Head.SHA
	r.review(reviewer, p, "APPROVED", old)
	pushes := len(r.pushes(p))
	head, _ := r.checkout(r.owner, "one").push("one")
	w.eventually("the timeline shows the push", func() bool { return len(r.pushes(p)) > pushes })
	r.eventuallyMergeable(p, true)
	same(w, "head", r.pull(p).Head.SHA, head)
	got := r.reviews(p)[0]
	same(w, "commit of the review", got.CommitID, old)
	same(w, "stale", got.Stale, false)
}

// pushes returns the timeline entries of pushes.
func (r *repo) pushes(n int64) []event {
	r.w.Helper()
	var found []event
	for _, e := range r.timeline(n) {
		if e.Type == "pull_push" {
			found = append(found, e)
		}
	}
	return found
}
