//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/supervisor"
)

// member is an account of the factory that needs write access to each repository.
type member struct {
	agent string // empty for the supervisor
	login string // of the token; empty if the forge does not know it
	token agents.Secret
	err   error // why the forge does not know it
	// may has for each repository why the account may not work there; nil if it may.
	may map[string]error
}

// members returns the supervisor's account and those of the agents that have a token, with what each may do.
func (k *checker) members(ctx context.Context, client supervisor.Forge) (all []member) {
	tokens := []member{{token: k.config.Forge.Token}}
	for i := range k.config.Agents {
		tokens = append(tokens, member{agent: k.config.Agents[i].Name, token: k.config.Agents[i].Token})
	}
	for _, m := range tokens {
		if m.token == "" {
			continue // agents or file reported it
		}
		m.login, m.err = client.WhoAmI(ctx, m.token.Reveal())
		if errors.Is(m.err, forge.ErrUnavailable) {
			return nil // labels reports it
		}
		m.may = make(map[string]error)
		for _, repo := range k.config.Forge.Repos {
			if m.err == nil && (m.agent == "" || len(k.worksThere(m.agent, repo)) > 0) {
				m.may[repo] = client.MayWork(ctx, m.token.Reveal(), repo)
			}
			if m.agent == "" && errors.Is(m.may[repo], forge.ErrNoAccess) {
				k.barred = append(k.barred, repo)
			}
		}
		all = append(all, m)
	}
	return all
}

// access checks that each agent's token belongs to its account, and that the account has the rights for its work in
// every repository.
func (k *checker) access(members []member) {
	unseen := k.unseen(members)
	lacking := len(unseen) > 0
	for _, m := range members {
		for _, err := range m.may {
			lacking = lacking || errors.Is(err, forge.ErrNoAccess)
		}
		a := k.config.Agent(m.agent)
		switch {
		case a == nil: // labels checked the supervisor
		case m.err != nil:
			k.addProblem("agents", fmt.Errorf("%s: %w; give it a new token", a.Name, m.err))
		case !strings.EqualFold(m.login, a.Login):
			k.addProblem("agents", fmt.Errorf(`%s: its token belongs to %s: give it the token of %s, or set forge_user = "%s"`,
				a.Name, m.login, a.Login, m.login))
		default:
			k.rights(a, &m, unseen, members)
		}
	}
	if lacking && !k.fix {
		k.addNote("agents", "disinto check --fix gives accounts the access that they lack, with an administrator's token in "+
			"$FORGE_ADMIN_TOKEN, or with the supervisor's if it administers the repository; it changes no token")
	}
}

// rights reports the rights that an agent lacks, except in repositories that nobody sees. Without access to one of
// several, it works in the others: nothing is wrong while another agent does the same work there.
func (k *checker) rights(a *agents.Agent, m *member, unseen []string, members []member) {
	well := true
	works := slices.ContainsFunc(k.config.Forge.Repos, func(repo string) bool {
		return m.may[repo] == nil && len(k.worksThere(a.Name, repo)) > 0
	})
	for _, repo := range k.config.Forge.Repos {
		err := m.may[repo]
		well = well && err == nil
		switch {
		case err == nil, errors.Is(err, forge.ErrOff), slices.Contains(unseen, repo): // forge says what is off
		case works && errors.Is(err, forge.ErrNoAccess) && k.covered(a.Name, repo, members):
			k.addNote("agents", fmt.Sprintf("%s does not work in %s: %v", a.Name, repo, err))
		default:
			k.addProblem("agents", fmt.Errorf("%s: %w", a.Name, err))
		}
	}
	if well {
		k.addOK("agents", "%s is %s on the forge, with the rights for its work", a.Name, a.Login)
	}
}

// worksThere returns the kinds of work that an agent may do in a repository.
func (k *checker) worksThere(agent, repo string) (kinds []agents.Kind) {
	for _, kind := range []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindSchedule} {
		if k.config.Does(k.config.Agent(agent), kind) && k.config.WorksIn(repo, agent, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// covered reports whether another agent with access does an agent's work in a repository.
func (k *checker) covered(agent, repo string, members []member) bool {
	work := k.worksThere(agent, repo)
	return slices.ContainsFunc(members, func(m member) bool {
		if m.agent == "" || m.agent == agent || m.err != nil || m.may[repo] != nil {
			return false
		}
		theirs := k.worksThere(m.agent, repo)
		return !slices.ContainsFunc(work, func(kind agents.Kind) bool { return !slices.Contains(theirs, kind) })
	})
}

// unseen returns the repositories that no account sees, and reports each once for all agents: its name may be
// misspelt.
func (k *checker) unseen(members []member) (repos []string) {
	for _, repo := range k.config.Forge.Repos {
		var logins []string
		seen := false
		for _, m := range members {
			err := m.may[repo]
			seen = seen || m.err == nil && !(errors.Is(err, forge.ErrNoAccess) && errors.Is(err, forge.ErrNotFound))
			if m.err == nil && m.agent != "" && !slices.Contains(logins, m.login) {
				logins = append(logins, m.login)
			}
		}
		if !seen && len(logins) > 0 {
			repos = append(repos, repo)
			k.addProblem("agents", fmt.Errorf("no agent can see %s: if its name is right, make %s collaborators with write "+
				"access", repo, strings.Join(logins, ", ")))
		}
	}
	return repos
}

// repairAccess makes collaborators of the accounts that lack access to a repository, with the token of an administrator
// of the forge or, if that does not do, of the supervisor. It changes no token.
func (k *checker) repairAccess(ctx context.Context, client supervisor.Forge, members []member) {
	tokens := []forgejo.AdminOptions{{URL: k.config.Forge.URL, Token: k.config.Forge.Token.Reveal()}}
	if admin, _, err := new(signIn).options(k.c, k.config.Forge.URL); err == nil {
		tokens = slices.Insert(tokens, 0, admin)
	}
	for _, repo := range k.config.Forge.Repos {
		var refused []string
		var why error
		for _, m := range members {
			if !errors.Is(m.may[repo], forge.ErrNoAccess) {
				continue
			}
			if err := allow(ctx, tokens, repo, m.login); err != nil {
				refused, why = append(refused, m.login), cmp.Or(why, err)
				continue
			}
			k.addOK("access", "%s may now write to %s", m.login, repo)
			m.may[repo] = client.MayWork(ctx, m.token.Reveal(), repo)
			if m.agent == "" {
				k.barred = slices.DeleteFunc(k.barred, func(r string) bool { return r == repo })
			}
		}
		if why != nil {
			k.addNote("access", fmt.Sprintf("cannot give %s access: %v; set $FORGE_ADMIN_TOKEN to the token of an "+
				"administrator of the forge or of the repository", strings.Join(refused, ", "), why))
		}
	}
}

// allow makes an account a collaborator, with the first token that may do it. The error is that of the first.
func allow(ctx context.Context, as []forgejo.AdminOptions, repo, login string) (first error) {
	for _, options := range as {
		admin, err := forgejo.NewAdmin(options)
		if err == nil {
			err = admin.Allow(ctx, repo, login)
		}
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}
