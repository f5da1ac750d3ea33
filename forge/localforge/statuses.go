package localforge

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"
)

var wholeSHA = regexp.MustCompile(`^[0-9a-f]{40}$`)

// status is what a CI system said about a commit.
type status struct {
	id          int64
	state       string
	context     string
	description string
	target      string
	creator     *user
	created     time.Time
}

var statusRoutes = []route{
	{method: "POST", pattern: "/repos/{owner}/{repo}/statuses/{sha}", scope: scopeRepository, need: repoWriter, status: 201, do: createStatus, free: true},
	{method: "GET", pattern: "/repos/{owner}/{repo}/statuses/{sha}", scope: scopeRepository, status: 200, do: listStatuses},
	{method: "GET", pattern: "/repos/{owner}/{repo}/commits/{sha}/statuses", scope: scopeRepository, status: 200, do: listStatuses},
	{method: "GET", pattern: "/repos/{owner}/{repo}/commits/{sha}/status", scope: scopeRepository, status: 200, do: combinedStatus},
}

// statusOrder is how bad a state is; the worst of all contexts is the whole's.
var statusOrder = []string{"error", "failure", "warning", "pending", "success"}

type wireStatus struct {
	ID          int64     `json:"id"`
	State       string    `json:"status"`
	TargetURL   string    `json:"target_url"`
	Description string    `json:"description"`
	URL         string    `json:"url"`
	Context     string    `json:"context"`
	Creator     *wireUser `json:"creator"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

type wireCombined struct {
	State      string       `json:"state"`
	SHA        string       `json:"sha"`
	TotalCount int          `json:"total_count"`
	Statuses   []wireStatus `json:"statuses"`
	Repository *wireRepo    `json:"repository"`
	CommitURL  string       `json:"commit_url"`
	URL        string       `json:"url"`
}

func (v view) status(r *repo, sha string, s *status) wireStatus {
	return wireStatus{
		ID: s.id, State: s.state, TargetURL: s.target, Description: s.description, Context: s.context,
		URL: fmt.Sprintf("%s/statuses/%s", v.apiURL(r), sha), Creator: v.user(s.creator), Created: s.created, Updated: s.created,
	}
}

// createStatus does not touch the pull request: a status never shows in
// its updated_at.
func createStatus(c *call) (any, error) {
	var form struct {
		State       string `json:"state"`
		Context     string `json:"context"`
		Description string `json:"description"`
		TargetURL   string `json:"target_url"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	sha, err := c.f.git(c.r.Context(), c.repo.dir, "rev-parse", "--verify", "--quiet", "--end-of-options", c.params["sha"]+"^{commit}")
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "object does not exist [id: %s, rel_path: ]", c.params["sha"])
	}
	if form.Context == "" {
		form.Context = "default"
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	s := &status{
		id: c.f.nextIDLocked(), state: form.State, context: form.Context, description: form.Description,
		target: form.TargetURL, creator: c.doer, created: c.f.now(),
	}
	c.repo.statuses[sha] = append(c.repo.statuses[sha], s)
	return c.status(c.repo, sha, s), nil
}

// pathCommit resolves the ref or commit of the path.
func (c *call) pathCommit() (string, error) {
	name := c.params["sha"]
	for _, ref := range []string{"refs/heads/" + name, "refs/tags/" + name, name} {
		if sha := c.repo.refs[ref]; sha != "" {
			return sha, nil
		}
	}
	if wholeSHA.MatchString(name) {
		return name, nil
	}
	return "", notFound()
}

// listStatuses shows all of a commit, the last given first.
func listStatuses(c *call) (any, error) {
	sha, err := c.pathCommit()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(c.repo.statuses[sha])
	slices.Reverse(all)
	return paged(c, all, func(s *status) wireStatus { return c.status(c.repo, sha, s) }), nil
}

// latest are the last statuses of each context, the last given first.
func (r *repo) latest(sha string) []*status {
	var last []*status
	for _, s := range slices.Backward(r.statuses[sha]) {
		if !slices.ContainsFunc(last, func(other *status) bool { return other.context == s.context }) {
			last = append(last, s)
		}
	}
	return last
}

func worst(statuses []*status) string {
	state := ""
	for _, s := range statuses {
		if state == "" || slices.Index(statusOrder, s.state) < slices.Index(statusOrder, state) {
			state = s.state
		}
	}
	return state
}

// combinedStatus answers an empty object, with state "", for a commit nobody
// said anything about.
func combinedStatus(c *call) (any, error) {
	sha, err := c.pathCommit()
	if err != nil {
		return nil, err
	}
	last := c.repo.latest(sha)
	if len(last) == 0 {
		return wireCombined{}, nil
	}
	whole := wireCombined{State: worst(last), SHA: sha, TotalCount: len(last), Repository: c.view.repo(c.repo)}
	if whole.State == "error" {
		whole.State = "failure"
	}
	for _, s := range last {
		whole.Statuses = append(whole.Statuses, c.status(c.repo, sha, s))
	}
	return whole, nil
}
