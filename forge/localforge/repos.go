package localforge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
)

// maxRepoName is the length of the longest name that Forgejo accepts.
const maxRepoName = 100

var repoName = regexp.MustCompile(`^[-._\da-zA-Z]+$`)

type repo struct {
	// Set once, and read without the lock.
	id  int64
	dir string

	// moving serialises moves of refs. It is locked before Forge.mu, never after it, and is held while git runs.
	moving sync.Mutex

	// Read under moving or Forge.mu, and changed under both.
	owner *user
	name  string

	// Forge.mu guards the fields below.
	archived      bool
	private       bool
	defaultBranch string
	mergeStyle    string            // the default one; empty means merge
	noStyles      []string          // merge styles that are not allowed
	refs          map[string]string // by full name; the map is replaced, never modified
	collaborators map[*user]access
	labels        []*label // sorted by name
	issues        []*issue // issues and pull requests, sorted by number
	lastNumber    int64
	statuses      map[string][]*status // by commit, oldest first
	protections   []*protection
	hooks         []*hook
}

var repoRoutes = []route{
	{"POST /user/repos", scopeUserRepos, signedIn, 201, createOwnRepo, runsGit},
	{"POST /admin/users/{user}/repos", scopeAdmin, siteAdmin, 201, createRepoFor, runsGit},
	{"GET /repos/{owner}/{repo}", scopeRepository, anyone, 200, getRepo, underLock},
	{"PATCH /repos/{owner}/{repo}", scopeRepository, repoAdmin, 200, editRepo, runsGit},
	{"DELETE /repos/{owner}/{repo}", scopeRepository, repoOwner, 204, deleteRepo, runsGit},
}

type wirePermissions struct {
	Admin bool `json:"admin"`
	Push  bool `json:"push"`
	Pull  bool `json:"pull"`
}

type wireRepo struct {
	FullName        string           `json:"full_name"`
	Empty           bool             `json:"empty"`
	Private         bool             `json:"private"`
	DefaultBranch   string           `json:"default_branch"`
	Archived        bool             `json:"archived"`
	Permissions     *wirePermissions `json:"permissions,omitempty"`
	HasIssues       bool             `json:"has_issues"`
	Tracker         wireTracker      `json:"internal_tracker"`
	HasPullRequests bool             `json:"has_pull_requests"`
	DefaultMerge    string           `json:"default_merge_style"`
}

type wireTracker struct {
	Dependencies bool `json:"enable_issue_dependencies"`
}

func (r *repo) fullName() string { return r.owner.name + "/" + r.name }

func (v view) repo(r *repo) *wireRepo {
	access := r.accessOf(v.doer)
	return &wireRepo{
		FullName: r.fullName(), Empty: r.empty(), Private: r.private, Archived: r.archived, DefaultBranch: r.defaultBranch,
		Permissions: &wirePermissions{Admin: access >= accessAdmin, Push: access >= accessWrite, Pull: access >= accessRead},
		HasIssues:   true, HasPullRequests: true, Tracker: wireTracker{true}, DefaultMerge: cmp.Or(r.mergeStyle, "merge"),
	}
}

func (r *repo) empty() bool {
	for name := range r.refs {
		if strings.HasPrefix(name, "refs/heads/") {
			return false
		}
	}
	return true
}

// branch returns the commit of a branch; "" if the branch does not exist.
func (r *repo) branch(name string) string { return r.refs["refs/heads/"+name] }

// accessOf returns the access of u; nil stands for an anonymous visitor.
func (r *repo) accessOf(u *user) access {
	switch {
	case u != nil && (u == r.owner || u.admin):
		return accessOwner
	case u != nil && r.collaborators[u] > accessRead:
		return r.collaborators[u]
	case !r.private:
		return accessRead
	case u != nil:
		return r.collaborators[u]
	}
	return accessNone
}

// issue finds an issue or pull request by number; nil if it does not exist.
func (r *repo) issue(number int64) *issue {
	at := sort.Search(len(r.issues), func(i int) bool { return r.issues[i].number >= number })
	if at < len(r.issues) && r.issues[at].number == number {
		return r.issues[at]
	}
	return nil
}

func (f *Forge) repoLocked(owner, name string) *repo {
	for _, r := range f.repos {
		if strings.EqualFold(r.owner.name, owner) && strings.EqualFold(r.name, name) {
			return r
		}
	}
	return nil
}

type repoForm struct {
	Name          string `json:"name"`
	Description   string `json:"description"`
	Private       bool   `json:"private"`
	AutoInit      bool   `json:"auto_init"`
	DefaultBranch string `json:"default_branch"`
}

func createOwnRepo(c *call) (any, error) { return createRepo(c, c.doer) }

func createRepoFor(c *call) (any, error) {
	c.f.mu.Lock()
	owner, err := c.pathUser()
	c.f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return createRepo(c, owner)
}

