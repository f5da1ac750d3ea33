package localforge

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// protection is a rule for the branches that match its name. Its exported fields are those of the API.
type protection struct {
	RuleName                string   `json:"rule_name"`
	EnablePush              bool     `json:"enable_push"`
	EnablePushWhitelist     bool     `json:"enable_push_whitelist"`
	PushWhitelistUsernames  []string `json:"push_whitelist_usernames"`
	EnableMergeWhitelist    bool     `json:"enable_merge_whitelist"`
	MergeWhitelistUsernames []string `json:"merge_whitelist_usernames"`
	EnableStatusCheck       bool     `json:"enable_status_check"`
	StatusCheckContexts     []string `json:"status_check_contexts"`
	RequiredApprovals       int64    `json:"required_approvals"`
	BlockOnRejectedReviews  bool     `json:"block_on_rejected_reviews"`
	BlockOnReviewRequests   bool     `json:"block_on_official_review_requests"`
	BlockOnOutdatedBranch   bool     `json:"block_on_outdated_branch"`
	RequireSignedCommits    bool     `json:"require_signed_commits"`
	ProtectedFilePatterns   string   `json:"protected_file_patterns"`
}

var protectionRoutes = []route{
	{"GET /repos/{owner}/{repo}/branch_protections", scopeRepository, repoAdmin, 200, listProtections, underLock},
	{"POST /repos/{owner}/{repo}/branch_protections", scopeRepository, repoAdmin, 201, createProtection, underLock},
	{
		"DELETE /repos/{owner}/{repo}/branch_protections/{rule...}", scopeRepository, repoAdmin, 204, deleteProtection,
		underLock,
	},
}

// protectionOf returns the rule for a branch; nil if there is none. A plain name wins over a pattern.
func (r *repo) protectionOf(branch string) *protection {
	for _, p := range r.protections {
		if p.RuleName == branch {
			return p
		}
	}
	for _, p := range r.protections {
		if ok, _ := path.Match(p.RuleName, branch); ok {
			return p
		}
	}
	return nil
}

func named(names []string, u *user) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, u.name) })
}

// The methods of a nil rule allow everything to accounts with write access.

func (p *protection) mayPush(u *user, level access) bool {
	if p == nil {
		return level >= accessWrite
	}
	if !p.EnablePush {
		return false
	}
	if p.EnablePushWhitelist {
		return named(p.PushWhitelistUsernames, u)
	}
	return level >= accessWrite
}

func (p *protection) mayMerge(u *user, level access) bool {
	if p != nil && p.EnableMergeWhitelist {
		return named(p.MergeWhitelistUsernames, u)
	}
	return level >= accessWrite
}

// unmet returns the first requirement of a rule that a pull request does not meet; "" if it meets all.
func (r *repo) unmet(p *protection, i *issue) string {
	if p == nil {
		return ""
	}
	approvals, rejected, requested := int64(0), false, false
	for _, v := range i.pull.reviews {
		requested = requested || v.state == reviewRequested
		if !v.official || v.dismissed {
			continue
		}
		if v.state == reviewApproved {
			approvals++
		}
		rejected = rejected || v.state == reviewRejected
	}
	switch {
	case p.EnableStatusCheck && p.statusOf(r.latest(i.pull.headSHA)) != "success":
		return "Not all required status checks successful"
	case approvals < p.RequiredApprovals:
		return "Does not have enough approvals"
	case p.BlockOnRejectedReviews && rejected:
		return "There are requested changes"
	case p.BlockOnReviewRequests && requested:
		return "There are official review requests"
	case p.BlockOnOutdatedBranch && i.pull.mergeBase != r.branch(i.pull.base):
		return "The head branch is behind the base branch"
	case p.protects(i.pull.files):
		return "Changed protected files"
	}
	return ""
}

// protects reports whether a change of these files is not merged. The patterns are separated by semicolons.
func (p *protection) protects(files []string) bool {
	for pattern := range strings.SplitSeq(p.ProtectedFilePatterns, ";") {
		for _, file := range files {
			if ok, _ := path.Match(strings.TrimSpace(pattern), file); ok {
				return true
			}
		}
	}
	return false
}

// statusOf returns the worst state among the required contexts, which can be patterns; a context without a report is
// pending. Without required contexts all reports count.
func (p *protection) statusOf(last []*status) string {
	if len(p.StatusCheckContexts) == 0 {
		return worstState(last)
	}
	var counted []*status
	for _, want := range p.StatusCheckContexts {
		at := slices.IndexFunc(last, func(s *status) bool {
			ok, _ := path.Match(want, s.context)
			return ok || want == s.context
		})
		if at < 0 {
			return "pending"
		}
		counted = append(counted, last[at])
	}
	return worstState(counted)
}

func (p *protection) lists() []*[]string {
	return []*[]string{&p.PushWhitelistUsernames, &p.MergeWhitelistUsernames, &p.StatusCheckContexts}
}

// wire returns a copy of the rule for an answer.
func (p *protection) wire() protection { return *p }

func listProtections(c *call) (any, error) {
	return paged(c, c.repo.protections, (*protection).wire).items, nil
}

func createProtection(c *call) (any, error) {
	p := &protection{}
	if err := c.bind(p); err != nil {
		return nil, err
	}
	if p.RuleName == "" {
		return nil, fail(http.StatusBadRequest, "both rule_name and branch_name are empty")
	}
	for _, other := range c.repo.protections {
		if other.RuleName == p.RuleName {
			return nil, fail(http.StatusForbidden, "Branch protection already exist")
		}
	}
	if err := c.knownUsers(p); err != nil {
		return nil, err
	}
	for _, list := range p.lists() {
		if *list == nil {
			*list = []string{} // becomes [] in JSON, not null
		}
	}
	c.repo.protections = append(c.repo.protections, p)
	return p.wire(), nil
}

func deleteProtection(c *call) (any, error) {
	at := slices.IndexFunc(c.repo.protections, func(p *protection) bool { return p.RuleName == c.r.PathValue("rule") })
	if at < 0 {
		return nil, notFound()
	}
	c.repo.protections = slices.Delete(c.repo.protections, at, at+1)
	return nil, nil
}

// knownUsers rejects a rule that names an unknown user.
func (c *call) knownUsers(p *protection) error {
	for _, name := range slices.Concat(p.PushWhitelistUsernames, p.MergeWhitelistUsernames) {
		if c.f.userLocked(name) == nil {
			return fail(http.StatusUnprocessableEntity, "user does not exist [uid: 0, name: %s]", name)
		}
	}
	return nil
}
