package hire

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// Retire is an agent to be retired. Its account, its profile repository and everything that it wrote stay.
type Retire struct {
	Factory
	Name     string
	Login    string // of its account
	Email    string // the address that hiring gives to such an account
	TokenVar string
	Hint     string // ends the refusal of an unknown name: which agent may be meant

	holding holding
}

func (r *Retire) owner() owner { return owner{r.Login, r.Email, r.TokenVar, ""} }

// Check returns an error with a line for each thing that would go wrong, as Hire.Check does.
func (r *Retire) Check(ctx context.Context) error {
	return r.check(ctx, r.Name, r.checkFile, r.checkKnown)
}

func (r *Retire) checkFile() error {
	text, _, err := r.survey()
	if err != nil {
		return err
	}
	edited, err := r.removeAgent(text)
	if err != nil {
		return fmt.Errorf("cannot edit %s: %w", r.Config.Path, err)
	}
	if err := r.Validate(edited); err != nil {
		return fmt.Errorf("without %s the file would be invalid; "+
			"correct it by hand, then run this again:\n%w", r.Name, err)
	}
	return nil
}

// checkKnown refuses a name that neither the file nor the forge knows: it must be a typing error.
func (r *Retire) checkKnown(ctx context.Context) error {
	account, err := r.accountOf(ctx, r.Login)
	if err != nil {
		return err
	}
	_, s, err := r.survey()
	switch {
	case err != nil:
		return err
	case account == nil && !s.Has(r.Name):
		return fmt.Errorf("there is no agent %s, neither in %s nor on the forge%s", r.Name, r.Config.Path, r.Hint)
	case account != nil && account.Admin:
		return fmt.Errorf("cannot retire %s: the account is an administrator's", r.Login)
	}
	return nil
}

// Run retires the agent. It skips steps that are already done, so it can be repeated after a failure.
func (r *Retire) Run(ctx context.Context) error { return perform(ctx, r.steps(), r.DryRun, r.Report) }

// steps begins with the file, so that a supervisor starts nothing new for the agent while its work returns to the
// queue. It ends with the token and the access, which the agent's last session needs to save its work.
func (r *Retire) steps() []step {
	note := func(text string) (string, error) { return dropRetiring(text, r.Name), nil }
	return []step{
		r.edit("factory", "take "+r.Name+" out", r.Name+" is no longer", r.removeAgent),
		r.notifySupervisor(),
		r.queue(),
		r.onAccount(r.revoke()),
		r.access(),
		r.unlessKept(r.removeToken()),
		r.unlessKept(r.edit("note", "forget the account of "+r.Name, "nothing of "+r.Name+" is left", note)),
	}
}

// unlessKept skips a step while a session still uses the token: the next run needs what the step removes to know that
// the account is ours.
func (r *Retire) unlessKept(s step) step {
	look := s.pending
	s.pending = func(ctx context.Context) (string, error) {
		if r.TokensKept {
			return "", nil
		}
		return look(ctx)
	}
	return s
}

// revoke revokes the tokens that were made for the agent, if the factory holds one of them: other tokens of the account
// are somebody else's.
func (r *Retire) revoke() step {
	why := func() string {
		if !r.holding.ours() {
			return r.Secrets.Path + " has no token that signs in as " + r.Login
		}
		return r.mayEnter(&r.holding, r.owner())
	}
	return step{
		name: "old tokens",
		pending: func(ctx context.Context) (todo string, err error) {
			if r.holding, err = r.hold(ctx, r.owner()); err != nil || !r.holding.ours() && !r.holding.stale {
				return "", err
			}
			if why() != "" {
				return "leave its tokens: " + why(), nil
			}
			return "revoke the tokens that were made for it", nil
		},
		do: func(ctx context.Context) (string, error) {
			if why() != "" {
				return "left", nil
			}
			if r.owner().created(&r.holding) { // afterwards nothing else shows that it is ours, to hire it again
				mark := func(text string) string { return setMark(text, retiredMark, r.Login, "") }
				if _, err := r.changeSecrets(mark); err != nil {
					return "", err
				}
			}
			if err := r.enter(ctx, &r.holding, r.owner()); err != nil {
				return "", err
			}
			return r.revokeSuperseded(ctx, r.Login, r.holding.token, "")
		},
	}
}

// onAccount skips a step if the account does not exist.
func (r *Retire) onAccount(s step) step {
	look := s.pending
	s.pending = func(ctx context.Context) (string, error) {
		if account, err := r.accountOf(ctx, r.Login); err != nil || account == nil {
			return "", err
		}
		return look(ctx)
	}
	return s
}

// notifySupervisor informs the supervisor. A supervisor that still knew the agent would start it on its next issue as
// soon as the first one is unassigned.
func (r *Retire) notifySupervisor() step {
	return step{
		name: "supervisor", pending: always("make a running one end its session"),
		do: func(ctx context.Context) (string, error) {
			why, err := r.NotifySupervisor(ctx)
			return cmp.Or(why, "no running one has work for it"), err
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
	return r.onAccount(eachOf("queue", "put back into the queue: ", "back in the queue: ", assigned,
		func(ctx context.Context, ref forge.Ref) error { return r.Forge.Unassign(ctx, ref, r.Login, r.IsAgent) }))
}

func (r *Retire) access() step {
	open := func(ctx context.Context) ([]string, error) {
		if r.adopted { // it may have had this access before
			return nil, nil
		}
		return r.reposWhere(func(repo string) (bool, error) { return r.Forge.Collaborates(ctx, repo, r.Login) })
	}
	return r.onAccount(eachOf("access", "end its access to ", "it may no longer write to ", open,
		func(ctx context.Context, repo string) error { return r.Forge.Disallow(ctx, repo, r.Login) }))
}

// removeToken removes the token from the secrets file.
func (r *Retire) removeToken() step {
	return step{
		name: "secrets",
		pending: func(context.Context) (string, error) {
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
			where, err := r.changeSecrets(func(text string) string { return DropSecret(text, r.TokenVar) })
			return r.TokenVar + " is no longer in " + where, err
		},
	}
}
