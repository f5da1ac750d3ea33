//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/web"
)

// inspector is a forge client that can list missing labels. Prepare creates them.
type inspector interface {
	Inspect(ctx context.Context) ([]forgejo.MissingLabel, error)
}

// nameable is a forge client that can name the forge's software.
type nameable interface {
	Software(ctx context.Context) (forgejo.Software, error)
}

// hooker is a forge client that can register web hooks.
type hooker interface {
	HasHook(ctx context.Context, repo, url string) (bool, error)
	SetHook(ctx context.Context, repo, url, secret string) error
}

// registrar is a forge client that can register the control room as an OAuth application.
type registrar interface {
	SetApplication(ctx context.Context, name, redirect string) (clientID string, err error)
}

// labels checks that the supervisor may write to the repositories and that its labels exist. A missing label is not a
// problem, because run creates it. labels returns the forge's error.
func (k *checker) labels(ctx context.Context, client supervisor.Forge) error {
	look := func(ctx context.Context) ([]forgejo.MissingLabel, error) { return nil, client.Prepare(ctx) }
	if !k.fix {
		i, ok := client.(inspector)
		if !ok {
			k.addNote("forge", "this kind of forge can only be checked by run")
			return nil
		}
		look = i.Inspect
	}
	missing, err := look(ctx)
	k.addProblem("forge", err)
	if err != nil {
		return err
	}
	k.addOK("forge", "%s: %s can be written to", k.config.Forge.URL, strings.Join(k.config.Forge.Repos, " "))
	k.software(ctx, client)
	for _, repo := range k.config.Forge.Repos {
		var names []string
		for _, m := range missing {
			if m.Repo == repo {
				names = append(names, m.Name)
			}
		}
		if len(names) == 0 {
			k.addOK("labels", "%s: all exist", repo)
		} else {
			k.addOK("labels", "%s: run or check --fix will create %s", repo, strings.Join(names, ", "))
		}
	}
	return nil
}

// software reports the forge's software and the features that it lacks.
func (k *checker) software(ctx context.Context, client supervisor.Forge) {
	n, ok := client.(nameable)
	if !ok {
		return
	}
	s, err := n.Software(ctx)
	if err != nil {
		k.addProblem("forge", err)
		return
	}
	k.addOK("forge", "the forge is %s %s", s.Name, s.Version)
	for _, words := range s.Without {
		k.addNote("forge", words)
	}
}

// hooks checks the web hooks of the repositories, if the supervisor listens for them. The forge does not show a hook's
// secret, so --fix always registers the hook again.
func (k *checker) hooks(ctx context.Context, client supervisor.Forge) {
	f := &k.config.Factory
	h, ok := client.(hooker)
	if f.ListenHooks == "" || !ok {
		return
	}
	url := f.HookURL()
	if url == "" {
		k.addProblem("hooks", fmt.Errorf("cannot derive the URL at which the forge reaches listen_hooks = %q: "+
			"set [factory] hooks_url, such as http://disinto:7071/v1/hook", f.ListenHooks))
		return
	}
	for _, repo := range k.config.Forge.Repos {
		if slices.Contains(k.barred, repo) {
			continue // labels reported it
		}
		if k.fix {
			k.setHook(ctx, h, repo, url)
		} else {
			k.hook(ctx, h, repo, url)
		}
	}
}

func (k *checker) setHook(ctx context.Context, client hooker, repo, url string) {
	err := client.SetHook(ctx, repo, url, k.config.Forge.WebhookSecret.Reveal())
	switch {
	case errors.Is(err, forge.ErrForbidden):
		k.addProblem("hooks", fmt.Errorf("%w; %s", err, byHand(url)))
	case err != nil:
		k.addProblem("hooks", err)
	default:
		k.addOK("hooks", "%s: registered, to %s", repo, url)
	}
}

func (k *checker) hook(ctx context.Context, client hooker, repo, url string) {
	there, err := client.HasHook(ctx, repo, url)
	switch {
	case errors.Is(err, forge.ErrForbidden):
		k.addOK("hooks", "%s: not checked: only an administrator of the repository can see whether it has a hook to %s",
			repo, url)
	case err != nil:
		k.addProblem("hooks", err)
	case !there:
		k.addProblem("hooks", fmt.Errorf("%s has no active web hook to %s: disinto check --fix registers one; "+
			"without it the supervisor sees changes only at its next scan", repo, url))
	default:
		k.addOK("hooks", "%s: has a hook to %s", repo, url)
	}
}

// signIn registers the control room as an OAuth application of the forge, so that people can sign in with their
// accounts there. Only the operator enables this, with web_client_id: everyone who can read the repositories can then
// sign in.
func (k *checker) signIn(ctx context.Context, client supervisor.Forge) {
	f := &k.config.Factory
	r, ok := client.(registrar)
	if !ok || !k.fix || f.ListenWeb == "" || f.WebClientID != "" {
		return
	}
	if f.WebAddress() == "" {
		k.addNote("web", fmt.Sprintf("cannot derive the URL at which browsers reach listen_web = %q: to let people sign in "+
			"with the forge, set [factory] web_url, such as https://room.example.org", f.ListenWeb))
		return
	}
	redirect := f.WebAddress() + web.Callback
	id, err := r.SetApplication(ctx, "disinto", redirect)
	switch {
	case errors.Is(err, forge.ErrForbidden):
		k.addNote("web", fmt.Sprintf("to let people sign in with the forge, add an application there under Settings, "+
			"Applications, with the redirect URI %s, as a public client; or give the supervisor's token the scope write:user "+
			"and repeat (%v)", redirect, err))
	case err != nil:
		k.addProblem("web", err)
	default:
		k.addOK("web",
			"registered on the forge: set web_client_id = %q in [factory] to let people sign in with the forge", id)
	}
}

// byHand returns what the operator has to do if the supervisor's account may not add the hook.
func byHand(url string) string {
	return "make the account an administrator of the repository, or add the hook by hand: to " + url +
		", as JSON, with [forge] webhook_secret as its secret, for issues, comments, pull requests and pushes"
}
