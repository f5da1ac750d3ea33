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

// scopes are the scopes that every token needs to work in a repository.
const scopes = "write:repository, write:issue and read:user"

// WhoAmI returns the login of the account that a token belongs to. The empty token means our own.
func (c *Client) WhoAmI(ctx context.Context, token string) (string, error) {
	if token == "" {
		token = c.token
	}
	g, x := c.as(token).sdk(ctx)
	me, _, err := g.GetMyUserInfo()
	if err = x.end(err); err != nil {
		return "", fmt.Errorf("cannot tell whose token this is: %w", err)
	}
	return me.UserName, nil
}

// me returns the login of our own account.
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

// Prepare checks the forge's version, our token, and our access to each repository. It creates the missing labels. It
// returns all problems, each on one line that says what to do.
func (c *Client) Prepare(ctx context.Context) error {
	_, err := c.prepare(ctx, true)
	return err
}

// MissingLabel is a required label that a repository lacks.
type MissingLabel struct {
	Repo, Name string
}

// Inspect is Prepare without any write: it returns the labels that Prepare would create.
func (c *Client) Inspect(ctx context.Context) ([]MissingLabel, error) { return c.prepare(ctx, false) }

func (c *Client) prepare(ctx context.Context, create bool) ([]MissingLabel, error) {
	if _, err := c.Software(ctx); err != nil {
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

func explainToken(err error) error {
	switch statusOf(err) {
	case http.StatusUnauthorized:
		return fmt.Errorf("cannot use the forge token: %w; make a new one and put it into [forge] token", err)
	case http.StatusForbidden:
		return fmt.Errorf("cannot use the forge token: %w; make one with the scopes %s", err, scopes)
	}
	return err
}

func (c *Client) prepareRepo(ctx context.Context, name, login string, create bool) ([]MissingLabel, error) {
	in, x, err := c.repository(ctx, name)
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil, fmt.Errorf("cannot see the repository %s: %w; check [forge] repos, or add %s to its collaborators",
			name, err, login)
	case err != nil:
		return nil, fmt.Errorf("cannot read the repository %s: %w", name, err)
	}
	if problem := unusable(in, name, login); problem != nil {
		return nil, problem
	}
	if r := c.repo(name); r != nil {
		c.mu.Lock()
		if r.settings.readAt.Before(x.began) {
			r.settings = settingsOf(in, r.name, x.began)
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

// unusable returns why we cannot work in a repository with these settings; nil if we can.
func unusable(in *gitea.Repository, name, login string) error {
	switch {
	case !strings.EqualFold(in.FullName, name):
		return fmt.Errorf("cannot work in %s: it was renamed to %s; put that into [forge] repos", name, in.FullName)
	case in.Archived:
		return fmt.Errorf("cannot work in %s: it is archived; take it out of [forge] repos", name)
	case in.Mirror:
		return fmt.Errorf("cannot work in %s: it is a mirror; use the original", name)
	case !in.HasIssues:
		return switchedOff(name, "issues")
	case !in.HasPullRequests:
		return switchedOff(name, "pull requests")
	case !writes(in):
		return fmt.Errorf("cannot write to %s: %s may only read it; make it a collaborator with write access", name, login)
	}
	return nil
}

func switchedOff(name, what string) error {
	return fmt.Errorf("cannot work in %s: its %s are switched off; switch them on in the repository's settings",
		name, what)
}

// prepareLabels returns the required labels that are missing, and creates them if create is set. If it creates none, it
// tries to change a label that cannot exist, so that a read-only token is reported now and not at the first claim.
func (c *Client) prepareLabels(ctx context.Context, name string, create bool) (missing []MissingLabel, err error) {
	c.forgetLabels(name)
	known, err := c.repoLabels(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the labels of %s: %w", name, err)
	}
	for _, l := range forge.RequiredLabels() {
		id, err := c.labelID(ctx, name, known, l.Name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the label %s of %s: %w", l.Name, name, err)
		}
		if id != 0 {
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
	err = c.probeLabel(ctx, name, nil)
	if errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrUnavailable) {
		return missing, explainWrite(fmt.Errorf("cannot write to the issues of %s: %w", name, err), "write:issue")
	}
	return missing, nil // 404: the token has write access
}

// probeWrite returns an error if the token lacks the right to merge.
func (c *Client) probeWrite(ctx context.Context, in *gitea.Repository, name string) error {
	err := c.probeBranch(ctx, name, in)
	if errors.Is(err, forge.ErrForbidden) {
		return explainWrite(fmt.Errorf("cannot merge in %s: %w", name, err), "write:repository")
	}
	return nil
}

// explainWrite adds the scope that a token lacks.
func explainWrite(err error, scope string) error {
	if errors.Is(err, forge.ErrForbidden) {
		return fmt.Errorf("%w; give the token the scope %s", err, scope)
	}
	return err
}
