package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// How long an agent is held after the forge was asked about its account.
const (
	forbiddenRest   = 5 * time.Minute  // the forge refused: a person has to give the account the right
	unavailableRest = 10 * time.Second // the forge did not answer
)

// Instance returns the id of the state directory, with which every run id begins; "" before Run has read it.
// Everything that Run calls may call it.
func (s *Supervisor) Instance() string { return s.instance }

// identified makes sure that the agent's token belongs to the agent's account: work under another account would be
// claimed, reviewed and counted as another agent's. Each token is asked about once. An agent that fails is held, with
// the remedy.
func (s *Supervisor) identified(x *session) bool {
	token := x.agent.Token
	s.mu.Lock()
	login, known := s.verified[token]
	s.mu.Unlock()
	if !known {
		err := s.call(x.ctx, callTimeout, func(ctx context.Context, f Forge) (err error) {
			login, err = f.WhoAmI(ctx, token.Reveal())
			return err
		})
		refused := fmt.Sprintf("the forge refuses the token of %s: set $%s", x.Agent, agents.TokenVar(x.Agent))
		if !s.admit(x, err, refused, "cannot verify its token: ") {
			return false
		}
		s.mu.Lock()
		s.verified[token] = login
		s.mu.Unlock()
	}
	if login != x.agent.Login {
		s.holdAgent(x, time.Time{}, fmt.Sprintf("the token of %s logs in as %s: set $%s, or forge_user = %q",
			x.Agent, login, agents.TokenVar(x.Agent), login))
		return false
	}
	return s.mayWork(x)
}

// mayWork makes sure that the agent's account has the rights for its work, which it would otherwise miss only after
// the work is done. It asks once for each repository.
func (s *Supervisor) mayWork(x *session) bool {
	ask := workplace{x.agent.Token, x.Item.Ref.Repo}
	s.mu.Lock()
	known := s.admitted[ask]
	s.mu.Unlock()
	if known {
		return true
	}
	err := s.call(x.ctx, callTimeout, func(ctx context.Context, f Forge) error {
		return f.MayWork(ctx, ask.token.Reveal(), ask.repo)
	})
	if !s.admit(x, err, text(err), "") {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admitted[ask] = true
	return true
}

// workplace is an account in a repository.
type workplace struct {
	token agents.Secret
	repo  string
}

// admit judges the forge's answer about an agent's account, and holds the agent unless that is good. refused says
// what to do when the forge refuses; unclear precedes any other error.
func (s *Supervisor) admit(x *session, err error, refused, unclear string) bool {
	switch {
	case errors.Is(err, forge.ErrForbidden), errors.Is(err, forge.ErrNotFound):
		s.holdAgent(x, time.Now().Add(forbiddenRest), refused)
	case err != nil && x.ctx.Err() == nil:
		s.holdAgent(x, time.Now().Add(unavailableRest), unclear+text(err))
	}
	return err == nil && x.ctx.Err() == nil
}

// holdAgent keeps an agent from starting until a time, or until the configuration changes if that is zero. The hold
// is not journalled: the next supervisor asks the forge again.
func (s *Supervisor) holdAgent(x *session, until time.Time, why string) {
	s.mu.Lock()
	a := threads.Entry(s.history.Agents, x.Agent)
	was := a.HeldWhy
	a.Hold(until, why)
	s.mu.Unlock()
	if why != was {
		s.log.Error(fmt.Sprintf("[%s] held: %s", x.Agent, why))
	}
}
