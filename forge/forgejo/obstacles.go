package forgejo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// issueBranches is what the branch of every issue begins with, and anIssueBranch is one of them.
const issueBranches, anIssueBranch = "fix", "fix/issue-1"

// readObstacles adds to the settings what keeps agents from handing in their work, as far as the forge shows it before
// a push. It takes two requests, and one more where our account administers the repository. Where one fails, the
// settings stay as they are: the forge refuses a push in vain, and no more.
func (c *Client) readObstacles(ctx context.Context, in *gitea.Repository, s *settings) {
	if s.off != "" {
		return
	}
	if lfs, err := c.usesLFS(ctx, in); err == nil {
		s.lfs = lfs
	}
	if why, err := c.whyNoPush(ctx, in); err == nil {
		s.noPush = why
	}
}

// whyNoPush returns why no agent can push the branch of an issue.
func (c *Client) whyNoPush(ctx context.Context, in *gitea.Repository) (string, error) {
	owner, name := owner(in.FullName)
	g, x := c.sdk(ctx)
	_, _, err := g.GetRepoBranch(owner, name, issueBranches)
	if err = x.end(err); err == nil {
		return fmt.Sprintf("%s has a branch named %s, so git cannot create %s: rename or delete it",
			in.FullName, issueBranches, anIssueBranch), nil
	}
	if !errors.Is(err, forge.ErrNotFound) {
		return "", err
	}
	if in.Permissions == nil || !in.Permissions.Admin {
		return "", nil // only an administrator may read the rules
	}
	rules, _, err := c.protections(in.FullName).all(ctx)
	for _, p := range rules {
		if p != nil && c.shutsOut(p) {
			return fmt.Sprintf("%s protects %s, so no agent can push %s: let agents push there",
				in.FullName, oneLine(p.RuleName), anIssueBranch), nil
		}
	}
	return "", err
}

// shutsOut reports whether a rule protects the branches of issues from all our agents.
func (c *Client) shutsOut(p *gitea.BranchProtection) bool {
	if !matchesBranch(p.RuleName, anIssueBranch) {
		return false
	}
	return !p.EnablePush ||
		p.EnablePushWhitelist && len(p.PushWhitelistTeams) == 0 && !slices.ContainsFunc(p.PushWhitelistUsernames, c.ours)
}

// protections lists the rules that protect branches of a repository.
func (c *connection) protections(repo string) list[gitea.BranchProtection] {
	owner, name := owner(repo)
	return newList(c, nil,
		func(g *gitea.Client, page gitea.ListOptions) ([]*gitea.BranchProtection, *gitea.Response, error) {
			return g.ListBranchProtections(owner, name, gitea.ListBranchProtectionsOptions{ListOptions: page})
		})
}

// usesLFS reports whether the .gitattributes of the default branch gives files to Git LFS.
func (c *Client) usesLFS(ctx context.Context, in *gitea.Repository) (bool, error) {
	owner, name := owner(in.FullName)
	g, x := c.sdk(ctx)
	x.whole = true // it is no JSON
	text, _, err := g.GetFile(owner, name, "", ".gitattributes")
	if err = x.wrote(err); errors.Is(err, forge.ErrNotFound) {
		return false, nil
	}
	return lfsFilter.Match(text), err
}

var lfsFilter = regexp.MustCompile(`(?m)^[^#\n]*\bfilter=lfs\b`)

// matchesBranch reports whether the name of a rule matches a branch: * does not match a slash, and ** does.
func matchesBranch(rule, branch string) bool {
	pattern := regexp.QuoteMeta(rule)
	pattern = strings.ReplaceAll(pattern, `\*\*`, `.*`)
	pattern = strings.ReplaceAll(pattern, `\*`, `[^/]*`)
	pattern = strings.ReplaceAll(pattern, `\?`, `[^/]`)
	ok, err := regexp.MatchString("^(?i:"+pattern+")$", branch)
	return ok && err == nil
}
