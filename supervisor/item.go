package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// target is the issue or pull request of a command, as the forge shows it now.
type target struct {
	forge.Ref
	pull      bool
	closed    bool
	title     string // of an issue
	heldBy    string // another supervisor's agent
	labels    []string
	assignees []string
	chain     forge.Ref
	pulls     []forge.Pull // of an issue: every pull request for it
}

func (t *target) has(label string) bool { return slices.Contains(t.labels, label) }

// item parses a reference, and returns it in the configuration's spelling. A bare number is in the repository home; if
// home is "", it is in the factory's only repository.
func (c *core) item(home, said string) (forge.Ref, error) {
	item, err := c.state.config().Item(home, said)
	return item, misnamed(err)
}

// misnamed returns the refusal of an invalid reference, or of one outside this factory; nil for nil.
func misnamed(err error) error {
	switch {
	case errors.Is(err, threads.ErrOtherRepo):
		return control.NotFound("%s", err)
	case err != nil:
		return control.Invalid("%s", err)
	}
	return nil
}

// find reads the item that a command names; verb is the command's name in a refusal. It asks the forge, not the last
// scan: the person sees the forge as it is now.
func (c *core) find(verb, home, said string) (*target, error) {
	item, err := c.item(home, said)
	if err != nil {
		return nil, err
	}
	t, err := c.fetchTarget(item)
	if err != nil {
		return nil, notDone(verb, item, err)
	}
	return t, nil
}

// fetchTarget reads an issue or pull request from the forge.
func (c *core) fetchTarget(item forge.Ref) (*target, error) {
	look, err := c.fetchItem(item, time.Now())
	switch {
	case err != nil:
		return nil, err
	case look.Pull != nil:
		p := look.Pull
		return &target{
			Ref: item, pull: true, closed: p.Closed, heldBy: p.HeldBy, labels: p.Labels, assignees: p.Assignees,
			chain: threads.ChainOf(p),
		}, nil
	case look.Issue != nil:
		is := look.Issue
		return &target{
			Ref: item, title: is.Title, closed: is.Closed, heldBy: is.HeldBy, labels: is.Labels, assignees: is.Assignees,
			chain: item, pulls: look.Pulls,
		}, nil
	}
	return nil, forge.ErrNotFound
}

// explain returns every rule's answer about an item.
func (c *core) explain(item forge.Ref) (ex threads.Explanation, err error) {
	c.view(func(snap threads.Snapshot) {
		ex, err = threads.Explain(snap, item)
		c.state.rememberedLocked(item, &ex)
	})
	return ex, err
}

// view runs f on a current snapshot. It needs a configuration.
func (c *core) view(f func(threads.Snapshot)) { c.state.view(time.Now(), c.room(), f) }

// notDone returns the refusal of a command after an error of the forge.
func notDone(verb string, item forge.Ref, err error) error {
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return control.NotFound("cannot %s %s: there is no such issue or pull request", verb, item)
	case errors.Is(err, context.DeadlineExceeded):
		return control.NotNow("cannot %s %s now: the forge does not answer", verb, item)
	case errors.Is(err, forge.ErrUnavailable):
		return control.NotNow("cannot %s %s now: %s", verb, item, text(err))
	}
	return control.Conflict("cannot %s %s: %s", verb, item, text(err))
}

// withPulls returns an issue with the open pull requests of our agents for it; a pull request is alone. A command on an
// issue includes them, because on the forge only the agent would look after them.
func (c *core) withPulls(t *target) []forge.Ref {
	config, refs := c.state.config(), []forge.Ref{t.Ref}
	for i := range t.pulls {
		p := &t.pulls[i]
		if !p.Closed && threads.ChainOf(p) == t.Ref && config.AgentByLogin(p.Author) != nil {
			refs = append(refs, p.Ref)
		}
	}
	return refs
}

// goneTime is how long a command waits, beyond the grace, for a session's end: KILL, the sweep and the release.
const goneTime = 30 * time.Second

// awaitEnds waits until sessions that were ended are gone and their claims are released, and reports each. A session
// that takes longer is pending: it ended by itself at the same time, and waits for the forge.
func awaitEnds(report *control.Report, list []*session) {
	for _, x := range list {
		limit := time.NewTimer(x.config.Factory.StopGrace + goneTime)
		select {
		case <-x.gone:
			report.Add("session of %s ended", x.Agent)
		case <-limit.C:
			report.Pending = "the session of " + x.Agent + " has not ended yet"
		}
		limit.Stop()
	}
}

// unclaim releases our claim, and reports whether there was one. It leaves another host's claim alone. It also leaves
// an agent that is assigned without in-progress: that is a pin.
func (c *core) unclaim(t *target) (was bool, err error) {
	if !t.has(forge.LabelInProgress) {
		return false, nil
	}
	ours, foreign := c.claimants(t)
	for _, login := range ours {
		err = errors.Join(err, c.call(c.base, callTimeout, func(ctx context.Context, f Forge) error {
			return f.Release(ctx, t.Ref, login)
		}))
	}
	if len(ours)+len(foreign) == 0 {
		err = c.label(t.Ref, nil, []string{forge.LabelInProgress})
	}
	if err == nil && len(foreign) == 0 {
		c.state.record(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(t.Ref)}})
	}
	return len(foreign) == 0, err
}

// claimants returns the assigned agents: ours, and those of other hosts.
func (c *core) claimants(t *target) (ours, foreign []string) {
	config, known := c.state.config(), c.state.chain(t.Ref)
	for _, login := range t.assignees {
		switch {
		case config.AgentByLogin(login) != nil || known.Login == login:
			ours = append(ours, login)
		case config.IsBot(login):
			foreign = append(foreign, login)
		}
	}
	return ours, foreign
}
