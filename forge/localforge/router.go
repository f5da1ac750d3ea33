package localforge

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A route is one line of the API table: what is asked, who may ask it, and who
// answers. Patterns are relative to /api/v1; {name} stands for one segment and
// {name...} for all that are left.
type route struct {
	method  string
	pattern string
	scope   scope // of a token; 0 means any token will do
	need    need
	status  int // when it went well
	do      func(*call) (any, error)
	// free: do takes the lock itself, because it runs git. All other
	// handlers run under it from authentication to the last byte of the answer's
	// value, so that no request sees half of another.
	free bool

	segments []string
}

// need is what a caller must be, beyond being able to see the repository.
type need int

const (
	anyone need = iota
	signedIn
	repoWriter
	repoAdmin
	repoOwner
	siteAdmin
)

// call is one API request on its way through a handler.
type call struct {
	view
	r       *http.Request
	w       http.ResponseWriter
	body    []byte
	params  map[string]string
	byBasic bool
	scopes  []string // of the token that was used; nil without one
	repo    *repo
	access  access
}

func allRoutes() []route {
	routes := slices.Concat(
		userRoutes, tokenRoutes, repoRoutes, collaboratorRoutes, branchRoutes,
		protectionRoutes, contentRoutes, commentRoutes, labelRoutes, issueRoutes,
		dependencyRoutes, pullRoutes, reviewRoutes, mergeRoutes, statusRoutes, hookRoutes,
	)
	for i := range routes {
		routes[i].segments = strings.Split(strings.Trim(routes[i].pattern, "/"), "/")
	}
	return routes
}

// find returns the route for a path and its parameters. Without one it says
// whether another method would have had one.
func (f *Forge) find(method string, segments []string) (found *route, params map[string]string, otherMethod bool) {
	for i := range f.routes {
		r := &f.routes[i]
		if !matches(r.segments, segments) {
			continue
		}
		if r.method == method {
			return r, parameters(r.segments, segments), false
		}
		otherMethod = true
	}
	return nil, nil, otherMethod
}

func matches(pattern, path []string) bool {
	for i, p := range pattern {
		if strings.HasSuffix(p, "...}") {
			return len(path) > i
		}
		if i >= len(path) || (p[0] != '{' && p != path[i]) {
			return false
		}
	}
	return len(pattern) == len(path)
}

func parameters(pattern, path []string) map[string]string {
	params := map[string]string{}
	for i, p := range pattern {
		if rest, ok := strings.CutSuffix(p, "...}"); ok {
			params[rest[1:]] = unescape(strings.Join(path[i:], "/"))
		} else if p[0] == '{' {
			params[p[1:len(p)-1]] = unescape(path[i])
		}
	}
	return params
}

func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// serveAPI answers a request for path below /api/v1.
func (f *Forge) serveAPI(w http.ResponseWriter, r *http.Request, path string) {
	found, params, otherMethod := f.find(r.Method, strings.Split(strings.Trim(path, "/"), "/"))
	if found == nil {
		// HEAD comes here too: Forgejo's router knows no HEAD routes.
		if otherMethod {
			w.WriteHeader(http.StatusMethodNotAllowed)
		} else {
			http.NotFound(w, r)
		}
		return
	}
	c := &call{r: r, w: w, params: params}
	// Read before the lock is taken: a client that sends slowly waits alone.
	var err error
	if c.body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := f.answer(c, found)
	c.write(found.status, body, err)
}

// answer authenticates, checks what the route needs and runs its handler.
func (f *Forge) answer(c *call, rt *route) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests[rt.method+" "+rt.pattern]++
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
	if !rt.free {
		return rt.do(c)
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	return rt.do(c)
}

// allowedLocked checks in the order Forgejo does, which decides the status of
// a request that has several faults: scope, repository, sign-in, permission.
func (c *call) allowedLocked(rt *route) error {
	if c.scopes != nil {
		if need := lacking(c.scopes, rt.scope, c.r.Method); need != "" {
			return fail(http.StatusForbidden, "token does not have at least one of required scope(s): [%s]", need)
		}
	}
	if owner, ok := c.params["owner"]; ok {
		c.repo = c.f.repoLocked(owner, c.params["repo"])
		if c.repo == nil {
			return notFound()
		}
		c.access = c.repo.accessOf(c.doer)
		if c.access == accessNone {
			return notFound()
		}
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
