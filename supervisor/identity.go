package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// How long an agent is held after the forge was asked about its account.
const (
	forbiddenRest   = 5 * time.Minute  // the forge refused: a person has to give the account the right
	unavailableRest = 10 * time.Second // the forge did not answer
)

// Instance returns the id of the state directory, with which every run id begins; "" before Run has read it.
// Everything that Run calls may call it.
func (s *Supervisor) Instance() string { return s.instance }

// accounts remember what the forge said of agents' tokens, so that it is asked once. The zero value remembers nothing.
type accounts struct {
	mu       sync.Mutex // guards what follows
	logins   map[agents.Secret]string
	admitted map[workplace]bool
}

// workplace is an account in a repository.
type workplace struct {
	token agents.Secret
	repo  string
}

// known returns the login of a workplace's token, "" when it is not known, and whether its account may work there.
func (a *accounts) known(w workplace) (login string, admitted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logins[w.token], a.admitted[w]
}

func (a *accounts) learn(w workplace, login string, admitted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.logins == nil {
		a.logins, a.admitted = make(map[agents.Secret]string), make(map[workplace]bool)
	}
	a.logins[w.token], a.admitted[w] = login, admitted
}

// forget drops what is known: a new client may be that of another forge.
func (a *accounts) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins, a.admitted = nil, nil
}

// doubt says why an agent's account may not do its work.
type doubt struct {
	why  string
	rest time.Duration // until the forge is asked again; 0 means until the configuration changes
}

// identified makes sure that a session's agent may do its work. An agent that may not is held, with the remedy.
func (s *Supervisor) identified(x *session) bool {
	no := s.examine(x.ctx, &x.agent, x.Item.Ref.Repo)
	if no == nil || x.ctx.Err() != nil {
		return no == nil
	}
	until := time.Now().Add(no.rest)
	if no.rest == 0 {
		until = time.Time{}
	}
	if s.books.holdAgent(x.Agent, until, no.why) {
		s.log.Error(fmt.Sprintf("[%s] held: %s", x.Agent, no.why))
	}
	return false
}

// examine asks the forge once whether a token belongs to its agent's account and whether that has the rights for the
// work; nil when both is so. Work under another account would be claimed, reviewed and counted as another agent's, and
// a missing right would show only after the work is done.
func (s *Supervisor) examine(ctx context.Context, a *agents.Agent, repo string) *doubt {
	w := workplace{a.Token, repo}
	login, admitted := s.accounts.known(w)
	if login == "" {
		err := s.call(ctx, callTimeout, func(ctx context.Context, f Forge) (err error) {
			login, err = f.WhoAmI(ctx, w.token.Reveal())
			return err
		})
		switch {
		case errors.Is(err, forge.ErrForbidden), errors.Is(err, forge.ErrNotFound):
			why := fmt.Sprintf("the forge refuses the token of %s: set $%s", a.Name, agents.TokenVar(a.Name))
			return &doubt{why, forbiddenRest}
		case err != nil:
			return &doubt{"cannot verify its token: " + text(err), unavailableRest}
		}
		s.accounts.learn(w, login, false)
	}
	if login != a.Login {
		return &doubt{why: fmt.Sprintf("the token of %s logs in as %s: set $%s, or forge_user = %q",
			a.Name, login, agents.TokenVar(a.Name), login)}
	}
	if admitted {
		return nil
	}
	err := s.call(ctx, callTimeout, func(ctx context.Context, f Forge) error {
		return f.MayWork(ctx, w.token.Reveal(), repo)
	})
	switch {
	case errors.Is(err, forge.ErrForbidden):
		return &doubt{text(err), forbiddenRest}
	case err != nil:
		return &doubt{text(err), unavailableRest}
	}
	s.accounts.learn(w, login, true)
	return nil
}
