package forgetest

import (
	"context"
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/forge"
)

func (c *modelClient) said(r *modelRepo) (all []forge.Said) {
	for _, it := range r.items {
		for _, m := range it.comments {
			command, ok := forge.CommandIn(m.body)
			switch {
			case !ok:
			case !slices.Contains(r.writers, m.login) && c.m.flaw != "strangers command":
			case m.login == c.login() && c.m.flaw != "the supervisor commands":
			case slices.Contains(c.s.Agents, m.login) && c.m.flaw != "agents command":
			default:
				all = append(all, forge.Said{Ref: it.issue.Ref, ID: m.id, Author: m.login, At: m.at, Command: command})
			}
		}
	}
	slices.SortFunc(all, func(a, b forge.Said) int { return a.Compare(&b) })
	return all
}

func (c *modelClient) Take(ctx context.Context, s forge.Said) error {
	it, leave, err := c.item(ctx, s.Ref)
	defer leave()
	if err != nil {
		return err
	}
	there := slices.ContainsFunc(it.comments, func(m modelComment) bool {
		command, ok := forge.CommandIn(m.body)
		return m.id == s.ID && m.login == s.Author && ok && command.Equal(s.Command)
	})
	if !there && c.m.flaw != "commands are believed" {
		return fmt.Errorf("cannot take a command: %w", forge.ErrNotFound)
	}
	heard := c.m.repos[s.Repo].heard
	if by := heard[s.ID]; by != "" && by != c.s.Instance && c.m.flaw != "all take a command" {
		return fmt.Errorf("cannot take a command: %w", forge.ErrTaken)
	}
	heard[s.ID] = c.s.Instance
	return nil
}

func (c *modelClient) MayWrite(ctx context.Context, repo, login string) (bool, error) {
	leave, err := c.enter(ctx)
	defer leave()
	if err != nil {
		return false, err
	}
	return slices.Contains(c.m.repos[repo].writers, login) || c.m.flaw == "all may write", nil
}
