package forgejo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// This file finds the accounts with write access to a repository. The forge reports the rights of other accounts only
// to administrators. To every writer it lists the accounts that an issue can be assigned to. These are the accounts
// with write access and, in a repository of an organisation, also the members of teams with read access.

// getter reads a JSON document from the forge into out. If the document is a page of a list, getter returns how many
// entries the forge says that the list has, or -1.
type getter func(ctx context.Context, path string, out any) (total int, err error)

const (
	// maxMembers bounds how many members of a team are read.
	maxMembers = 500
	// maxAsked bounds the accounts whose role in an organisation is read. The others count as readers.
	maxAsked = 100
)

// team is a team of an organisation with access to a repository.
type team struct {
	ID         int64
	Permission string
	Units      map[string]string `json:"units_map"` // permission by part of the repository
}

// writes reports whether the team's members can push.
func (t *team) writes() bool {
	mode := t.Units["repo.code"]
	if len(t.Units) == 0 {
		mode = t.Permission
	}
	return slices.Contains([]string{"write", "admin", "owner"}, mode)
}

// writersOf lists the accounts with write access to a repository, sorted. If a team has only read access, a member of
// the organisation counts only if the account owns the organisation or is in a team with write access. Our account sees
// only the teams that it is in.
func writersOf(ctx context.Context, get getter, repo string) ([]string, error) {
	var in []*gitea.User
	if _, err := get(ctx, at(repo, "/assignees"), &in); err != nil {
		return nil, err
	}
	listed := logins(in)
	var teams []*team
	_, err := get(ctx, at(repo, "/teams"), &teams)
	switch {
	case errors.Is(err, forge.ErrConflict), errors.Is(err, forge.ErrNotFound): // the owner is not an organisation
		return listed, nil
	case err != nil:
		return nil, err
	}
	readsOnly := func(t *team) bool { return t == nil || !t.writes() }
	if len(teams) > 0 && !slices.ContainsFunc(teams, readsOnly) {
		return listed, nil
	}
	known, err := membersOf(ctx, get, slices.DeleteFunc(teams, readsOnly))
	if err != nil {
		return nil, err
	}
	org, _, _ := strings.Cut(repo, "/")
	asked := 0
	var sure []string
	for _, login := range listed {
		may := known[strings.ToLower(login)]
		if !may && asked < maxAsked && forge.ValidRepo(org+"/"+login) {
			asked++
			if may, err = writesBeside(ctx, get, login, org); err != nil {
				return nil, err
			}
		}
		if may {
			sure = append(sure, login)
		}
	}
	return sure, nil
}

// membersOf returns the members of those teams that our account can see, in lower case.
func membersOf(ctx context.Context, get getter, teams []*team) (map[string]bool, error) {
	known := make(map[string]bool)
	for _, t := range teams {
		members, err := readUpTo[*gitea.User](ctx, get, fmt.Sprintf("/teams/%d/members", t.ID), maxMembers)
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
func writesBeside(ctx context.Context, get getter, login, org string) (bool, error) {
	var place *struct {
		Owner  bool `json:"is_owner"`
		Member bool `json:"can_read"`
	}
	_, err := get(ctx, "/users/"+login+"/orgs/"+org+"/permissions", &place)
	switch {
	case errors.Is(err, forge.ErrNotFound): // the account cannot see the organisation
		return true, nil
	case err != nil || place == nil:
		return false, err
	}
	return place.Owner || !place.Member, nil
}
