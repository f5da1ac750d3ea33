package localforge

import (
	"context"
	"fmt"
	"sort"
)

// The methods in this file set up a forge from Go, before or while it serves. The API can do the same, except for the
// first admin.

// AddUser adds an account with the mail address NAME@localhost. The password can be short; if it is empty, the account
// can sign in with tokens only.
func (f *Forge) AddUser(name, password string, admin bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	u, err := f.addUserLocked(name, name+"@localhost", password)
	if err != nil {
		return fmt.Errorf("cannot add user %s: %w", name, err)
	}
	u.admin = admin
	return nil
}

// AddToken adds a token of a user and returns its text. Without scopes the token has all rights.
func (f *Forge) AddToken(user string, scopes ...string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(scopes) == 0 {
		scopes = []string{"all"}
	}
	u := f.userLocked(user)
	if u == nil {
		return "", fmt.Errorf("cannot add token: no user %s", user)
	}
	if err := checkScopes(scopes); err != nil {
		return "", fmt.Errorf("cannot add token: %w", err)
	}
	return f.addTokenLocked(u, fmt.Sprintf("token-%d", f.lastID+1), scopes).secret, nil
}

// AddRepo creates a public repository whose branch main holds files, by path, in one commit of the owner. Without files
// the repository is empty.
func (f *Forge) AddRepo(ctx context.Context, owner, name string, files map[string]string) error {
	f.mu.Lock()
	u := f.userLocked(owner)
	f.mu.Unlock()
	if u == nil {
		return fmt.Errorf("cannot add repository %s/%s: no user %s", owner, name, owner)
	}
	r, err := f.newRepo(ctx, u, repoForm{Name: name})
	if err != nil {
		return fmt.Errorf("cannot add repository %s/%s: %w", owner, name, err)
	}
	change := contentChange{branch: r.defaultBranch, message: "Initial commit", by: u}
	for path, body := range files {
		change.files = append(change.files, fileChange{path: path, body: []byte(body)})
	}
	if len(change.files) == 0 {
		return nil
	}
	sort.Slice(change.files, func(i, j int) bool { return change.files[i].path < change.files[j].path })
	if _, err := f.commitFiles(ctx, r, change); err != nil {
		return fmt.Errorf("cannot fill repository %s/%s: %w", owner, name, err)
	}
	return nil
}

// AddCollaborator gives a user a permission in a repository: "read", "write" or "admin".
func (f *Forge) AddCollaborator(owner, name, user, permission string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, u, level := f.repoLocked(owner, name), f.userLocked(user), parseAccess(permission)
	if r == nil || u == nil || level == accessNone {
		return fmt.Errorf("cannot make %s a %s collaborator of %s/%s: no such user, permission or repository", user,
			permission, owner, name)
	}
	r.collaborators[u] = level
	return nil
}

// SetHook makes the forge refuse pushes, as a pre-receive hook does. decline returns the hook's words about a ref of a
// repository, and "" to accept the push; it must not call the Forge. nil removes the hook.
func (f *Forge) SetHook(decline func(repo, ref string) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = decline
}
