package hire

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Hire is an agent to be hired or updated. Both create a new token, unless Keep is set.
type Hire struct {
	Factory
	Entry   Entry
	Login   string // of its account
	Email   string
	Formula string // text of upstream's formula.toml for the profile; may be empty
	// Supervisor says that the account is the supervisor's own, not an agent's: it gets a token and write access, but
	// no profile and no entry in factory.toml. Of Entry only Name and TokenVar are used.
	Supervisor bool
	Adopt      bool   // use the account even if it is not this factory's
	Keep       bool   // if the factory holds a token that works, do no more than repair the account's access
	Env        string // the token in the environment, which is never replaced; may be empty

	holding   holding       // before this run
	tokenName string        // name of the token that this run creates
	token     agents.Secret // text of that token; empty if none is created
}

func (h *Hire) owner() owner { return owner{h.Login, h.Email, h.Entry.TokenVar, h.Env} }

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
func (h *Hire) Check(ctx context.Context) (err error) {
	if h.Keep && h.Forge != nil {
		if h.holding, err = h.hold(ctx, h.owner()); err == nil && h.holding.token != "" {
			return h.Forge.Check(ctx, h.Repos)
		}
	}
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

// checkAccount refuses an account that is not this factory's, unless it is to be adopted, and one that has more rights
// than an agent.
func (h *Hire) checkAccount(ctx context.Context) (err error) {
	if h.holding, err = h.hold(ctx, h.owner()); err != nil || h.holding.account == nil || h.keptWhole() {
		return err
	}
	switch account := h.holding.account; {
	case account.Admin:
		return fmt.Errorf("cannot hire %s: the account is an administrator's, and agents must not be; "+
			"choose another name", h.Login)
	case account.Disabled:
		return fmt.Errorf("cannot hire %s: the account is not active or may not sign in; allow it on the forge first",
			h.Login)
	case h.holding.ours():
		return nil
	case !h.Adopt:
		return h.foreign(&h.holding, h.owner())
	case !h.Forge.WithPassword():
		return fmt.Errorf("cannot adopt %s: %s; then run this again", h.Login, h.noPassword(h.owner()))
	}
	return nil
}

// Run hires the agent. It skips steps that are already done, so it can be repeated after a failure.
func (h *Hire) Run(ctx context.Context) error { return perform(ctx, h.steps(), h.DryRun, h.Report) }

// keptWhole reports whether the account needs at most access: it was hired before, and its token stays.
func (h *Hire) keptWhole() bool { return h.Keep && h.holding.token != "" }

func (h *Hire) steps() []step {
	if h.keptWhole() {
		return []step{h.access()}
	}
	if h.Supervisor {
		return []step{
			h.account(), h.access(), concurrently(h.makeToken()), h.writeToken(), h.verify(), h.revoke(),
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
		h.revoke(),
	}
}

func concurrently(s step) step {
	s.concurrent = true
	return s
}

// account creates the account. Its password goes to the secrets file first: a run that was killed after the request can
// then be continued, because the account is known to be ours.
func (h *Hire) account() step {
	return step{
		name: "account",
		pending: func(ctx context.Context) (string, error) {
			if err := h.checkAccount(ctx); err != nil || h.holding.account != nil {
				return "", err
			}
			return "create " + h.Login, nil
		},
		do: func(ctx context.Context) (string, error) {
			password := newPassword()
			_, err := h.changeSecrets(func(text string) string { return setMark(text, beginMark, h.Login, password) })
			if err != nil {
				return "", err
			}
			return "created " + h.Login, h.Forge.CreateAccount(ctx, h.Login, h.Email, password)
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

// keeps returns why the token that the factory holds stays; "" if this run makes one.
func (h *Hire) keeps() (why string) {
	now := &h.holding
	switch {
	case now.account == nil || now.token == "":
		return ""
	case !now.inFile:
		return "it comes from the environment; to have it replaced, move $" + h.Entry.TokenVar + " to " + h.Secrets.Path
	}
	return h.mayEnter(now, h.owner())
}

func (h *Hire) makeToken() step {
	return step{
		name: "token",
		pending: func(context.Context) (string, error) {
			switch {
			case h.keeps() != "":
				return "keep its token: " + h.keeps(), nil
			case h.holding.account == nil || h.holding.begun || h.Forge.WithPassword():
				return "make a token", nil
			}
			return "replace the account's random password, which nobody knows, and make a token with it", nil
		},
		do: func(ctx context.Context) (string, error) {
			if h.keeps() != "" {
				return "kept", nil
			}
			if h.holding.account != nil && h.holding.ours() {
				if err := h.enter(ctx, &h.holding, h.owner()); err != nil {
					return "", err
				}
			}
			prefix, err := h.prefix(ctx)
			if err != nil {
				return "", err
			}
			h.tokenName = prefix + strings.ToLower(rand.Text()[:10])
			text, err := h.Forge.CreateToken(ctx, h.Login, h.tokenName)
			if err != nil {
				return "", err
			}
			h.token = agents.Secret(text)
			return "made " + h.tokenName, h.checkToken(ctx, h.token, h.Login)
		},
	}
}

// prefix begins the name of the new token.
func (h *Hire) prefix(ctx context.Context) (string, error) {
	switch now := &h.holding; {
	case now.account == nil || now.begun || now.retired:
		return tokenPrefix, nil
	case !now.ours():
		return adoptedPrefix, nil
	}
	all, err := h.Forge.Tokens(ctx, h.Login)
	return cmp.Or(prefixLike(all, h.holding.token), adoptedPrefix), err
}

func (h *Hire) writeToken() step {
	name := h.Entry.TokenVar
	return step{
		name: "secrets",
		pending: func(context.Context) (string, error) {
			if h.keeps() != "" {
				return "", nil
			}
			return "write " + name + " to " + h.Secrets.Path, nil
		},
		do: func(context.Context) (string, error) {
			where, err := h.changeSecrets(func(text string) string {
				return dropMarks(SetSecret(text, name, h.token.Reveal()), h.Login)
			})
			return name + " is in " + where, err
		},
	}
}

// verify signs in with the token that the files now name, as a supervisor will.
func (h *Hire) verify() step {
	return step{
		name: "proof",
		pending: func(context.Context) (string, error) {
			if h.keeps() != "" {
				return "", nil
			}
			return "sign in with the token in " + h.Secrets.Path, nil
		},
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

// revoke revokes the tokens that the new one replaces: none on an account that this run adopts.
func (h *Hire) revoke() step {
	return step{
		name: "old tokens",
		pending: func(context.Context) (string, error) {
			if h.keeps() != "" || h.holding.account != nil && !h.holding.ours() {
				return "", nil
			}
			return "revoke its earlier tokens", nil
		},
		do: func(ctx context.Context) (string, error) {
			return h.revokeSuperseded(ctx, h.Login, h.holding.token, h.tokenName)
		},
	}
}
