package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// CanWrite reports whether an account can push to a repository, as its owner, a collaborator or a member of a team.
func (a *Admin) CanWrite(ctx context.Context, repo, login string) (_ bool, err error) {
	defer wrap(&err, "tell whether %s may write to %s", login, repo)
	owner, name := owner(repo)
	g, x := a.sdk(ctx)
	may, _, err := g.CollaboratorPermission(owner, name, login)
	if err = x.end(err); err != nil {
		return false, unless(err, forge.ErrNotFound)
	}
	writing := []gitea.AccessMode{gitea.AccessModeWrite, gitea.AccessModeAdmin, gitea.AccessModeOwner}
	return slices.Contains(writing, may.Permission), nil
}

// Allow makes an account a collaborator with write access.
func (a *Admin) Allow(ctx context.Context, repo, login string) (err error) {
	defer wrap(&err, "let %s write to %s", login, repo)
	return a.allow(ctx, repo, login)
}

func (a *Admin) allow(ctx context.Context, repo, login string) error {
	owner, name := owner(repo)
	g, x := a.sdk(ctx)
	_, err := g.AddCollaborator(owner, name, login,
		gitea.AddCollaboratorOption{Permission: new(gitea.AccessModeWrite)})
	return x.wrote(err)
}

// Disallow revokes the access that Allow gave. It can be repeated.
func (a *Admin) Disallow(ctx context.Context, repo, login string) (err error) {
	defer wrap(&err, "revoke %s's access to %s", login, repo)
	owner, name := owner(repo)
	g, x := a.sdk(ctx)
	_, err = g.DeleteCollaborator(owner, name, login)
	err = x.wrote(err)
	return unless(err, forge.ErrNotFound)
}

// unless returns nil if err is of the given kind, which is no failure here, and err otherwise.
func unless(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// Collaborates reports whether an account is a collaborator of a repository, with any permission.
func (a *Admin) Collaborates(ctx context.Context, repo, login string) (_ bool, err error) {
	defer wrap(&err, "tell whether %s is a collaborator of %s", login, repo)
	owner, name := owner(repo)
	g, x := a.sdk(ctx)
	_, _, err = g.IsCollaborator(owner, name, login)
	err = x.wrote(err)
	if errors.Is(err, forge.ErrNotFound) || statusOf(err) == http.StatusUnprocessableEntity {
		return false, nil
	}
	return err == nil, err
}

// Repository looks up a repository; forge.ErrNotFound when it does not exist.
func (a *Admin) Repository(ctx context.Context, name string) (r forge.Repository, err error) {
	defer wrap(&err, "look up the repository %s", name)
	return a.lookUpRepo(ctx, name)
}

// CreateRepository creates an empty private repository. name is owner/name.
func (a *Admin) CreateRepository(ctx context.Context, name, description string) (err error) {
	defer wrap(&err, "create the repository %s", name)
	login, short := owner(name)
	g, x := a.sdk(ctx)
	_, _, err = g.AdminCreateRepo(login,
		gitea.CreateRepoOption{Name: short, Description: description, Private: true, DefaultBranch: "main"})
	return x.wrote(err)
}

// File reads a file of a repository's default branch; forge.ErrNotFound when it does not exist.
func (a *Admin) File(ctx context.Context, repo, path string) (f forge.File, err error) {
	defer wrap(&err, "read %s of %s", path, repo)
	return a.connection.file(ctx, repo, path)
}

// Commit writes files to a branch in one commit, with the account login as its author. The repository can be empty. A
// file with a SHA is replaced unless it has changed since that version; a file without one is new.
func (a *Admin) Commit(
	ctx context.Context, repo, branch, message, login, email string, files []forge.File,
) (err error) {
	defer wrap(&err, "write to %s", repo)
	changes := make([]fileChange, len(files))
	for i, f := range files {
		changes[i] = changeOf(f)
	}
	author := map[string]string{"name": login, "email": email}
	return a.commitFiles(ctx, repo, map[string]any{
		"branch": branch, "message": message, "author": author, "committer": author, "files": changes,
	})
}

// Assigned lists a repository's open issues and pull requests that an account is assigned to, oldest first.
func (a *Admin) Assigned(ctx context.Context, repo, login string) (refs []forge.Ref, err error) {
	defer wrap(&err, "list the issues of %s", repo)
	all, _, err := a.issues(repo, gitea.ListIssueOption{State: gitea.StateOpen, AssignedBy: login}).all(ctx)
	if err != nil {
		return nil, err
	}
	for _, in := range all {
		if in != nil && isAssigned(in, login) { // Forgejo ignores a filter with an unknown login
			refs = append(refs, forge.Ref{Repo: repo, Number: in.Index})
		}
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs), nil
}

// Unassign removes an account from an issue or pull request: the assignee first, then the label in-progress. The label
// stays while another account is assigned that isAgent reports as an agent.
func (a *Admin) Unassign(ctx context.Context, ref forge.Ref, login string, isAgent func(login string) bool) error {
	in, _, err := a.issue(ctx, ref)
	if err != nil {
		return fmt.Errorf("cannot unassign %s from %s: %w", login, ref, err)
	}
	others := slices.DeleteFunc(logins(in.Assignees), func(other string) bool { return strings.EqualFold(other, login) })
	if isAssigned(in, login) {
		form := gitea.EditIssueOption{Assignees: append([]string{}, others...)} // null would not change them
		if _, err := a.editIssue(ctx, ref, form); err != nil {
			return fmt.Errorf("cannot unassign %s from %s: %w", login, ref, err)
		}
	}
	if slices.ContainsFunc(others, isAgent) {
		return nil
	}
	for _, l := range in.Labels {
		if l == nil || l.Name != forge.LabelInProgress {
			continue
		}
		if err := a.removeLabel(ctx, ref, l.ID); err != nil && !errors.Is(err, forge.ErrNotFound) {
			return fmt.Errorf("cannot put %s back into the queue: %w", ref, err)
		}
	}
	return nil
}
