package localforge

import (
	"cmp"
	"net/http"
	"slices"
)

var collaboratorRoutes = []route{
	{"GET /repos/{owner}/{repo}/assignees", scopeRepository, signedIn, 200, listAssignees, underLock},
	{"GET /repos/{owner}/{repo}/collaborators/{user}", scopeRepository, signedIn, 204, isCollaborator, underLock},
	{"PUT /repos/{owner}/{repo}/collaborators/{user}", scopeRepository, repoAdmin, 204, addCollaborator, underLock},
	{"DELETE /repos/{owner}/{repo}/collaborators/{user}", scopeRepository, repoAdmin, 204, deleteCollaborator, underLock},
	{
		"GET /repos/{owner}/{repo}/collaborators/{user}/permission", scopeRepository, signedIn, 200, getPermission,
		underLock,
	},
}

// collaborator returns the user in the path. Unlike elsewhere, an unknown name is answered with 422.
func (c *call) collaborator() (*user, error) {
	if u := c.f.userLocked(c.r.PathValue("user")); u != nil {
		return u, nil
	}
	return nil, fail(http.StatusUnprocessableEntity, "user does not exist [uid: 0, name: %s]", c.r.PathValue("user"))
}

// listAssignees lists only the accounts with write access, although accounts with read access can be assigned too.
func listAssignees(c *call) (any, error) {
	users := []*user{c.repo.owner}
	for u, given := range c.repo.collaborators {
		if given >= accessWrite && u != c.repo.owner {
			users = append(users, u)
		}
	}
	slices.SortFunc(users, func(a, b *user) int { return cmp.Compare(a.name, b.name) })
	list := make([]any, len(users))
	for i, u := range users {
		list[i] = c.user(u)
	}
	return list, nil
}

func isCollaborator(c *call) (any, error) {
	u, err := c.collaborator()
	if err != nil {
		return nil, err
	}
	if _, ok := c.repo.collaborators[u]; !ok {
		return nil, notFound()
	}
	return nil, nil
}

// addCollaborator gives write access unless the request names another permission.
func addCollaborator(c *call) (any, error) {
	u, err := c.collaborator()
	if err != nil {
		return nil, err
	}
	var form struct {
		Permission *string `json:"permission"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if _, ok := c.repo.collaborators[u]; !ok {
		c.repo.collaborators[u] = accessWrite
	}
	if form.Permission != nil {
		if given := parseAccess(*form.Permission); given != accessNone {
			c.repo.collaborators[u] = given
		}
	}
	return nil, nil
}

// deleteCollaborator also unassigns the account from the issues of a private repository, as Forgejo does.
func deleteCollaborator(c *call) (any, error) {
	u, err := c.collaborator()
	if err != nil {
		return nil, err
	}
	delete(c.repo.collaborators, u)
	for _, i := range c.repo.issues {
		if c.repo.private {
			i.assignees = remove(i.assignees, u)
		}
	}
	return nil, nil
}

func getPermission(c *call) (any, error) {
	// Forgejo intends to let users query their own permission, but compares with a name that is always empty.
	u := c.f.userLocked(c.r.PathValue("user"))
	if !c.doer.admin && c.access < accessAdmin {
		return nil, fail(http.StatusForbidden,
			"Only admins can query all permissions, repo admins can query all repo permissions, "+
				"collaborators can query only their own")
	}
	if u == nil {
		return nil, notFound()
	}
	level := c.repo.accessOf(u)
	return map[string]any{"permission": level.String(), "role_name": level.String(), "user": c.user(u)}, nil
}
