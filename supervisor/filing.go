package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// repository returns a request's repository in the configuration's spelling; "" means the only one.
func (c *core) repository(said string) (string, error) {
	config := c.state.config()
	repos := config.Forge.Repos
	switch {
	case said != "":
		repo, err := config.Repo(said)
		return repo, misnamed(err)
	case len(repos) == 1:
		return repos[0], nil
	}
	return "", control.Invalid("cannot tell which repository is meant: set --repo to one of %s", strings.Join(repos, ", "))
}

// roleLabels returns the labels that route an issue to agents of a role; none for the role "".
func (c *core) roleLabels(role string) ([]string, error) {
	if role == "" {
		return nil, nil
	}
	config := c.state.config()
	r := config.Role(role)
	others := slices.ContainsFunc(config.Roles, func(o agents.Role) bool {
		return o.On.Does(agents.KindIssue) && o.Name != role
	})
	switch {
	case r == nil:
		var known []string
		for i := range config.Roles {
			known = append(known, config.Roles[i].Name)
		}
		return nil, control.NotFound("no agent has the role %s%s", role, threads.Suggest(role, known))
	case !r.On.Does(agents.KindIssue):
		return nil, control.Conflict("the role %s works on no issues", role)
	case r.Label != "":
		return []string{r.Label}, nil
	case others:
		return nil, control.Conflict(
			"cannot tell issues of the role %s from those of other roles: give its table a label", role)
	}
	return nil, nil
}

// skillLabels returns the labels for skills. It refuses one that no agent has: nobody could take the issue.
func (c *core) skillLabels(skills []string) (labels []string, err error) {
	var known []string
	config := c.state.config()
	for i := range config.Agents {
		known = append(known, config.Agents[i].Skills...)
	}
	for _, skill := range skills {
		if !slices.Contains(known, skill) {
			return nil, control.NotFound("no agent has the skill %s%s", skill, threads.Suggest(skill, known))
		}
		labels = append(labels, forge.SkillPrefix+skill)
	}
	return labels, nil
}

// existing parses references, and checks before any write that each names an existing issue.
func (c *core) existing(home string, said []string) ([]forge.Ref, error) {
	var refs []forge.Ref
	for _, one := range said {
		t, err := c.find("depend on", home, one)
		if err != nil {
			return nil, err
		}
		refs = append(refs, t.Ref)
	}
	return refs, nil
}

// relabel changes an item's labels, and excludes the item from decisions meanwhile. Only facts requested after the
// returned time are new enough for the item.
func (c *core) relabel(item forge.Ref, add, remove []string) (need time.Time, err error) {
	write := c.state.beginWrite(item)
	err = c.label(item, add, remove)
	return write.end(), err
}

// addBacklog labels an issue backlog.
func (c *core) addBacklog(item forge.Ref) error {
	_, err := c.relabel(item, []string{forge.LabelBacklog}, nil)
	return err
}

// answerTime bounds how long commands wait for a scan that shows their writes, why for one that shows a new issue, and
// sling for an agent to start. Later ticks do the rest, so that a person does not wait for a slow forge.
const answerTime = 700 * time.Millisecond

// awaitShown waits until a scan shows the last write, for answerTime at most, so that the person's next question is
// answered with it.
func (s *scanner) awaitShown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s.scanNow(ctx)
}

// scanNow waits for facts requested from now on, until ctx is done. It also kicks the loops: they continue the wait if
// scanNow stops first, and their next tick may be due at another time now.
func (s *scanner) scanNow(ctx context.Context) {
	need := time.Now()
	read := make(chan struct{})
	s.background(&s.running, "a scan", func() {
		defer close(read)
		s.scan(s.until, need)
	})
	wait(ctx, read, nil)
	s.kicks.all(need)
}

// wait returns when one of two channels is closed or ctx is done.
func wait(ctx context.Context, one, other <-chan struct{}) {
	select {
	case <-one:
	case <-other:
	case <-ctx.Done():
	}
}
