package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// How long an agent is held after the forge was asked about its account.
const (
	forbiddenRest   = 5 * time.Minute  // the forge refused: a person has to give the account the right
	unavailableRest = 10 * time.Second // the forge did not answer
)

// Instance returns the id of the state directory, with which every run id begins; "" before Run has read it.
// Everything that Run calls may call it.
func (s *Supervisor) Instance() string { return s.instance }

// accounts remember which tokens the forge has admitted where, and as whose, so that it is asked once. The zero value
// remembers nothing.
type accounts struct {
	mu     sync.Mutex // guards what follows
	logins map[workplace]string
}

// workplace is an account in a repository.
type workplace struct {
	token agents.Secret
	repo  string
}

// login returns the account that may work in a workplace; "" when that is not known.
func (a *accounts) login(w workplace) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.logins[w]
}

func (a *accounts) learn(w workplace, login string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.logins == nil {
		a.logins = make(map[workplace]string)
	}
	a.logins[w] = login
}

// doubt drops what is known of one workplace.
func (a *accounts) doubt(w workplace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.logins, w)
}

// forget drops what is known: a new client may be that of another forge.
func (a *accounts) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins = nil
}

// doubt says why an agent's account may not do its work.
type doubt struct {
	why  string
	rest time.Duration // until the forge is asked again; 0 means until the configuration changes
	code threads.Code  // threads.TokenRejected where the forge said no, RepoOff where it would to every account
}

// identified makes sure that a session's agent may do its work. An agent that may not is held, with the remedy.
func (s *Supervisor) identified(x *session) bool {
	no := s.examine(x.ctx, &x.agent, x.Item.Ref.Repo)
	if no == nil || x.ctx.Err() != nil {
		return no == nil
	}
	if no.code == threads.RepoOff { // the next plan holds its items
		return false
	}
	if s.books.holdAgent(x.Agent, no) {
		s.log.Error(fmt.Sprintf("[%s] held: %s", x.Agent, no.why))
	}
	return false
}

// reproach asks the forge again about the account of a session that failed, and its repository: whether it rejects the
// one, or nothing can be done in the other. A token that was revoked in the middle would fail every issue within
// seconds.
func (s *Supervisor) reproach(x *session, r *ledger.Report) {
	s.accounts.doubt(workplace{x.agent.Token, x.Item.Ref.Repo})
	ctx, cancel := context.WithTimeout(s.base, lookTime)
	defer cancel()
	switch no := s.examine(ctx, &x.agent, x.Item.Ref.Repo); {
	case no == nil:
	case no.code == threads.TokenRejected:
		r.Rejected = no.why
	case no.code == threads.RepoOff:
		r.Off = no.why
	}
}

// examine asks the forge once whether a token belongs to its agent's account and whether that has the rights for the
// work; nil when both is so. Work under another account would be claimed, reviewed and counted as another agent's, and
// a missing right would show only after the work is done.
func (s *Supervisor) examine(ctx context.Context, a *agents.Agent, repo string) (no *doubt) {
	w := workplace{a.Token, repo}
	if s.accounts.login(w) == a.Login {
		return nil
	}
	var login string
	err := s.call(ctx, callTimeout, func(ctx context.Context, f Forge) (err error) {
		if login, err = f.WhoAmI(ctx, w.token.Reveal()); err == nil && login == a.Login {
			err = f.MayWork(ctx, w.token.Reveal(), repo)
		}
		return err
	})
	if no = doubtOf(a, login, err); no == nil {
		s.accounts.learn(w, login)
	}
	return no
}

// doubtOf says what the forge's answer about an agent's account means. login is "" when the token was not identified.
func doubtOf(a *agents.Agent, login string, err error) *doubt {
	refused := errors.Is(err, forge.ErrForbidden) || errors.Is(err, forge.ErrNotFound)
	switch {
	case errors.Is(err, forge.ErrOff):
		return &doubt{why: text(err), code: threads.RepoOff}
	case login == "" && refused:
		why := fmt.Sprintf("the forge refuses the token of %s: set $%s", a.Name, agents.TokenVar(a.Name))
		return &doubt{why, forbiddenRest, threads.TokenRejected}
	case login == "" && err != nil:
		return &doubt{why: "cannot verify its token: " + text(err), rest: unavailableRest}
	case login != a.Login:
		return &doubt{why: fmt.Sprintf("the token of %s logs in as %s: set $%s, or forge_user = %q",
			a.Name, login, agents.TokenVar(a.Name), login)}
	case refused:
		return &doubt{text(err), forbiddenRest, threads.TokenRejected}
	case err != nil:
		return &doubt{why: text(err), rest: unavailableRest}
	}
	return nil
}

// holdAgent keeps an agent from starting while its account is in doubt. The hold is not journalled: the next supervisor
// asks again. isNew reports whether the agent was not held for the same reason already.
func (b *books) holdAgent(name string, no *doubt) (isNew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := ledger.Entry(b.ledger.Agents, name)
	isNew = a.HeldWhy != no.why
	var until time.Time
	if no.rest != 0 {
		until = time.Now().Add(no.rest)
	}
	a.HoldAs(no.code, until, no.why)
	return isNew
}