func createRepo(c *call, owner *user) (any, error) {
	var form repoForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if len(form.Name) > maxRepoName || !repoName.MatchString(form.Name) ||
		strings.Trim(form.Name, ".") == "" || strings.HasSuffix(form.Name, ".git") {
		return nil, fail(http.StatusUnprocessableEntity, "[Name]: AlphaDashDot")
	}
	r, err := c.f.newRepo(c.r.Context(), owner, form)
	if err != nil {
		return nil, err
	}
	if form.AutoInit {
		readme := "# " + form.Name + "\n\n" + form.Description
		change := contentChange{
			message: "Initial commit", by: owner, branch: r.defaultBranch,
			files: []fileChange{{path: "README.md", body: []byte(readme)}},
		}
		if _, err := c.f.commitFiles(c.r.Context(), r, change); err != nil {
			return nil, err
		}
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.view.repo(r), nil
}

// newRepo creates an empty repository. It reserves the name before it writes files, and frees it if that fails.
func (f *Forge) newRepo(ctx context.Context, owner *user, form repoForm) (*repo, error) {
	branch := form.DefaultBranch
	if branch == "" {
		branch = "main"
	}
	r := &repo{
		owner: owner, name: form.Name, defaultBranch: branch,
		private:       form.Private,
		collaborators: map[*user]access{}, statuses: map[string][]*status{},
	}
	r.moving.Lock() // no push before the repository is complete
	defer r.moving.Unlock()
	f.mu.Lock()
	if f.repoLocked(owner.name, form.Name) != nil {
		f.mu.Unlock()
		return nil, fail(http.StatusConflict, "The repository with the same name already exists.")
	}
	r.id = f.nextIDLocked()
	// The id distinguishes the folder from that of a repository with the same name that is being deleted.
	r.dir = filepath.Join(f.opt.Dir, fmt.Sprintf("%s-%s-%d.git", owner.name, form.Name, r.id))
	f.repos = append(f.repos, r)
	f.mu.Unlock()
	// A client that was killed must not leave half a repository.
	if err := f.initRepo(context.WithoutCancel(ctx), r); err != nil {
		f.mu.Lock()
		f.repos = remove(f.repos, r)
		f.mu.Unlock()
		return nil, err
	}
	return r, nil
}

func getRepo(c *call) (any, error) { return c.view.repo(c.repo), nil }

func editRepo(c *call) (any, error) {
	var form struct {
		Name          *string `json:"name"`
		Private       *bool   `json:"private"`
		Archived      *bool   `json:"archived"`
		DefaultBranch *string `json:"default_branch"`
		MergeStyle    *string `json:"default_merge_style"`
		Merge         *bool   `json:"allow_merge_commits"`
		Rebase        *bool   `json:"allow_rebase"`
		RebaseMerge   *bool   `json:"allow_rebase_explicit"`
		Squash        *bool   `json:"allow_squash_merge"`
		FastForward   *bool   `json:"allow_fast_forward_only_merge"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	c.repo.moving.Lock() // a new name waits for a push in progress
	defer c.repo.moving.Unlock()
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if form.MergeStyle != nil && !slices.Contains(mergeStyles, *form.MergeStyle) {
		return nil, fail(http.StatusUnprocessableEntity, "[DefaultMergeStyle]: In")
	}
	if form.DefaultBranch != nil && c.repo.branch(*form.DefaultBranch) == "" {
		return nil, fail(http.StatusUnprocessableEntity, "branch does not exist [name: %s]", *form.DefaultBranch)
	}
	if form.Name != nil {
		if err := c.renameLocked(*form.Name); err != nil {
			return nil, err
		}
	}
	assign(&c.repo.private, form.Private)
	assign(&c.repo.archived, form.Archived)
	assign(&c.repo.defaultBranch, form.DefaultBranch)
	assign(&c.repo.mergeStyle, form.MergeStyle)
	for i, allowed := range []*bool{form.Merge, form.Rebase, form.RebaseMerge, form.Squash, form.FastForward} {
		if allowed != nil {
			c.repo.noStyles = remove(c.repo.noStyles, mergeStyles[i])
		}
		if allowed != nil && !*allowed {
			c.repo.noStyles = append(c.repo.noStyles, mergeStyles[i])
		}
	}
	return c.view.repo(c.repo), nil
}

// renameLocked gives the repository another name. Requests to its old name are redirected until another repository
// takes that name.
func (c *call) renameLocked(name string) error {
	if other := c.f.repoLocked(c.repo.owner.name, name); other == c.repo {
		return nil
	} else if other != nil {
		return fail(http.StatusUnprocessableEntity, "The repository with the same name already exists.")
	}
	if c.f.renamed == nil {
		c.f.renamed = map[string]*repo{}
	}
	c.f.renamed[strings.ToLower(c.repo.fullName())] = c.repo
	c.repo.name = name
	return nil
}

// redirectLocked returns the path of a request to a repository under its present name; "" if no repository had the name
// of the request.
func (f *Forge) redirectLocked(owner, name string, from *url.URL) string {
	r := f.renamed[strings.ToLower(owner+"/"+name)]
	if r == nil {
		return ""
	}
	return strings.Replace(from.RequestURI(), owner+"/"+name, r.fullName(), 1)
}

func deleteRepo(c *call) (any, error) {
	c.repo.moving.Lock() // waits for a push in progress
	defer c.repo.moving.Unlock()
	c.f.mu.Lock()
	c.f.repos = remove(c.f.repos, c.repo)
	for _, i := range c.repo.issues {
		i.forgetDependencies()
	}
	c.f.mu.Unlock()
	return nil, os.RemoveAll(c.repo.dir)
}
