package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// oldestForgejo is the first version whose API has what we need.
const oldestForgejo = 7

// WhoAmI returns the login of the account that a token belongs to. The empty token means our own.
func (c *Client) WhoAmI(ctx context.Context, token string) (string, error) {
	if token == "" {
		token = c.token
	}
	me, _, err := doAs[*gitea.User](ctx, c, token, requestTime, ask{http.MethodGet, "/user", nil})
	if err != nil {
		return "", fmt.Errorf("cannot tell whose token this is: %w", err)
	}
	return me.UserName, nil
}

// me is the login of our own account.
func (c *Client) me(ctx context.Context) (string, error) {
	c.mu.Lock()
	login := c.login
	c.mu.Unlock()
	if login != "" {
		return login, nil
	}
	login, err := c.WhoAmI(ctx, "")
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login = login
	return login, nil
}

// Prepare checks that the forge is a Forgejo of ours to use: its version, our token, and for each repository that we
// may read and write it. It creates the labels that are missing. Every problem is returned at once, each on one line
// that says what to do.
func (c *Client) Prepare(ctx context.Context) error {
	_, err := c.prepare(ctx, true)
	return err
}

// MissingLabel is a label that a repository has to have and has not.
type MissingLabel struct {
	Repo, Name string
}

// Inspect is Prepare without writing anything: it returns the labels that Prepare would create.
func (c *Client) Inspect(ctx context.Context) ([]MissingLabel, error) { return c.prepare(ctx, false) }

func (c *Client) prepare(ctx context.Context, create bool) ([]MissingLabel, error) {
	if err := c.checkVersion(ctx); err != nil {
		return nil, err
	}
	login, err := c.me(ctx)
	if err != nil {
		return nil, explainToken(err)
	}
	missing := make([][]MissingLabel, len(c.repos))
	err = inParallel(ctx, len(c.repos), func(ctx context.Context, n int) (err error) {
		missing[n], err = c.prepareRepo(ctx, c.repos[n].name, login, create)
		return err
	})
	return slices.Concat(missing...), err
}

func (c *Client) checkVersion(ctx context.Context) error {
	said, _, err := do[struct{ Version string }](ctx, c, ask{http.MethodGet, "/version", nil})
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return fmt.Errorf("cannot find a Forgejo at %s: %w; check [forge] url", c.url, err)
	case errors.Is(err, forge.ErrForbidden):
		return explainToken(err)
	case err != nil:
		return fmt.Errorf("cannot reach the forge at %s: %w", c.url, err)
	case major(said.Version) < oldestForgejo:
		return fmt.Errorf("cannot work with the forge at %s: it is version %q; update it to Forgejo %d or later",
			c.url, oneLine(said.Version), oldestForgejo)
	}
	return nil
}

// major is 10 of 10.0.0+gitea-1.22.0. A Gitea, and a Forgejo before 7, say 1.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(first)
	return n
}

func explainToken(err error) error {
	switch statusOf(err) {
	case http.StatusUnauthorized:
		return fmt.Errorf("cannot use the forge token: %w; make a new one and put it into [forge] token", err)
	case http.StatusForbidden:
		return fmt.Errorf("cannot use the forge token: %w; make one with the scopes write:repository, write:issue and read:user", err)
	}
	return err
}

func (c *Client) prepareRepo(ctx context.Context, name, login string, create bool) ([]MissingLabel, error) {
	in, x, err := do[*gitea.Repository](ctx, c, ask{http.MethodGet, at(name, ""), nil})
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil, fmt.Errorf("cannot see the repository %s: %w; check [forge] repos, or add %s to its collaborators", name, err, login)
	case err != nil:
		return nil, fmt.Errorf("cannot read the repository %s: %w", name, err)
	}
	if problem := unusable(in, name, login); problem != nil {
		return nil, problem
	}
	if r := c.repo(name); r != nil {
		c.mu.Lock()
		if r.settings.readAt.Before(x.began) {
			r.settings = settingsOf(in, x.began)
		}
		c.mu.Unlock()
	}
	missing, err := c.prepareLabels(ctx, name, create)
	denied := c.probeWrite(ctx, in, name)
	if denied == nil {
		denied = c.probeClaims(ctx, name)
	}
	return missing, errors.Join(err, denied)
}

// unusable says what of the repository's settings keeps us from working in it; nil when nothing does.
func unusable(in *gitea.Repository, name, login string) error {
	switch {
	case !strings.EqualFold(in.FullName, name):
		return fmt.Errorf("cannot work in %s: it was renamed to %s; put that into [forge] repos", name, in.FullName)
	case in.Archived:
		return fmt.Errorf("cannot work in %s: it is archived; take it out of [forge] repos", name)
	case in.Mirror:
		return fmt.Errorf("cannot work in %s: it is a mirror; use the original", name)
	case !in.HasIssues:
		return fmt.Errorf("cannot work in %s: its issues are switched off; switch them on in the repository's settings", name)
	case !in.HasPullRequests:
		return fmt.Errorf("cannot work in %s: its pull requests are switched off; switch them on in the repository's settings", name)
	case in.Permissions == nil || !in.Permissions.Push:
		return fmt.Errorf("cannot write to %s: %s may only read it; make it a collaborator with write access", name, login)
	}
	return nil
}

// prepareLabels finds the required labels that are missing, and creates them if it may. Where it creates none, it tries
// to change one that cannot exist, so that a token which may only read is found out now and not at the first claim.
func (c *Client) prepareLabels(ctx context.Context, name string, create bool) (missing []MissingLabel, err error) {
	c.forgetLabels(name)
	known, err := c.repoLabels(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the labels of %s: %w", name, err)
	}
	for _, l := range forge.RequiredLabels() {
		if known[l.Name] != 0 {
			continue
		}
		missing = append(missing, MissingLabel{name, l.Name})
		if !create {
			continue
		}
		if _, err := c.createLabel(ctx, name, l); err != nil {
			return nil, explainWrite(fmt.Errorf("cannot create the label %s in %s: %w", l.Name, name, err), "write:issue")
		}
	}
	if create && len(missing) > 0 {
		return missing, nil
	}
	err = c.probeLabel(ctx, c.token, name, nil)
	if errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnavailable) {
		return missing, explainWrite(fmt.Errorf("cannot write to the issues of %s: %w", name, err), "write:issue")
	}
	return missing, nil // 404: it may
}

// probeWrite finds out whether the token may merge.
func (c *Client) probeWrite(ctx context.Context, in *gitea.Repository, name string) error {
	err := c.probeBranch(ctx, c.token, name, in)
	if errors.Is(err, forge.ErrForbidden) {
		return explainWrite(fmt.Errorf("cannot merge in %s: %w", name, err), "write:repository")
	}
	return nil
}

// explainWrite adds what to do about a token that lacks a scope.
func explainWrite(err error, scope string) error {
	if errors.Is(err, forge.ErrForbidden) {
		return fmt.Errorf("%w; give the token the scope %s", err, scope)
	}
	return err
}
