//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/web"
)

// inspector is a forge that can say which labels are missing. Prepare creates them.
type inspector interface {
	Inspect(ctx context.Context) ([]forgejo.MissingLabel, error)
}

// nameable is a forge that can say which software runs it.
type nameable interface {
	Software(ctx context.Context) (forgejo.Software, error)
}

// hooker is a forge that can be told to tell us of changes.
type hooker interface {
	HasHook(ctx context.Context, repo, url string) (bool, error)
	SetHook(ctx context.Context, repo, url, secret string) error
}

// registrar is a forge where people can sign in to our pages.
type registrar interface {
	SetApplication(ctx context.Context, name, redirect string) (clientID string, err error)
}

// labels asks whether we may work in the repositories and have their labels. A missing label is no problem: run
// creates it. The error is the forge's.
func (k *checker) labels(ctx context.Context, client supervisor.Forge) error {
	look := func(ctx context.Context) ([]forgejo.MissingLabel, error) { return nil, client.Prepare(ctx) }
	if !k.fix {
		i, ok := client.(inspector)
		if !ok {
			k.note("forge", "this kind of forge is looked at when run starts")
			return nil
		}
		look = i.Inspect
	}
	missing, err := look(ctx)
	k.problem("forge", err)
	if err != nil {
		return err
	}
	k.well("forge", "%s: %s can be written to", k.config.Forge.URL, strings.Join(k.config.Forge.Repos, " "))
	k.software(ctx, client)
	for _, repo := range k.config.Forge.Repos {
		var names []string
		for _, m := range missing {
			if m.Repo == repo {
				names = append(names, m.Name)
			}
		}
		if len(names) == 0 {
			k.well("labels", "%s: all are there", repo)
		} else {
			k.well("labels", "%s: run or check --fix will create %s", repo, strings.Join(names, ", "))
		}
	}
	return nil
}

// software names the forge, and what will not work there.
func (k *checker) software(ctx context.Context, client supervisor.Forge) {
	n, ok := client.(nameable)
	if !ok {
		return
	}
	s, err := n.Software(ctx)
	if err != nil {
		k.problem("forge", err)
		return
	}
	k.well("forge", "it is %s %s", s.Name, s.Version)
	for _, words := range s.Without {
		k.note("forge", words)
	}
}

// hooks asks whether the forge tells us of changes, if we listen for that. The forge does not show the secret of a
// hook, so --fix registers it anew.
func (k *checker) hooks(ctx context.Context, client supervisor.Forge) {
	f := &k.config.Factory
	h, ok := client.(hooker)
	if f.ListenHooks == "" || !ok {
		return
	}
	url := f.HookURL()
	if url == "" {
		k.problem("hooks", fmt.Errorf("it is not known how the forge reaches listen_hooks = %q: "+
			"set [factory] hooks_url, such as http://disinto:7071/v1/hook", f.ListenHooks))
		return
	}
	for _, repo := range k.config.Forge.Repos {
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
		k.problem("hooks", fmt.Errorf("%w; %s", err, byHand(url)))
	case err != nil:
		k.problem("hooks", err)
	default:
		k.well("hooks", "%s: registered, to %s", repo, url)
	}
}

func (k *checker) hook(ctx context.Context, client hooker, repo, url string) {
	there, err := client.HasHook(ctx, repo, url)
	switch {
	case errors.Is(err, forge.ErrForbidden):
		k.well("hooks", "%s: only an administrator of it can see whether there is one to %s", repo, url)
	case err != nil:
		k.problem("hooks", err)
	case !there:
		k.problem("hooks", fmt.Errorf("%s has no active web hook to %s: disinto check --fix registers one; "+
			"without it changes are seen at the next look", repo, url))
	default:
		k.well("hooks", "%s: there is one to %s", repo, url)
	}
}

// signIn registers the control room as an application of the forge, so that people can sign in with their accounts
// there. The operator turns that on: everyone who can read the repositories could look then.
func (k *checker) signIn(ctx context.Context, client supervisor.Forge) {
	f := &k.config.Factory
	r, ok := client.(registrar)
	if !ok || !k.fix || f.ListenWeb == "" || f.WebClientID != "" {
		return
	}
	if f.WebAddress() == "" {
		k.note("web", fmt.Sprintf("it is not known how browsers reach listen_web = %q: set [factory] web_url, such as "+
			"https://room.example.org, and people can sign in with the forge", f.ListenWeb))
		return
	}
	redirect := f.WebAddress() + web.Callback
	id, err := r.SetApplication(ctx, "disinto", redirect)
	switch {
	case errors.Is(err, forge.ErrForbidden):
		k.note("web", fmt.Sprintf("so that people can sign in with the forge, add an application on its page Settings, "+
			"Applications, with the redirect URI %s, and not a confidential client; or give our token the scope write:user "+
			"for once (%v)", redirect, err))
	case err != nil:
		k.problem("web", err)
	default:
		k.well("web", "the forge knows the control room: people can sign in there with web_client_id = %q in [factory]", id)
	}
}

// byHand says what a person has to do where we lack the right.
func byHand(url string) string {
	return "make the account an administrator of the repository, or add the hook by hand: to " + url +
		", as JSON, with the secret of [forge] webhook_secret, for issues, comments, pull requests and pushes"
}
