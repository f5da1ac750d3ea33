package forgejo

import (
	"context"
	"errors"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// This file finds the accounts with write access to a repository. The forge reports the rights of other accounts only
// to administrators. To every writer it lists the accounts that an issue can be assigned to. These are the accounts
// with write access and, in a repository of an organisation, also the members of teams with read access.

const (
	// maxMembers bounds how many members of a team are read.
	maxMembers = 500
	// maxAsked bounds the accounts whose role in an organisation is read. The others count as readers.
	maxAsked = 100
)

// mayPush reports whether a team's members can push.
func mayPush(t *gitea.Team) bool {
	mode := t.UnitsMap[string(gitea.RepoUnitCode)]
	if len(t.UnitsMap) == 0 {
		mode = string(t.Permission)
	}
	return slices.Contains([]string{"write", "admin", "owner"}, mode)
}

// writers lists the accounts with write access to a repository, sorted. If a team has only read access, a member of
// the organisation counts only if the account owns the organisation or is in a team with write access. Our account sees
// only the teams that it is in.
func (c *connection) writers(ctx context.Context, repo string) ([]string, error) {
	org, name := owner(repo)
	g, x := c.sdk(ctx)
	in, _, err := g.GetAssignees(org, name)
	if in, err = entries(x, in, err); err != nil {
		return nil, err
	}
	listed := logins(in)
	g, x = c.sdk(ctx)
	teams, _, err := g.GetRepoTeams(org, name)
	teams, err = entries(x, teams, err)
	switch {
	case errors.Is(err, forge.ErrConflict), errors.Is(err, forge.ErrNotFound): // the owner is not an organisation
		return listed, nil
	case err != nil:
		return nil, err
	}
	readsOnly := func(t *gitea.Team) bool { return t == nil || !mayPush(t) }
	if len(teams) > 0 && !slices.ContainsFunc(teams, readsOnly) {
		return listed, nil
	}
	known, err := c.members(ctx, slices.DeleteFunc(teams, readsOnly))
	if err != nil {
		return nil, err
	}
	asked := 0
	var sure []string
	for _, login := range listed {
		may := known[strings.ToLower(login)]
		if !may && asked < maxAsked && forge.ValidRepo(org+"/"+login) {
			asked++
			if may, err = c.writesBeside(ctx, login, org); err != nil {
				return nil, err
			}
		}
		if may {
			sure = append(sure, login)
		}
	}
	return sure, nil
}

// members returns the members of those teams that our account can see, in lower case.
func (c *connection) members(ctx context.Context, teams []*gitea.Team) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, t := range teams {
		id := func(in *gitea.User) int64 { return in.ID }
		members, err := newList(c, id, func(
			g *gitea.Client, page gitea.ListOptions,
		) ([]*gitea.User, *gitea.Response, error) {
			return g.ListTeamMembers(t.ID, gitea.ListTeamMembersOptions{ListOptions: page})
		}).upTo(ctx, maxMembers)
		if errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, login := range logins(members) {
			known[strings.ToLower(login)] = true
		}
	}
	return known, nil
}

// writesBeside reports whether an account, to which issues can be assigned, has write access although no known team
// gives it: the account owns the organisation, or is not a member of it and therefore a collaborator.
func (c *connection) writesBeside(ctx context.Context, login, org string) (bool, error) {
	g, x := c.sdk(ctx)
	place, _, err := g.GetOrgPermissions(org, login)
	err = x.end(err)
	switch {
	case errors.Is(err, forge.ErrNotFound): // the account cannot see the organisation
		return true, nil
	case err != nil:
		return false, err
	}
	return place.IsOwner || !place.CanRead, nil
}
