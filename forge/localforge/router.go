package localforge

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// route is one operation of the API: a pattern of http.ServeMux below /api/v1, the rights that a request needs, and the
// handler.
type route struct {
	pattern string // "GET /repos/{owner}/{repo}"
	scope   scope  // scope that a token needs
	need    need
	status  int // status of a success
	do      func(*call) (any, error)
	locking locking
}

// locking says whether a handler runs with Forge.mu held.
type locking bool

const (
	// underLock holds the lock from authentication until the answer's value is made, so that no request sees another
	// one half done.
	underLock locking = true
	// runsGit means that the handler locks on its own.
	runsGit locking = false
)

// need is the role that a caller must have, in addition to seeing the repository.
type need int

const (
	anyone need = iota
	signedIn
	repoWriter
	repoAdmin
	repoOwner
	siteAdmin
)

// call is one API request that is being handled.
type call struct {
	view
	r       *http.Request
	w       http.ResponseWriter
	body    []byte
	byBasic bool
	scopes  []string // scopes of the request's token; nil without a token
	repo    *repo
	access  access
}

// api returns the handler of all routes below /api/v1.
func (f *Forge) api() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range slices.Concat(
		userRoutes, tokenRoutes, repoRoutes, collaboratorRoutes, branchRoutes,
		protectionRoutes, contentRoutes, commentRoutes, reactionRoutes, labelRoutes, issueRoutes,
		dependencyRoutes, pullRoutes, reviewRoutes, mergeRoutes, statusRoutes, hookRoutes, oauthRoutes,
	) {
		method, path, _ := strings.Cut(rt.pattern, " ")
		mux.HandleFunc(method+" /api/v1"+path, func(w http.ResponseWriter, r *http.Request) { f.serveRoute(w, r, rt) })
	}
	return mux
}

// serveRoute answers one request. ServeMux routes HEAD like GET, but Forgejo's router has no HEAD routes.
func (f *Forge) serveRoute(w http.ResponseWriter, r *http.Request, rt route) {
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	c := &call{r: r, w: w}
	// The body is read before the lock is taken, so that a slow client delays no other request.
	var err error
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := f.answer(c, rt)
	c.write(rt.status, body, err)
}

// answer authenticates, checks the rights that the route needs, and runs its handler.
func (f *Forge) answer(c *call, rt route) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[rt.pattern]++
	if f.opt.URL == "" {
		f.lastURL = "http://" + c.r.Host
	}
	c.view = view{f: f, base: f.lastURL}
	if err := f.authenticateLocked(c); err != nil {
		return nil, err
	}
	if err := c.allowedLocked(rt); err != nil {
		return nil, err
	}
	if rt.locking == underLock {
		return rt.do(c)
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	return rt.do(c)
}

// allowedLocked checks in Forgejo's order: scope, repository, sign-in, permission. The order decides the status of a
// request with several faults.
func (c *call) allowedLocked(rt route) error {
	if c.scopes != nil {
		if need := missingScope(c.scopes, rt.scope, c.r.Method); need != "" {
			return fail(http.StatusForbidden, "token does not have at least one of required scope(s): [%s]", need)
		}
	}
	if owner := c.r.PathValue("owner"); owner != "" {
		c.repo = c.f.repoLocked(owner, c.r.PathValue("repo"))
		if c.repo == nil {
			if at := c.f.redirectLocked(owner, c.r.PathValue("repo"), c.r.URL); at != "" {
				return &refusal{status: http.StatusTemporaryRedirect, location: at}
			}
			return notFound()
		}
		c.access = c.repo.accessOf(c.doer)
		if c.access == accessNone {
			return notFound()
		}
	}
	settings := rt.pattern == "PATCH /repos/{owner}/{repo}" || rt.need == repoOwner
	if c.repo != nil && c.repo.archived && c.r.Method != http.MethodGet && !settings {
		return fail(http.StatusLocked, "%s is archived", c.repo.fullName())
	}
	if rt.need == anyone {
		return nil
	}
	if c.doer == nil {
		return fail(http.StatusUnauthorized, "token is required")
	}
	switch {
	case rt.need == repoWriter && c.access < accessWrite:
		return fail(http.StatusForbidden, "user should have a permission to write to a repo")
	case rt.need == repoAdmin && c.access < accessAdmin:
		return fail(http.StatusForbidden, "user should be an owner or a collaborator with admin write of a repository")
	case rt.need == repoOwner && c.access < accessOwner:
		return fail(http.StatusForbidden, "user should be the owner of the repo")
	case rt.need == siteAdmin && !c.doer.admin:
		return fail(http.StatusForbidden, "user should be the site admin")
	}
	return nil
}
