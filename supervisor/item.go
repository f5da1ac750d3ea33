package supervisor

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// thing is an issue or pull request as a fresh look shows it.
type thing struct {
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

func (t *thing) has(label string) bool { return slices.Contains(t.labels, label) }

// item reads what a person named, in the spelling of the configuration.
func (s *Supervisor) item(said string) (forge.Ref, error) { return s.itemOf("", said) }

// itemOf is item where a repository was named for what is only a number.
func (s *Supervisor) itemOf(home, said string) (forge.Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.itemLocked(home, said)
}

func (s *Supervisor) itemLocked(home, said string) (forge.Ref, error) {
	if home == "" && len(s.config.Forge.Repos) == 1 {
		home = s.config.Forge.Repos[0]
	}
	item, err := forge.ParseRef(said, home)
	if err != nil {
		return item, control.Refuse(http.StatusBadRequest, "%s", err)
	}
	i := slices.IndexFunc(s.config.Forge.Repos, func(r string) bool { return strings.EqualFold(r, item.Repo) })
	if i < 0 {
		return item, control.Refuse(http.StatusNotFound, "%s is none of the repositories of this factory", item.Repo)
	}
	item.Repo = s.config.Forge.Repos[i]
	return item, nil
}

// see looks at an issue or pull request on the forge, because what a person says is about what they see there now.
func (s *Supervisor) see(item forge.Ref) (*thing, error) {
	var look forge.Look
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) (err error) {
		look, err = f.Look(ctx, item, time.Now())
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case look.Pull != nil:
		p := look.Pull
		return &thing{Ref: item, pull: true, closed: p.Closed, heldBy: p.HeldBy, labels: p.Labels, assignees: p.Assignees, chain: threads.ChainOf(p)}, nil
	case look.Issue != nil:
		is := look.Issue
		return &thing{Ref: item, title: is.Title, closed: is.Closed, heldBy: is.HeldBy, labels: is.Labels, assignees: is.Assignees, chain: item, pulls: look.Pulls}, nil
	}
	return nil, forge.ErrNotFound
}

// notDone is what a person is told when the forge kept a command from being done.
func notDone(command string, item forge.Ref, err error) error {
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return control.Refuse(http.StatusNotFound, "cannot %s %s: there is no such issue or pull request", command, item)
	case errors.Is(err, forge.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return control.Refuse(http.StatusServiceUnavailable, "cannot %s %s now: %s", command, item, text(err))
	}
	return control.Refuse(http.StatusConflict, "cannot %s %s: %s", command, item, text(err))
}

// family is an issue with the open pull requests of our agents for it; a pull request is alone. What a person says of an
// issue is meant for those too: on the forge nobody else takes care of them.
func (s *Supervisor) family(t *thing) []forge.Ref {
	s.mu.Lock()
	defer s.mu.Unlock()
	refs := []forge.Ref{t.Ref}
	for i := range t.pulls {
		p := &t.pulls[i]
		if !p.Closed && threads.ChainOf(p) == t.Ref && s.config.AgentByLogin(p.Author) != nil {
			refs = append(refs, p.Ref)
		}
	}
	return refs
}

// endLocked tells the sessions on some items to end, and returns them.
func (s *Supervisor) endLocked(items []forge.Ref, why threads.Code) []*session {
	var list []*session
	for _, run := range slices.Sorted(maps.Keys(s.sessions)) {
		x := s.sessions[run]
		if !x.claims() || !slices.Contains(items, x.Item.Ref) {
			continue
		}
		if x.State != threads.Stopping {
			x.State, x.stop = threads.Stopping, threads.Reason{Code: why}
			x.cancel(stopped{x.stop})
		}
		list = append(list, x)
	}
	return list
}

// goneTime is how long a command waits, beyond the grace, until a session that it ended is gone: KILL, the sweep and the
// release.
const goneTime = 30 * time.Second

// awaitGone waits until nothing of a session is left, and its claim is off. It reports whether that was so in time: a
// session that ended by itself in the same moment may wait for the forge to tell what came of it.
func (x *session) awaitGone() bool {
	limit := time.NewTimer(x.config.Factory.StopGrace + goneTime)
	defer limit.Stop()
	select {
	case <-x.gone:
		return true
	case <-limit.C:
		return false
	}
}

// reportEnded waits for sessions that were told to end, and reports them.
func reportEnded(r *control.Report, list []*session) {
	for _, x := range list {
		if x.awaitGone() {
			r.Add("session of %s ended", x.Agent)
		} else {
			r.Pending = "the session of " + x.Agent + " has not ended yet"
		}
	}
}

// unclaim takes our claim off what a fresh look showed, and reports whether there was one. A claim of another host's is
// not ours to take off; an agent that is assigned without in-progress is pinned, not at work.
func (s *Supervisor) unclaim(t *thing) (was bool, err error) {
	if !t.has(forge.LabelInProgress) {
		return false, nil
	}
	ours, foreign := s.claimants(t)
	for _, login := range ours {
		err = errors.Join(err, s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
			return f.Release(ctx, t.Ref, login)
		}))
	}
	if len(ours)+len(foreign) == 0 {
		err = s.label(t.Ref, nil, []string{forge.LabelInProgress})
	}
	if err == nil && len(foreign) == 0 {
		s.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(t.Ref)}})
	}
	return len(foreign) == 0, err
}

// claimants are the assigned agents: ours, and those of other hosts.
func (s *Supervisor) claimants(t *thing) (ours, foreign []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, login := range t.assignees {
		_, bot := slices.BinarySearch(s.config.Forge.Bots, login)
		switch {
		case s.config.AgentByLogin(login) != nil || s.history.Chain(t.Ref).Login == login:
			ours = append(ours, login)
		case bot:
			foreign = append(foreign, login)
		}
	}
	return ours, foreign
}
