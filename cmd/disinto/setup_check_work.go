//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
)

// work checks that the factory can do anything: without agents, or without one that takes issues, it starts without an
// error and does nothing.
func (k *checker) work() {
	if len(k.config.Agents) == 0 {
		k.addProblem("agents", errors.New("the factory has none, and does nothing without: "+
			"disinto hire-an-agent dev-NAME --type dev --thread THREAD"))
		return
	}
	writes, reviews := false, false
	for i := range k.config.Agents {
		writes = writes || k.config.Does(&k.config.Agents[i], agents.KindIssue)
		reviews = reviews || k.config.Does(&k.config.Agents[i], agents.KindReview)
	}
	if !writes {
		k.addProblem("agents",
			errors.New(`none of them takes issues: hire one with --type dev, or set on = "issue" in a role`))
	}
	if !reviews {
		k.addNote("agents", "none of them reviews: a person has to review each pull request before it is merged")
	}
}

// tester is a forge client that can tell whether a repository has checks.
type tester interface {
	Checked(ctx context.Context, repo string) (bool, error)
}

// tests notes the repositories in which nothing tests what agents write, and those in which only verify does.
func (k *checker) tests(ctx context.Context, client supervisor.Reader, facts *forge.Facts) {
	t, ok := client.(tester)
	for _, r := range facts.Repos {
		if !ok || r.Off != "" {
			continue
		}
		checked, err := t.Checked(ctx, r.Name)
		checks := func(p forge.Pull) bool { return p.Repo == r.Name && p.CI != forge.CINone }
		switch verify := len(k.config.Room(r.Name).Verify.Argv) > 0; {
		case err != nil || checked || slices.ContainsFunc(facts.Pulls, checks):
		case verify:
			k.addNote("tests", r.Name+" has no checks on the forge: only verify tests what agents write, and nothing tests "+
				"what people push")
		default:
			k.addNote("tests", fmt.Sprintf("%s has neither checks on the forge nor verify: nothing tests what agents write "+
				"before it is merged; set verify in [repos.%q]", r.Name, r.Name))
		}
	}
}

// credentials checks, for each agent whose program is an agent CLI, that the CLI finds a credential for a paid backend
// and, unless --offline is set, that the backend accepts it.
func (k *checker) credentials(ctx context.Context) {
	state := k.place.stateDir(k.c)
	asked := make(map[string]bool)
	for i := range k.config.Agents {
		a := &k.config.Agents[i]
		t := k.config.Thread(a.Thread)
		for _, name := range a.Roles {
			r := k.config.Role(name)
			if r == nil || r.CLI == "" || t == nil || !t.Backend.Paid() {
				continue
			}
			environ := agents.Environ(k.config.Environ(k.c.environ), &agents.Env{
				Agent: *a, Role: *r, Thread: t.Name, Backend: t.Backend, BaseURL: t.BaseURL, EnvAllow: t.EnvAllow,
				EnvDeny: t.EnvDeny, Vars: t.Vars, Home: filepath.Join(state, "home", a.Name), Secrets: k.config.Secrets,
			})
			found, wanted, err := session.Credential(r.CLI, environ)
			switch {
			case err != nil:
				continue // programs reports it
			case t.Executor != "" && (found == "" || strings.HasPrefix(found, "/")):
				continue // its login is on the nodes, which check cannot see
			case found == "":
				k.addProblem("backends", fmt.Errorf("%s: %s finds no credential: set one of %s", a.Name, r.CLI,
					strings.Join(wanted, ", ")))
			case !k.offline && !asked[found+t.Name]:
				asked[found+t.Name] = true
				url := agents.Getenv(environ, "DISINTO_BASE_URL")
				k.addProblem("backends", tryKey(ctx, found, agents.Getenv(environ, found), url))
			}
		}
	}
}

// keyed are the credentials that one cheap request can test, with their default API and header.
var keyed = map[string]struct{ api, header, prefix string }{
	"ANTHROPIC_API_KEY": {"https://api.anthropic.com", "X-Api-Key", ""},
	"OPENAI_API_KEY":    {"https://api.openai.com", "Authorization", "Bearer "},
}

// tryKey requests the backend's list of models, which costs nothing. A refusal of the key is an error, and so is no
// response; any other status is not, because some backends do not have this path.
func tryKey(ctx context.Context, variable, key, base string) error {
	how, known := keyed[variable]
	if !known {
		return nil
	}
	if base == "" {
		base = how.api
	}
	base = strings.TrimSuffix(strings.TrimSuffix(base, "/"), "/v1")
	ctx, cancel := context.WithTimeout(ctx, backendTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return err
	}
	req.Header.Set(how.header, how.prefix+key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirect with the key
	if err != nil {
		return fmt.Errorf("no answer from %s: check --offline skips this test", base)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%s refuses $%s (%s): give it a valid key", base, variable, resp.Status)
	}
	return nil
}
