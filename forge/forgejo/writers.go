package forgejo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// writersEvery is how often the accounts with write access are read, while they matter.
const writersEvery = settledEvery

// writers are the accounts with write access to a repository.
type writers struct {
	logins map[string]bool // in lower case
	// Our clock: the last try and the last answer; zero before the first.
	tried, read time.Time
}

// readWriters reads the accounts with write access while they matter: a person's pull request is open, or people can
// answer a question or plan.
func (c *Client) readWriters(ctx context.Context, r *repo) error {
	c.mu.Lock()
	wanted := r.hasPeoplesPulls(c) || len(r.listeners(c)) > 0
	c.mu.Unlock()
	if !wanted {
		return nil
	}
	return c.freshWriters(ctx, r, writersEvery)
}

// freshWriters reads the accounts with write access, unless it tried within the last age. While the forge does not
// answer, the last answer counts.
func (c *Client) freshWriters(ctx context.Context, r *repo, age time.Duration) error {
	c.mu.Lock()
	due := time.Since(r.writers.tried) >= age
	if due {
		r.writers.tried = time.Now()
	}
	c.mu.Unlock()
	if !due {
		return nil
	}
	logins, err := c.connection.writers(ctx, r.name)
	if isOutage(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: accounts with write access: %w", r.name, err)
	}
	all := make(map[string]bool, len(logins))
	for _, login := range logins {
		all[strings.ToLower(login)] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.writers.logins, r.writers.read = all, time.Now()
	return nil
}

// commandersEvery is how old the list of writers can be when a command is checked against it.
const commandersEvery = time.Minute

// MayWrite reports whether an account has write access to a scanned repository, from an answer of the forge that is at
// most a minute old.
func (c *Client) MayWrite(ctx context.Context, repo, login string) (bool, error) {
	r := c.repo(repo)
	if r == nil {
		return false, fmt.Errorf("cannot tell who may write to %s: %w", repo, forge.ErrNotFound)
	}
	if err := c.freshWriters(ctx, r, commandersEvery); err != nil {
		return false, fmt.Errorf("cannot tell who may write to %s: %w", repo, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(r.writers.read) > commandersEvery { // the last try failed
		return false, fmt.Errorf("cannot tell who may write to %s: %w", repo, forge.ErrUnavailable)
	}
	return r.writers.logins[strings.ToLower(login)], nil
}

func (r *repo) hasPeoplesPulls(c *Client) bool {
	for _, p := range r.pulls {
		if !p.Closed && !c.isAgent(p.Author) {
			return true
		}
	}
	return false
}

// isStranger reports whether the author of a pull request is a person who is not known to have write access.
func (r *repo) isStranger(c *Client, p *forge.Pull) bool {
	return !c.isAgent(p.Author) && !r.mayWrite(p.Author)
}

func (r *repo) mayWrite(login string) bool { return r.writers.logins[strings.ToLower(login)] }
