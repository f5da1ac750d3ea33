package hire

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Hire is an agent to be hired, or to be brought up to date: its token is made anew.
type Hire struct {
	Factory
	Entry   Entry
	Login   string // of its account
	Email   string
	Formula string // text of upstream's formula.toml for its profile; may be empty

	adopted bool // the account was there before
	// Of the token that this run makes.
	tokenName string
	token     agents.Secret
}

// agentName is what fits a login, a folder and a variable alike. Forgejo takes logins of up to 40 characters.
var agentName = regexp.MustCompile(`^[a-z]([a-z0-9]|-[a-z0-9]){0,39}$`)

// CheckName refuses what cannot be an agent's name.
func CheckName(name string) error {
	if !agentName.MatchString(name) || len(name) > 40 {
		return fmt.Errorf("cannot call an agent %q: want up to 40 lower-case letters and digits, beginning with a letter, single hyphens between them", name)
	}
	return nil
}

// Check finds everything that would go wrong, and changes nothing. The error has a line for each problem. Without a Forge
// it looks at the rest, for those who cannot sign in but want to know all.
func (h *Hire) Check(ctx context.Context) error {
	problems := []error{CheckName(h.Entry.Name), h.checkFile(), h.checkWritable()}
	if h.Forge != nil {
		err := h.Forge.Check(ctx, h.Repos)
		if err == nil {
			err = h.checkAccount(ctx)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (h *Hire) checkFile() error {
	text, s, err := h.survey()
	if err != nil {
		return err
	}
	if on := s.ThreadOf(h.Entry.Name); on != "" && on != h.Entry.Thread {
		return fmt.Errorf("cannot put %s on thread %s: it is on %s; leave --thread out, or retire it first", h.Entry.Name, h.Entry.Thread, on)
	}
	var problems []error
	edited, err := Register(text, h.Entry)
	if err != nil {
		problems = append(problems, fmt.Errorf("cannot edit %s: %w", h.Config.Path, err))
		if edited, err = h.registerAnywhere(text, s); err != nil {
			return errors.Join(problems...)
		}
	}
	if CheckName(h.Entry.Name) == nil { // else it would be said twice
		problems = append(problems, h.Validate(edited))
	}
	return errors.Join(problems...)
}

// registerAnywhere puts the agent on any thread. When its own is not there, the rest of what is said about the agent can
// be looked at all the same.
func (h *Hire) registerAnywhere(text string, s Survey) (string, error) {
	if len(s.Threads) == 0 {
		return "", errors.New("there are no threads")
	}
	e := h.Entry
	e.Thread = s.Threads[0].Name
	return Register(text, e)
}

// checkAccount refuses to adopt an account with which more is at stake than an agent's work.
func (h *Hire) checkAccount(ctx context.Context) error {
	account, err := h.Forge.Account(ctx, h.Login)
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil
	case err != nil:
		return err
	case account.Admin:
		return fmt.Errorf("cannot hire %s: the account is an administrator's, and agents must not be; choose another name", h.Login)
	case account.External && !h.Forge.WithPassword():
		return fmt.Errorf("cannot make a token for %s: its password is not kept by the forge; use --admin-user and --admin-password", h.Login)
	}
	return nil
}

// Run hires the agent. What is done already is left as it is.
func (h *Hire) Run(ctx context.Context) error { return perform(ctx, h.steps(), h.DryRun, h.Say) }

func (h *Hire) steps() []step {
	return []step{
		h.account(),
		h.access(),
		h.profile(),
		h.makeToken(),
		h.writeToken(),
		h.edit("register "+h.Entry.Name+" on thread "+h.Entry.Thread, h.Entry.Name+" is on thread "+h.Entry.Thread,
			func(text string) (string, error) { return Register(text, h.Entry) }),
		h.verify(),
		h.revoke(h.Login, "revoke what tokens were made for it before", &h.tokenName),
	}
}

func (h *Hire) account() step {
	return step{
		name: "account",
		look: func(ctx context.Context) (string, error) {
			_, err := h.Forge.Account(ctx, h.Login)
			if errors.Is(err, forge.ErrNotFound) {
				return "create " + h.Login, nil
			}
			h.adopted = err == nil
			return "", err
		},
		do: func(ctx context.Context) (string, error) {
			return "created " + h.Login, h.Forge.CreateAccount(ctx, h.Login, h.Email)
		},
	}
}

func (h *Hire) access() step {
	lacking := func(ctx context.Context) (repos []string, err error) {
		for _, repo := range h.Repos {
			may, err := h.Forge.CanWrite(ctx, repo, h.Login)
			if err != nil {
				return nil, err
			}
			if !may {
				repos = append(repos, repo)
			}
		}
		return repos, nil
	}
	return step{
		name: "access",
		look: func(ctx context.Context) (string, error) {
			repos, err := lacking(ctx)
			if err != nil || len(repos) == 0 {
				return "", err
			}
			return "let it write to " + strings.Join(repos, " "), nil
		},
		do: func(ctx context.Context) (string, error) {
			repos, err := lacking(ctx)
			for _, repo := range repos {
				if err := h.Forge.Allow(ctx, repo, h.Login); err != nil {
					return "", err
				}
			}
			return "it may write to " + strings.Join(repos, " "), err
		},
	}
}

func (h *Hire) makeToken() step {
	todo := "make a token"
	if !h.Forge.WithPassword() {
		todo = "give the account a new password and make a token with it"
	}
	return step{
		name: "token", look: always(todo),
		do: func(ctx context.Context) (string, error) {
			h.tokenName = newTokenName()
			text, err := h.Forge.CreateToken(ctx, h.Login, h.tokenName)
			if err != nil {
				return "", err
			}
			h.token = agents.Secret(text)
			done := "made " + h.tokenName
			if h.adopted && !h.Forge.WithPassword() {
				done += "; the account has a new password, which nobody knows"
			}
			return done, h.prove(ctx, h.token, h.Login)
		},
	}
}

func (h *Hire) writeToken() step {
	name := h.Entry.TokenVar
	return step{
		name: "secrets", look: always("write " + name + " to " + h.Secrets.Path),
		do: func(context.Context) (string, error) {
			text, err := h.Secrets.Read()
			if err != nil {
				return "", err
			}
			backup, err := h.Secrets.Write(SetSecret(text, name, h.token.Reveal()))
			return name + " is in " + h.Secrets.Path + inPlace(backup), err
		},
	}
}

// verify signs in with what the files say now, as a supervisor will.
func (h *Hire) verify() step {
	return step{
		name: "proof", look: always("sign in with the token in " + h.Secrets.Path),
		do: func(ctx context.Context) (string, error) {
			_, s, err := h.survey()
			if err != nil {
				return "", err
			}
			text, err := h.Secrets.Read()
			if err != nil {
				return "", err
			}
			token := Secrets(text)[s.TokenVar(h.Entry.Name)]
			if s.ThreadOf(h.Entry.Name) != h.Entry.Thread || token == "" || token != h.token.Reveal() {
				return "", fmt.Errorf("%s or %s was changed by somebody else at this moment", h.Config.Path, h.Secrets.Path)
			}
			return "its token logs in as " + h.Login, h.prove(ctx, agents.Secret(token), h.Login)
		},
	}
}
