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

// repository returns the repository that a request names, in the spelling of the configuration; "" names the only one.
func (s *Supervisor) repository(said string) (string, error) {
	config := s.books.config()
	repos := config.Forge.Repos
	switch {
	case said != "":
		repo, err := config.Repo(said)
		return repo, misnamed(err)
	case len(repos) == 1:
		return repos[0], nil
	}
	return "", control.Invalid("cannot tell which repository is meant: say --repo, one of %s", strings.Join(repos, ", "))
}

// roleLabels returns the labels that send an issue to agents of a role; none for the role "".
func (s *Supervisor) roleLabels(role string) ([]string, error) {
	if role == "" {
		return nil, nil
	}
	config := s.books.config()
	r := config.Role(role)
	others := slices.ContainsFunc(config.Roles, func(o agents.Role) bool {
		return o.On == agents.OnIssue && o.Name != role
	})
	switch {
	case r == nil:
		var known []string
		for i := range config.Roles {
			known = append(known, config.Roles[i].Name)
		}
		return nil, control.NotFound("no agent has the role %s%s", role, threads.Suggest(role, known))
	case r.On != agents.OnIssue:
		return nil, control.Conflict("the role %s works on no issues", role)
	case r.Label != "":
		return []string{r.Label}, nil
	case others:
		return nil, control.Conflict(
			"nothing tells the issues of the role %s from those of others: give its table a label", role)
	}
	return nil, nil
}

// existing reads references, and makes sure that there is an issue behind each, before anything is written.
func (s *Supervisor) existing(home string, said []string) ([]forge.Ref, error) {
	var refs []forge.Ref
	for _, one := range said {
		t, err := s.find("depend on", home, one)
		if err != nil {
			return nil, err
		}
		refs = append(refs, t.Ref)
	}
	return refs, nil
}

// relabel changes the labels of an item that the scheduler must not decide on until a scan shows them. It returns the
// time that facts have to be newer than.
func (s *Supervisor) relabel(item forge.Ref, add, remove []string) (need time.Time, err error) {
	grip := s.books.grip(item)
	err = s.label(item, add, remove)
	return grip.letGo(), err
}

// putUp lets an issue be worked on.
func (s *Supervisor) putUp(item forge.Ref) error {
	_, err := s.relabel(item, []string{forge.LabelBacklog}, nil)
	return err
}

// answerTime bounds how long sling and the commands about convoys wait for scans that show what they wrote, and sling
// for an agent to be at work. The next ticks do the rest; a person does not wait for a slow forge.
const answerTime = 700 * time.Millisecond

// shown waits until a scan shows what was written, for answerTime at most, so that the next question is answered with
// it.
func (s *Supervisor) shown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s.freshen(ctx)
}

// freshen waits for facts that are asked for now, until ctx is done. It also kicks the loops: where it gives up they go
// on, and the time of their next look may be another one now.
func (s *Supervisor) freshen(ctx context.Context) {
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
