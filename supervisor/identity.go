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

// How long an agent is held if the forge does not confirm its account.
const (
	forbiddenRest   = 5 * time.Minute  // the forge refused: a person must grant the right
	unavailableRest = 10 * time.Second // the forge did not answer
)

// accounts cache which account the forge recognised behind each token, per repository. The zero value is empty.
type accounts struct {
	mu     sync.Mutex // guards the fields below
	logins map[workplace]string
}

// workplace is an account in a repository.
type workplace struct {
	token agents.Secret
	repo  string
}

// login returns the cached account of a workplace; "" if it is unknown.
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

// doubt drops the cached account of one workplace.
func (a *accounts) doubt(w workplace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.logins, w)
}

// forget empties the cache: a new client may be another forge's.
func (a *accounts) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins = nil
}

// doubt is the reason why an agent's account may not do its work.
type doubt struct {
	why  string
	rest time.Duration // until the next question; 0 means until the configuration changes
	// code is TokenRejected if the forge refuses this account, NoAccess if only in this repository, and RepoOff if it
	// refuses every account there.
	code threads.Code
}

// identified reports whether a session's agent may do its work. If not, it holds the agent, with the remedy as the
// reason.
func (rn *sessionRunner) identified(x *session) bool {
	no := rn.examine(x.ctx, &x.agent, x.Item.Ref.Repo)
	if no == nil {
		rn.state.trust(x.Agent)
		return true
	}
	if x.ctx.Err() != nil {
		return false
	}
	if no.code == threads.RepoOff { // the next plan holds the repository's items
		return false
	}
	if rn.state.holdAgent(&x.agent, x.Item.Ref.Repo, no) {
		where := ""
		if no.code == threads.NoAccess {
			where = " in " + x.Item.Ref.Repo
		}
		asksAgain := no.rest == unavailableRest
		rn.logNotices(notice{run: x.RunID, warn: !asksAgain, words: fmt.Sprintf("[%s] held%s: %s", x.Agent, where, no.why)})
	}
	return false
}

// recheckRejected asks the forge again about the agents of a thread whose token it has rejected, once their hold is
// over. Otherwise an agent without work would seem to be well every five minutes, and people would be told each time.
func (rn *sessionRunner) recheckRejected(ctx context.Context, thread string) {
	for _, a := range rn.state.rejectedAgents(thread, time.Now()) {
		var login string
		err := rn.call(ctx, callTimeout, func(ctx context.Context, f Forge) (err error) {
			login, err = f.WhoAmI(ctx, a.Token.Reveal())
			return err
		})
		switch no := doubtOf(&a, login, err); {
		case ctx.Err() != nil:
			return
		case no == nil:
			rn.state.trust(a.Name)
		case no.rest == unavailableRest:
			no.code, no.why = threads.TokenRejected, rn.state.heldWhy(a.Name)
			rn.state.holdAgent(&a, "", no)
		default:
			rn.state.holdAgent(&a, "", no)
		}
	}
}

// recheckAccount asks the forge again about the account and the repository of a failed session. The forge may now
// reject the account, or every write in the repository. Otherwise a token that was revoked during the session would
// make every issue fail within seconds.
func (rn *sessionRunner) recheckAccount(x *session, r *ledger.Report) {
	rn.accounts.doubt(workplace{x.agent.Token, x.Item.Ref.Repo})
	ctx, cancel := context.WithTimeout(rn.base, lookTime)
	defer cancel()
	switch no := rn.examine(ctx, &x.agent, x.Item.Ref.Repo); {
	case no == nil:
	case no.code == threads.TokenRejected:
		r.Rejected = no.why
	case no.code == threads.NoAccess:
		rn.state.holdAgent(&x.agent, x.Item.Ref.Repo, no)
		r.Off = no.why
	case no.code == threads.RepoOff:
		r.Off = no.why
	}
}

// examine asks the forge once whether a token belongs to its agent's account and whether the account has the rights
// for the work; nil if both are true. Work under another account would be claimed, reviewed and counted as another
// agent's, and a missing right would show only after the work.
func (rn *sessionRunner) examine(ctx context.Context, a *agents.Agent, repo string) (no *doubt) {
	w := workplace{a.Token, repo}
	if rn.accounts.login(w) == a.Login {
		return nil
	}
	var login string
	err := rn.call(ctx, callTimeout, func(ctx context.Context, f Forge) (err error) {
		if login, err = f.WhoAmI(ctx, w.token.Reveal()); err == nil && login == a.Login {
			err = f.MayWork(ctx, w.token.Reveal(), repo)
		}
		return err
	})
	if no = doubtOf(a, login, err); no == nil {
		rn.accounts.learn(w, login)
	}
	return no
}

// doubtOf interprets the forge's answer about an agent's account. login is "" if the forge did not identify the token.
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
	case errors.Is(err, forge.ErrNoAccess):
		return &doubt{text(err), forbiddenRest, threads.NoAccess}
	case refused:
		return &doubt{text(err), forbiddenRest, threads.TokenRejected}
	case err != nil:
		return &doubt{why: text(err), rest: unavailableRest}
	}
	return nil
}

// holdAgent holds an agent while its account is in doubt, in one repository if it lacks access there. The hold is not
// journalled: the next supervisor asks again. isNew reports whether the agent was not held for the same reason before.
// It does not hold an agent that a reload has given another token since the forge was asked.
func (st *state) holdAgent(asked *agents.Agent, repo string, no *doubt) (isNew bool) {
	st.lockToChange()
	defer st.mu.Unlock()
	if st.cfg != nil {
		if now := st.cfg.Agent(asked.Name); now != nil && now.Token != asked.Token {
			return false
		}
	}
	if no.code == threads.NoAccess {
		r := ledger.Entry(st.ledger.Repos, repo)
		isNew = r.Barred[asked.Name].Why != no.why
		r.Bar(asked.Name, time.Now().Add(no.rest), no.why)
		return isNew
	}
	a := ledger.Entry(st.ledger.Agents, asked.Name)
	isNew = a.HeldWhy != no.why
	var until time.Time
	if no.rest != 0 {
		until = time.Now().Add(no.rest)
	}
	a.HoldAs(no.code, until, no.why)
	return isNew
}

// rejectedAgents returns the agents of a thread whose token the forge rejected and about which it can be asked again.
func (st *state) rejectedAgents(thread string, now time.Time) (list []agents.Agent) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil {
		return nil
	}
	for _, a := range st.cfg.Agents {
		if known := st.ledger.Agent(a.Name); a.Thread == thread && known.Rejected() && !known.Held(now) {
			list = append(list, a)
		}
	}
	return list
}

// heldWhy returns why an agent is or was held.
func (st *state) heldWhy(agent string) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Agent(agent).HeldWhy
}

// trust ends the doubt about an agent whose token the forge recognises.
func (st *state) trust(agent string) {
	st.mu.Lock()
	known := st.ledger.Agent(agent)
	st.mu.Unlock()
	if !known.Rejected() {
		return
	}
	st.lockToChange()
	defer st.mu.Unlock()
	ledger.Entry(st.ledger.Agents, agent).Hold(time.Time{}, "")
}
