package rules

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// claimsUse names the code that relies on all rules about claims.
const claimsUse = `forge/forgejo's claim by ref (claim = "ref"), the only lock between two hosts`

var claimRules = []rule{
	{
		"the first push of a claim succeeds, the second is refused",
		claimsUse + ", which needs neither a clone nor a commit in the repository", claimTwice,
	},
	{
		"a claim's commit must be unique", claimsUse + ", which puts the run id into a commit without parents",
		claimSameCommit,
	},
	{
		"without a lease, a descendant or a forced push takes a claim over",
		claimsUse + ", which always pushes with the lease that the ref must not exist", claimWithoutLease,
	},
	{
		"only a push that names a claim's commit can release it", claimsUse + ", whose release names the commit it holds",
		claimRelease,
	},
	{
		"a claim shows only in the list of its refs",
		claimsUse + ", which must not show as a branch or start CI", claimVisibility,
	},
	{"a claim requires write access", claimsUse + ", made with the agent's or the supervisor's token", claimRights},
	{"exactly one of many concurrent claims succeeds", claimsUse, claimRace},
	{"claims of different items do not disturb each other", claimsUse, claimsApart},
	{"a claim takes one request of compare and set", claimsUse + ", which pushes without git", claimPosted},
	{
		"deleting a missing ref only checks the rights", "forge/forgejo Prepare, which so learns whether it can claim",
		claimAsked,
	},
	{"a claim's commit names the holder", claimsUse + ", which reads its message", claimRead},
}

// claimant can push claims. It needs no clone, because its commits have no parent and an empty tree.
type claimant struct {
	r    *repo
	by   *account
	dir  string
	tree string // the empty tree
}

func (r *repo) claimant(a *account) *claimant {
	r.w.Helper()
	dir, tree := r.w.made.emptyTree(a)
	return &claimant{r: r, by: a, dir: dir, tree: tree}
}

// emptyTree returns a folder in which all rules make the commits of claims, and the name of the empty tree.
func (l *cleanup) emptyTree(a *account) (dir, tree string) {
	l.committing.Lock()
	defer l.committing.Unlock()
	if l.claims == "" {
		l.claims = l.tempDir()
		a.git(l.claims, "init", "--quiet", ".")
		l.tree = a.git(l.claims, "write-tree")
	}
	return l.claims, l.tree
}

// commit makes a commit that is unlike any other.
func (c *claimant) commit(parents ...string) string {
	c.r.w.Helper()
	args := []string{"commit-tree", "-m", "run " + rand.Text()}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return c.by.git(c.dir, append(args, c.tree)...)
}

func claimRef(n int64) string { return fmt.Sprintf("refs/disinto/claims/%d", n) }

// push pushes a commit to a claim that must not exist, and reports whether this push created the claim. To git, a push
// of a commit that the ref already has is not an error, so take also checks git's output.
func (c *claimant) push(n int64, commit string) bool {
	c.r.w.Helper()
	ref := claimRef(n)
	out, code := c.by.tryGit(c.dir, "push", "--porcelain", "--force-with-lease="+ref+":", c.r.url(), commit+":"+ref)
	return code == 0 && strings.Contains(out, "*\t"+commit+":"+ref)
}

// release deletes a claim that must be at a commit, and reports success.
func (c *claimant) release(n int64, commit string) bool {
	c.r.w.Helper()
	ref := claimRef(n)
	_, code := c.by.tryGit(c.dir, "push", "--quiet", "--force-with-lease="+ref+":"+commit, c.r.url(), ":"+ref)
	return code == 0
}

// holder returns the commit of a claim; "" if the claim does not exist. It reads the list of refs with which the forge
// begins a push.
func (r *repo) holder(n int64) string {
	r.w.Helper()
	req, err := http.NewRequestWithContext(r.w.ctx, http.MethodGet, r.url()+"/info/refs?service=git-receive-pack", nil)
	if err != nil {
		r.w.Fatal(err)
	}
	req.SetBasicAuth(r.owner.name, r.owner.token)
	for line := range bytes.Lines(r.w.send(req).want(http.StatusOK).body) {
		packet, _, _ := strings.Cut(strings.TrimSpace(string(line)), "\x00")
		if commit, found := strings.CutSuffix(packet, " "+claimRef(n)); found {
			return commit[len(commit)-len(noObject):] // before it are the packet's length, and a delimiter
		}
	}
	return ""
}

func claimTwice(w *world) {
	r := w.repo()
	one, two := r.claimant(r.writer("one")), r.claimant(r.writer("two"))
	first, second := one.commit(), two.commit()
	same(w, "the first takes it", one.push(7, first), true)
	same(w, "the second takes it", two.push(7, second), false)
	same(w, "holder", r.holder(7), first)
	_, code := two.by.tryGit(two.dir, "push", "--quiet", r.url(), second+":"+claimRef(7))
	same(w, "a plain push of an unrelated commit is refused", code != 0, true)
	same(w, "holder", r.holder(7), first)
	same(w, "empty", r.empty(), true)
}

