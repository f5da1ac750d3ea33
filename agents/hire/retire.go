package hire

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Retire is an agent to be retired. Its account, its profile repository and all that it wrote stay.
type Retire struct {
	Factory
	Name     string
	Login    string // of its account
	TokenVar string
}

// Check finds everything that would go wrong, as Hire.Check does.
func (r *Retire) Check(ctx context.Context) error {
	problems := []error{CheckName(r.Name), r.checkFile(), r.checkWritable()}
	if r.Forge != nil {
		err := r.Forge.Check(ctx, r.Repos)
		if err == nil {
			err = r.checkKnown(ctx)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

func (r *Retire) checkFile() error {
	text, _, err := r.survey()
	if err != nil {
		return err
	}
	edited, err := r.takeOut(text)
	if err != nil {
		return fmt.Errorf("cannot edit %s: %w", r.Config.Path, err)
	}
	if err := r.Validate(edited); err != nil {
		return fmt.Errorf("without %s the file would be wrong; change it by hand so that it is right without, then run this again:\n%w", r.Name, err)
	}
	return nil
}

// checkKnown refuses a name that neither the file nor the forge knows: it is a slip.
func (r *Retire) checkKnown(ctx context.Context) error {
	account, err := r.account(ctx)
	if err != nil {
		return err
	}
	_, s, err := r.survey()
	switch {
	case err != nil:
		return err
	case account == nil && !s.Has(r.Name):
		return fmt.Errorf("there is no agent %s, neither in %s nor on the forge", r.Name, r.Config.Path)
	case account != nil && account.Admin:
		return fmt.Errorf("cannot retire %s: the account is an administrator's", r.Login)
	case account != nil && account.External && !r.Forge.WithPassword():
		return fmt.Errorf("cannot revoke the tokens of %s: its password is not kept by the forge; use --admin-user and --admin-password", r.Login)
	}
	return nil
}

// account is the agent's; nil when it has none.
func (r *Retire) account(ctx context.Context) (*forge.Account, error) {
	account, err := r.Forge.Account(ctx, r.Login)
	if errors.Is(err, forge.ErrNotFound) {
		return nil, nil
	}
	return &account, err
}

// Run retires the agent. What is done already is left as it is.
func (r *Retire) Run(ctx context.Context) error { return perform(ctx, r.steps(), r.DryRun, r.Say) }

// steps begin with the file, so that a supervisor gives it nothing new while its work goes back to the queue, and end
// with what its last session needs to save its work.
func (r *Retire) steps() []step {
	none := ""
	note := r.edit("forget the account of "+r.Name, "nothing of "+r.Name+" is left", func(text string) (string, error) { return dropLeaving(text, r.Name), nil })
	note.name = "note"
	return []step{
		r.edit("take "+r.Name+" out", r.Name+" is no longer", r.takeOut),
		r.letGo(),
		r.queue(),
		r.onAccount(r.revoke(r.Login, "revoke the tokens that were made for it", &none)),
		r.access(),
		r.forget(),
		note,
	}
}

// onAccount skips a step where there is no account.
func (r *Retire) onAccount(s step) step {
	look := s.look
	s.look = func(ctx context.Context) (string, error) {
		if account, err := r.account(ctx); err != nil || account == nil {
			return "", err
		}
		return look(ctx)
	}
	return s
}

// letGo tells the supervisor. One that still has the agent would start it again on the next issue, as soon as the first
// is taken from it.
func (r *Retire) letGo() step {
	return step{
		name: "supervisor", look: always("have one that runs end its session"),
		do: func(ctx context.Context) (string, error) {
			why, err := r.LetGo(ctx)
			return firstOf(why, "none has work for it any more"), err
		},
	}
}

func (r *Retire) queue() step {
	assigned := func(ctx context.Context) (refs []forge.Ref, err error) {
		for _, repo := range r.Repos {
			some, err := r.Forge.Assigned(ctx, repo, r.Login)
			if err != nil {
				return nil, err
			}
			refs = append(refs, some...)
		}
		return refs, nil
	}
	return r.onAccount(step{
		name: "queue",
		look: func(ctx context.Context) (string, error) {
			refs, err := assigned(ctx)
			if err != nil || len(refs) == 0 {
				return "", err
			}
			return "put back into the queue: " + list(refs), nil
		},
		do: func(ctx context.Context) (string, error) {
			refs, err := assigned(ctx)
			for _, ref := range refs {
				if err := r.Forge.Unassign(ctx, ref, r.Login, r.IsAgent); err != nil {
					return "", err
				}
			}
			return "back in the queue: " + list(refs), err
		},
	})
}

func list(refs []forge.Ref) string {
	all := make([]string, len(refs))
	for i := range refs {
		all[i] = refs[i].String()
	}
	return strings.Join(all, " ")
}

func (r *Retire) access() step {
	open := func(ctx context.Context) (repos []string, err error) {
		for _, repo := range r.Repos {
			in, err := r.Forge.Collaborates(ctx, repo, r.Login)
			if err != nil {
				return nil, err
			}
			if in {
				repos = append(repos, repo)
			}
		}
		return repos, nil
	}
	return r.onAccount(step{
		name: "access",
		look: func(ctx context.Context) (string, error) {
			repos, err := open(ctx)
			if err != nil || len(repos) == 0 {
				return "", err
			}
			return "end its access to " + strings.Join(repos, " "), nil
		},
		do: func(ctx context.Context) (string, error) {
			repos, err := open(ctx)
			for _, repo := range repos {
				if err := r.Forge.Disallow(ctx, repo, r.Login); err != nil {
					return "", err
				}
			}
			return "it may no longer write to " + strings.Join(repos, " "), err
		},
	})
}

// forget takes the token out of the secrets file.
func (r *Retire) forget() step {
	return step{
		name: "secrets",
		look: func(context.Context) (string, error) {
			text, err := r.Secrets.Read()
			if err != nil || DropSecret(text, r.TokenVar) == text {
				return "", err
			}
			config, err := r.Config.Read()
			if err != nil || strings.Contains(config, `"$`+r.TokenVar+`"`) { // another agent uses it too
				return "", err
			}
			return "take " + r.TokenVar + " out of " + r.Secrets.Path, nil
		},
		do: func(context.Context) (string, error) {
			text, err := r.Secrets.Read()
			if err != nil {
				return "", err
			}
			backup, err := r.Secrets.Write(DropSecret(text, r.TokenVar))
			return r.TokenVar + " is no longer in " + r.Secrets.Path + inPlace(backup), err
		},
	}
}
