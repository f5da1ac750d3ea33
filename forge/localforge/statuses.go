package localforge

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// status is a CI system's report on a commit.
type status struct {
	id          int64
	state       string
	context     string
	description string
	target      string
	created     time.Time
}

var statusRoutes = []route{
	{"POST /repos/{owner}/{repo}/statuses/{sha}", scopeRepository, repoWriter, 201, createStatus, runsGit},
	{"GET /repos/{owner}/{repo}/commits/{sha}/statuses", scopeRepository, anyone, 200, listStatuses, underLock},
	{"GET /repos/{owner}/{repo}/commits/{sha}/status", scopeRepository, anyone, 200, combinedStatus, underLock},
}

// statusOrder ranks the states, worst first; the combined state is the worst of all contexts.
var statusOrder = []string{"error", "failure", "warning", "pending", "success"}

type wireStatus struct {
	ID          int64     `json:"id"`
	State       string    `json:"status"`
	TargetURL   string    `json:"target_url"`
	Description string    `json:"description"`
	Context     string    `json:"context"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

type wireCombined struct {
	State    string       `json:"state"`
	Statuses []wireStatus `json:"statuses"`
}

func (s *status) wire() wireStatus {
	return wireStatus{
		ID: s.id, State: s.state, TargetURL: s.target, Description: s.description, Context: s.context,
		Created: s.created, Updated: s.created,
	}
}

// createStatus does not change updated_at of a pull request.
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
	sha, err := c.f.commitOf(c.r.Context(), c.repo, c.r.PathValue("sha"))
	if err != nil {
		return nil, fail(http.StatusInternalServerError, "object does not exist [id: %s, rel_path: ]", c.r.PathValue("sha"))
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	s := &status{
		id: c.f.nextIDLocked(), state: form.State, context: form.Context, description: form.Description,
		target: form.TargetURL, created: c.f.now(),
	}
	c.repo.statuses[sha] = append(c.repo.statuses[sha], s)
	return s.wire(), nil
}

// pathCommit resolves the branch or tag in the path. Any other name is assumed to be a commit; a commit that does not
// exist has no reports.
func (c *call) pathCommit() string {
	name := c.r.PathValue("sha")
	for _, ref := range []string{"refs/heads/" + name, "refs/tags/" + name} {
		if sha := c.repo.refs[ref]; sha != "" {
			return sha
		}
	}
	return name
}

// listStatuses lists the newest first, but reports of the same second oldest first: clients must compare the ids.
func listStatuses(c *call) (any, error) {
	all := slices.Clone(c.repo.statuses[c.pathCommit()])
	slices.SortStableFunc(all, func(a, b *status) int { return b.created.Compare(a.created) })
	return paged(c, all, (*status).wire), nil
}

// latest returns the last status of each context, oldest first.
func (r *repo) latest(sha string) []*status {
	var last []*status
	for _, s := range slices.Backward(r.statuses[sha]) {
		if !slices.ContainsFunc(last, func(other *status) bool { return other.context == s.context }) {
			last = append(last, s)
		}
	}
	slices.Reverse(last)
	return last
}

// worstState returns the worst of several states. As in Forgejo, an unknown state counts only if it comes first and no
// known state follows.
func worstState(statuses []*status) string {
	state := ""
	for _, s := range statuses {
		is, was := slices.Index(statusOrder, s.state), slices.Index(statusOrder, state)
		if state == "" || (is >= 0 && is < was) {
			state = s.state
		}
	}
	return state
}

// combinedStatus answers an empty object, with state "", for a commit without reports.
func combinedStatus(c *call) (any, error) {
	last := c.repo.latest(c.pathCommit())
	if len(last) == 0 {
		return wireCombined{}, nil
	}
	whole := wireCombined{State: worstState(last)}
	if whole.State == "error" {
		whole.State = "failure"
	}
	for _, s := range last {
		whole.Statuses = append(whole.Statuses, s.wire())
	}
	c.w.Header().Set("X-Total-Count", strconv.Itoa(len(last)))
	return whole, nil
}