func claimSameCommit(w *world) {
	r := w.repo()
	c := r.claimant(r.owner)
	commit := c.commit()
	same(w, "the first takes it", c.push(7, commit), true)
	out, code := c.by.tryGit(c.dir, "push", "--porcelain", "--force-with-lease="+claimRef(7)+":", r.url(),
		commit+":"+claimRef(7))
	same(w, "exit status of a repeated push", code, 0)
	if !strings.Contains(out, "=\t"+commit) || strings.Contains(out, "*\t") {
		w.Errorf("a repeated push printed %q, want a line with = and none with *", out)
	}
	same(w, "the second takes it", c.push(7, commit), false)
}

func claimWithoutLease(w *world) {
	r := w.repo()
	c := r.claimant(r.owner)
	first := c.commit()
	c.push(7, first)
	child := c.commit(first)
	same(w, "a descendant with a lease", c.push(7, child), false)
	c.by.git(c.dir, "push", "--quiet", r.url(), child+":"+claimRef(7))
	same(w, "holder after a descendant", r.holder(7), child)
	stranger := c.commit()
	c.by.git(c.dir, "push", "--quiet", "--force", r.url(), stranger+":"+claimRef(7))
	same(w, "holder after force", r.holder(7), stranger)
}

func claimRelease(w *world) {
	r := w.repo()
	one, two := r.claimant(r.writer("one")), r.claimant(r.writer("two"))
	first, second := one.commit(), two.commit()
	one.push(7, first)
	same(w, "the other releases it", two.release(7, second), false)
	same(w, "holder", r.holder(7), first)
	same(w, "the holder releases it", one.release(7, first), true)
	same(w, "the holder releases it again", one.release(7, first), false)
	same(w, "holder", r.holder(7), "")
	same(w, "the other takes it", two.push(7, second), true)
}

func claimVisibility(w *world) {
	r := w.code()
	r.owner.get(r.at("/git/refs/disinto")).want(http.StatusNotFound)
	c := r.claimant(r.owner)
	commits := map[int64]string{7: c.commit(), 70: c.commit()}
	for n, commit := range commits {
		c.push(n, commit)
	}
	same(w, "branches", r.branches(), "main")
	got := read[[]struct {
		Ref    string `json:"ref"`
		Object struct {
			SHA string `json:"sha"`
		} `json:"object"`
	}](r.owner, r.at("/git/refs/disinto/claims"))
	same(w, "refs over the API", len(got), len(commits))
	for _, ref := range got {
		same(w, ref.Ref, ref.Object.SHA, commits[map[string]int64{claimRef(7): 7, claimRef(70): 70}[ref.Ref]])
	}
	clone := r.clone(r.owner)
	if refs := clone.git("for-each-ref"); strings.Contains(refs, "disinto") {
		w.Errorf("a clone contains claims: %s", refs)
	}
	r.owner.post(r.at("/git/refs"), fields{"ref": claimRef(9), "sha": commits[7]}).refused() // only git can create them
}

func claimRights(w *world) {
	r := w.repo()
	for _, a := range []*account{
		r.collaborator("reader", "read"), w.account("stranger"),
		r.owner.as(r.owner.newToken("read", "read:repository")),
	} {
		c := r.claimant(a)
		same(w, a.name+" takes it", c.push(7, c.commit()), false)
	}
	same(w, "holder", r.holder(7), "")
	dev := r.writer("dev")
	c := r.claimant(dev.as(dev.newToken("agent", "write:repository", "write:issue", "read:user")))
	commit := c.commit()
	same(w, "an agent takes it", c.push(7, commit), true)
	same(w, "holder", r.holder(7), commit)
}

func claimRace(w *world) {
	r := w.repo()
	const racers = 4
	var all [racers]*claimant
	for i := range all {
		all[i] = r.claimant(r.writer(fmt.Sprintf("racer%d", i)))
	}
	for race := range w.server.Races {
		n := int64(race + 1)
		var commits [racers]string
		for i, c := range all {
			commits[i] = c.commit()
		}
		var won [racers]bool
		var running sync.WaitGroup
		for i, c := range all {
			running.Go(func() { won[i] = c.push(n, commits[i]) })
		}
		running.Wait()
		winners, holder := 0, r.holder(n)
		for i := range all {
			if won[i] {
				winners++
				same(w, fmt.Sprintf("race %d: commit of the claim", race), holder, commits[i])
			}
		}
		same(w, fmt.Sprintf("race %d: winners", race), winners, 1)
		if w.Failed() {
			return
		}
	}
}

func claimsApart(w *world) {
	r := w.repo()
	c := r.claimant(r.owner)
	const items = 3
	var taken [items]bool
	var commits [items]string
	for i := range commits {
		commits[i] = c.commit()
	}
	var running sync.WaitGroup
	for i := range commits {
		running.Go(func() { taken[i] = c.push(int64(i+1), commits[i]) })
	}
	running.Wait()
	for i := range commits {
		same(w, fmt.Sprintf("item %d taken", i+1), taken[i], true)
		same(w, fmt.Sprintf("holder of item %d", i+1), r.holder(int64(i+1)), commits[i])
	}
}
