package hire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Factory is where agents are hired: the files, the forge, and the supervisor that may be at work.
type Factory struct {
	Forge   Forge
	Repos   []string // where agents work
	Config  File     // factory.toml
	Secrets File     // where tokens are, by their variables; private
	// IsAgent knows the accounts of all agents. Only retiring asks.
	IsAgent  func(login string) bool
	Validate func(text string) error // of factory.toml, as it will be
	DryRun   bool
	Say      Say
	// LetGo has a supervisor that runs read the files again and end what a retired agent works on. StillInUse waits for
	// the former too, and then says which session still works with an old token. Both return "" when all is well, else why
	// not.
	LetGo, StillInUse func(context.Context) (why string, err error)
	// Kept is, after Run, that old tokens were not revoked because one of them is still in use.
	Kept bool
}

// tokenPrefix begins the name of every token that hiring makes, here and upstream. Tokens with other names are
// somebody's own.
const tokenPrefix = "disinto-"

func newTokenName() string { return tokenPrefix + strings.ToLower(rand.Text()[:10]) }

// survey reads factory.toml.
func (f *Factory) survey() (text string, s Survey, err error) {
	if text, err = f.Config.Read(); err != nil {
		return "", s, err
	}
	if s, err = Look(text); err != nil {
		return "", s, fmt.Errorf("cannot read %s: %w", f.Config.Path, err)
	}
	return text, s, nil
}

// checkWritable finds out before anything is done whether the files can be written at the end.
func (f *Factory) checkWritable() error {
	var problems []error
	for _, file := range []File{f.Config, f.Secrets} {
		if unix.Access(file.Path, unix.W_OK) != nil && unix.Access(filepath.Dir(file.Path), unix.W_OK) != nil {
			problems = append(problems, fmt.Errorf("cannot write %s: permission denied; run this as the user it belongs to", file.Path))
		}
	}
	return errors.Join(problems...)
}

// edit is a step's worth of changing factory.toml.
func (f *Factory) edit(todo, done string, change func(text string) (string, error)) step {
	plan := func() (old, edited string, err error) {
		if old, err = f.Config.Read(); err != nil {
			return "", "", err
		}
		if edited, err = change(old); err != nil {
			return "", "", fmt.Errorf("cannot edit %s: %w", f.Config.Path, err)
		}
		return old, edited, nil
	}
	return step{
		name: "factory",
		look: func(context.Context) (string, error) {
			old, edited, err := plan()
			if err != nil || old == edited {
				return "", err
			}
			return todo + " in " + f.Config.Path, nil
		},
		do: func(context.Context) (string, error) {
			_, edited, err := plan()
			if err != nil {
				return "", err
			}
			if err := f.Validate(edited); err != nil {
				return "", err
			}
			backup, err := f.Config.Write(edited)
			return done + " in " + f.Config.Path + inPlace(backup), err
		},
	}
}

// inPlace says where the copy is that a file that could not be replaced left.
func inPlace(backup string) string {
	if backup == "" {
		return ""
	}
	return ", written in place; what it was is in " + backup
}

// revoke takes the tokens away that were made for an account before, but not the one with the name to keep.
func (f *Factory) revoke(login, todo string, keep *string) step {
	return step{
		name: "old tokens", look: always(todo),
		do: func(ctx context.Context) (string, error) {
			all, err := f.Forge.Tokens(ctx, login)
			if err != nil {
				return "", err
			}
			var old []forge.Token
			for _, t := range all {
				if strings.HasPrefix(t.Name, tokenPrefix) && t.Name != *keep {
					old = append(old, t)
				}
			}
			if len(old) == 0 {
				return "there are none", nil
			}
			if why, err := f.StillInUse(ctx); err != nil {
				return "", err
			} else if why != "" {
				f.Kept = true
				return "kept: " + why + "; run this again later to revoke them", nil
			}
			for _, t := range old {
				if err := f.Forge.RevokeToken(ctx, login, t); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("revoked %d", len(old)), nil
		},
	}
}

// prove signs in with a token and compares whose it is.
func (f *Factory) prove(ctx context.Context, token agents.Secret, login string) error {
	who, err := f.Forge.WhoAmI(ctx, token.Reveal())
	if err != nil {
		return err
	}
	if !strings.EqualFold(who, login) {
		return fmt.Errorf("the new token belongs to %s and not to %s", who, login)
	}
	return nil
}
