package hire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Factory is where agents are hired: its files, its forge, and the supervisor that may be running.
type Factory struct {
	Forge    Forge                   // nil: Check checks only the files, and Run must not be called
	Repos    []string                // where agents work
	Config   File                    // factory.toml
	Secrets  File                    // tokens by variable name; readable by the owner alone
	IsAgent  func(login string) bool // reports whether an account is an agent's; only used for retiring
	Validate func(text string) error // checks an edited factory.toml
	DryRun   bool                    // Run reports its steps and changes nothing
	Report   Report
	// NotifySupervisor makes a running supervisor reload the files and end the work of a retired agent. why is "" if it
	// did.
	NotifySupervisor func(context.Context) (why string, err error)
	// StillInUse makes a running supervisor reload the files. why names the session that still uses an old token, "" if
	// none does.
	StillInUse func(context.Context) (why string, err error)
	// TokensKept is set by Run if it did not revoke the old tokens because one of them is still in use.
	TokensKept bool

	adopted bool // set by Run: the account is not only this factory's
}

// survey reads factory.toml.
func (f *Factory) survey() (text string, s Survey, err error) {
	if text, err = f.Config.Read(); err != nil {
		return "", s, err
	}
	if s, err = ParseSurvey(text); err != nil {
		return "", s, fmt.Errorf("cannot read %s: %w", f.Config.Path, err)
	}
	return text, s, nil
}

// check joins the errors of the name, the files and the forge.
func (f *Factory) check(
	ctx context.Context, name string, file func() error, account func(context.Context) error,
) error {
	problems := []error{CheckName(name), file(), f.checkWritable()}
	if f.Forge != nil {
		err := f.Forge.Check(ctx, f.Repos)
		if err == nil {
			err = account(ctx)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// accountOf returns the account of a login, or nil without one.
func (f *Factory) accountOf(ctx context.Context, login string) (*forge.Account, error) {
	account, err := f.Forge.Account(ctx, login)
	switch {
	case errors.Is(err, forge.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &account, nil
}

// reposWhere returns the repositories for which match returns true.
func (f *Factory) reposWhere(match func(repo string) (bool, error)) (repos []string, err error) {
	for _, repo := range f.Repos {
		yes, err := match(repo)
		if err != nil {
			return nil, err
		}
		if yes {
			repos = append(repos, repo)
		}
	}
	return repos, nil
}

// checkWritable checks before the first step whether the last one can write the files.
func (f *Factory) checkWritable() error {
	var problems []error
	for _, file := range []File{f.Config, f.Secrets} {
		if unix.Access(file.Path, unix.W_OK) != nil && unix.Access(nearest(filepath.Dir(file.Path)), unix.W_OK) != nil {
			problems = append(problems,
				fmt.Errorf("cannot write %s: permission denied; run this as the user it belongs to", file.Path))
		}
	}
	return errors.Join(problems...)
}

// nearest returns a folder, or the nearest existing one above it.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// edit is a step that changes factory.toml.
func (f *Factory) edit(name, todo, done string, change func(text string) (string, error)) step {
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
		name: name,
		pending: func(context.Context) (string, error) {
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
			return done + " in " + f.Config.Path + backupNote(backup), err
		},
	}
}

// changeSecrets edits the secrets file and returns its path, with the path of a backup if one was made.
func (f *Factory) changeSecrets(change func(text string) string) (where string, err error) {
	text, err := f.Secrets.Read()
	if err != nil {
		return "", err
	}
	backup, err := f.Secrets.Write(change(text))
	return f.Secrets.Path + backupNote(backup), err
}

// backupNote names the backup of a file that could not be replaced; "" without a backup.
func backupNote(backup string) string {
	if backup == "" {
		return ""
	}
	return ", written in place; the old text is in " + backup
}

// revokeSuperseded revokes the tokens of an account that are not needed any more, all except the one named keep, and
// returns what it did.
func (f *Factory) revokeSuperseded(ctx context.Context, login string, old agents.Secret, keep string) (string, error) {
	all, err := f.Forge.Tokens(ctx, login)
	if err != nil {
		return "", err
	}
	f.adopted = prefixLike(all, old) == adoptedPrefix
	gone := superseded(all, old, keep)
	if len(gone) == 0 {
		return "there are none", nil
	}
	if why, err := f.StillInUse(ctx); err != nil {
		return "", err
	} else if why != "" {
		f.TokensKept = true
		return "kept: " + why + "; run this again later to revoke them", nil
	}
	for _, t := range gone {
		if err := f.Forge.RevokeToken(ctx, login, t); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("revoked %d", len(gone)), nil
}

// checkToken signs in with a token and checks that it belongs to the login.
func (f *Factory) checkToken(ctx context.Context, token agents.Secret, login string) error {
	who, err := f.Forge.WhoAmI(ctx, token.Reveal())
	if err != nil {
		return err
	}
	if !strings.EqualFold(who, login) {
		return fmt.Errorf("the new token belongs to %s and not to %s", who, login)
	}
	return nil
}
