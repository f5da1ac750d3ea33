package forgejo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// writersEvery is how often the accounts are read that may write to a repository, while that matters.
const writersEvery = settledEvery

// writers are the accounts that may write to a repository.
type writers struct {
	logins map[string]bool // in lower case
	tried  time.Time       // our clock; zero before the first time
}

// readWriters reads the accounts that may write while a pull request is open that neither our agents nor those of other
// hosts opened. The forge lists them to all writers as those that an issue may be assigned to; the rights of an account
// it tells administrators only. While it does not answer, what was read before counts.
func (c *Client) readWriters(ctx context.Context, r *repo) error {
	c.mu.Lock()
	due := time.Since(r.writers.tried) >= writersEvery && r.hasPeoplesPulls(c)
	if due {
		r.writers.tried = time.Now()
	}
	c.mu.Unlock()
	if !due {
		return nil
	}
	in, _, err := read[[]*gitea.User](ctx, c, at(r.name, "/assignees"))
	if isOutage(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: who may write: %w", r.name, err)
	}
	all := make(map[string]bool, len(in))
	for _, login := range logins(in) {
		all[strings.ToLower(login)] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.writers.logins = all
	return nil
}

func (r *repo) hasPeoplesPulls(c *Client) bool {
	for _, p := range r.pulls {
		if !p.Closed && !c.isAgent(p.Author) {
			return true
		}
	}
	return false
}

// isStranger reports whether a pull request is a person's who is not known to write.
func (r *repo) isStranger(c *Client, p *forge.Pull) bool {
	return !c.isAgent(p.Author) && !r.writers.logins[strings.ToLower(p.Author)]
}
