package hire

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"codeberg.org/johba/disinto/agents"
)

// Hire is an agent to be hired or updated. Both create a new token.
type Hire struct {
	Factory
	Entry   Entry
	Login   string // of its account
	Email   string
	Formula string // text of upstream's formula.toml for the profile; may be empty
	// Supervisor says that the account is the supervisor's own, not an agent's: it gets a token and write access, but
	// no profile and no entry in factory.toml. Of Entry only Name and TokenVar are used.
	Supervisor bool

	adopted   bool          // the account existed before this run
	tokenName string        // name of the token that this run creates
	token     agents.Secret // text of that token
}

// agentName matches names that are valid logins, folders and environment variables. Forgejo accepts 40 characters.
var agentName = regexp.MustCompile(`^[a-z]([a-z0-9]|-[a-z0-9])*$`)

// CheckName returns an error for a text that cannot be an agent's name.
func CheckName(name string) error {
	if !agentName.MatchString(name) || len(name) > 40 {
		return fmt.Errorf("cannot call an agent %q: want up to 40 lower-case letters and digits, "+
			"beginning with a letter, single hyphens between them", name)
	}
	return nil
}

// Check returns an error with a line for each thing that would go wrong. It changes nothing. Without a Forge it checks
// only the files, for a user who cannot sign in.
func (h *Hire) Check(ctx context.Context) error {
	return h.check(ctx, h.Entry.Name, h.checkFile, h.checkAccount)
}

func (h *Hire) checkFile() error {
	text, s, err := h.survey()
	if err != nil {
		return err
	}
	if h.Supervisor {
		return h.checkSupervisor(s)
	}
	if on := s.ThreadOf(h.Entry.Name); on != "" && on != h.Entry.Thread {
		return fmt.Errorf("cannot put %s on thread %s: it is on %s; leave --thread out, or retire it first",
			h.Entry.Name, h.Entry.Thread, on)
	}
	var problems []error
	edited, err := Register(text, h.Entry)
	if err != nil {
		problems = append(problems, fmt.Errorf("cannot edit %s: %w", h.Config.Path, err))
		if edited, err = h.registerAnywhere(text, s); err != nil {
			return errors.Join(problems...)
		}
	}
	if CheckName(h.Entry.Name) == nil { // otherwise Validate would report the name a second time
		problems = append(problems, h.Validate(edited))
	}
	return errors.Join(problems...)
}

// checkSupervisor refuses an account whose work the supervisor would take for its own.
func (h *Hire) checkSupervisor(s Survey) error {
	if s.Has(h.Entry.Name) || h.IsAgent(h.Login) {
		return fmt.Errorf("cannot make %s the supervisor's account: it is an agent's; choose another name", h.Login)
	}
	return nil
}

// registerAnywhere puts the agent on any thread, so that the rest of its entry can be validated although its own thread
// is missing.
func (h *Hire) registerAnywhere(text string, s Survey) (string, error) {
	if len(s.Threads) == 0 {
		return "", errors.New("there are no threads")
	}
	e := h.Entry
	e.Thread = s.Threads[0].Name
	return Register(text, e)
}

// checkAccount refuses to adopt an account that has more rights than an agent.
func (h *Hire) checkAccount(ctx context.Context) error {
	account, err := h.accountOf(ctx, h.Login)
	switch {
	case err != nil || account == nil:
		return err
	case account.Admin:
		return fmt.Errorf("cannot hire %s: the account is an administrator's, and agents must not be; "+
			"choose another name", h.Login)
	case account.External && !h.Forge.WithPassword():
		return fmt.Errorf("cannot create a token for %s: the forge does not store its password; "+
			"use --admin-user and --admin-password", h.Login)
	}
	return nil
}

// Run hires the agent. It skips steps that are already done, so it can be repeated after a failure.
func (h *Hire) Run(ctx context.Context) error { return perform(ctx, h.steps(), h.DryRun, h.Report) }

func (h *Hire) steps() []step {
	if h.Supervisor {
		return []step{
			h.account(), h.access(), concurrently(h.makeToken()), h.writeToken(), h.verify(),
			h.revoke(h.Login, "revoke its earlier tokens", &h.tokenName),
		}
	}
	return []step{
		h.account(),
		h.access(),
		concurrently(h.profile()),
		concurrently(h.makeToken()),
		h.writeToken(),
		h.edit("factory", "register "+h.Entry.Name+" on thread "+h.Entry.Thread, h.Entry.Name+" is on thread "+h.Entry.Thread,
			func(text string) (string, error) { return Register(text, h.Entry) }),
		h.verify(),
		h.revoke(h.Login, "revoke its earlier tokens", &h.tokenName),
	}
}

func concurrently(s step) step {
	s.concurrent = true
	return s
}

func (h *Hire) account() step {
	return step{
		name: "account",
		pending: func(ctx context.Context) (string, error) {
			account, err := h.accountOf(ctx, h.Login)
			if h.adopted = account != nil; h.adopted || err != nil {
				return "", err
			}
			return "create " + h.Login, nil
		},
		do: func(ctx context.Context) (string, error) {
			return "created " + h.Login, h.Forge.CreateAccount(ctx, h.Login, h.Email)
		},
	}
}

func (h *Hire) access() step {
	lacking := func(ctx context.Context) ([]string, error) {
		return h.reposWhere(func(repo string) (bool, error) {
			may, err := h.Forge.CanWrite(ctx, repo, h.Login)
			return !may, err
		})
	}
	return eachOf("access", "let it write to ", "it may write to ", lacking,
		func(ctx context.Context, repo string) error { return h.Forge.Allow(ctx, repo, h.Login) })
}

func (h *Hire) makeToken() step {
	todo := "make a token"
	if !h.Forge.WithPassword() {
		todo = "give the account a new password and make a token with it"
	}
	return step{
		name: "token", pending: always(todo),
		do: func(ctx context.Context) (string, error) {
			h.tokenName = newTokenName()
			text, err := h.Forge.CreateToken(ctx, h.Login, h.tokenName)
			if err != nil {
				return "", err
			}
			h.token = agents.Secret(text)
			done := "made " + h.tokenName
			if h.adopted && !h.Forge.WithPassword() {
				done += "; the account has a new, unknown password"
			}
			return done, h.checkToken(ctx, h.token, h.Login)
		},
	}
}

func (h *Hire) writeToken() step {
	name := h.Entry.TokenVar
	return step{
		name: "secrets", pending: always("write " + name + " to " + h.Secrets.Path),
		do: func(context.Context) (string, error) {
			where, err := h.changeSecrets(func(text string) string { return SetSecret(text, name, h.token.Reveal()) })
			return name + " is in " + where, err
		},
	}
}

// verify signs in with the token that the files now name, as a supervisor will.
func (h *Hire) verify() step {
	return step{
		name: "proof", pending: always("sign in with the token in " + h.Secrets.Path),
		do: func(ctx context.Context) (string, error) {
			_, s, err := h.survey()
			if err != nil {
				return "", err
			}
			text, err := h.Secrets.Read()
			if err != nil {
				return "", err
			}
			token := Secrets(text)[h.Entry.TokenVar]
			if s.ThreadOf(h.Entry.Name) != h.Entry.Thread || token == "" || token != h.token.Reveal() {
				return "", fmt.Errorf("%s or %s changed while this command ran", h.Config.Path, h.Secrets.Path)
			}
			return "its token logs in as " + h.Login, h.checkToken(ctx, agents.Secret(token), h.Login)
		},
	}
}
