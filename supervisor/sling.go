package supervisor

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	// slingTime is how long sling waits in all, for scans that show what was written and for an agent to be at work. What is
	// not so by then is done by the next ticks; the person who asked does not wait for a slow forge.
	slingTime = 700 * time.Millisecond
	// slingTries is how many agents may fail to start before the answer is that.
	slingTries = 3
)

// sling has the scheduler decide on an issue at once, as a tick would, and says what came of it. It changes nothing of an
// issue but that it gets the label backlog, which lets it be worked on. It may be repeated.
func (s *Supervisor) sling(ctx context.Context, r control.SlingRequest, report *control.SlingReport) (err error) {
	var item forge.Ref
	switch {
	case (r.Ref == "") == (r.Title == ""):
		return control.Refuse(http.StatusBadRequest, "cannot sling: say an issue or a title, one of them")
	case r.Title != "":
		item, err = s.fileSlung(&r)
		report.Filed = err == nil
	default:
		item, err = s.offer(r.Ref)
	}
	if err != nil {
		return err
	}
	report.Repo, report.Number = item.Repo, item.Number
	ctx, cancel := context.WithTimeout(ctx, slingTime)
	defer cancel()
	for range slingTries {
		s.decideOn(ctx, item)
		x := s.sessionOn(item)
		if x == nil {
			break
		}
		wait(ctx, x.atWork, x.gone)
		if s.onIt(report, x) {
			return nil
		}
	}
	s.whyNot(report, item)
	return nil
}

// offer puts an issue that exists up for work, if nothing speaks against that.
func (s *Supervisor) offer(said string) (forge.Ref, error) {
	item, err := s.item(said)
	if err != nil || s.hasSession(item) {
		return item, err
	}
	t, err := s.see(item)
	if err != nil {
		return item, notDone("sling", item, err)
	}
	if why := s.unslingable(t); why != "" {
		return item, control.Refuse(http.StatusConflict, "cannot sling %s: %s", item, why)
	}
	if t.has(forge.LabelBacklog) {
		return item, nil
	}
	grip := s.grip(item)
	err = s.label(item, []string{forge.LabelBacklog}, nil)
	grip.letGo()
	if err != nil {
		return item, notDone("sling", item, err)
	}
	return item, nil
}

// unslingable says why an issue is not to be handed out; empty when it may be. What only takes time, such as a blocker, is
// no reason: the scheduler says that.
func (s *Supervisor) unslingable(t *thing) string {
	switch label := forge.SkipLabel(t.labels); {
	case t.pull:
		return "it is a pull request, which is reviewed and merged by itself"
	case t.closed:
		return "it is closed"
	case label == forge.LabelConvoy:
		return "it is a convoy, say disinto convoy start"
	case label != "":
		return "it is labelled " + label
	}
	for _, login := range t.assignees {
		if !s.isAgent(login) {
			return "it is assigned to " + login
		}
	}
	return ""
}

// isAgent reports whether an account is an agent's, of this host or another.
func (s *Supervisor) isAgent(login string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bot := slices.BinarySearch(s.config.Forge.Bots, login)
	return bot || s.config.AgentByLogin(login) != nil
}

// fileSlung makes the issue. It gets the label that lets it be worked on only when everything that it waits for is tied.
func (s *Supervisor) fileSlung(r *control.SlingRequest) (forge.Ref, error) {
	repo, err := s.repository(r.Repo)
	if err != nil {
		return forge.Ref{}, err
	}
	labels, err := s.roleLabels(r.Role)
	if err != nil {
		return forge.Ref{}, err
	}
	for _, skill := range r.Skills {
		labels = append(labels, "skill/"+skill)
	}
	blockers, err := s.existing(repo, r.DependsOn)
	if err != nil {
		return forge.Ref{}, err
	}
	if len(blockers) == 0 {
		labels = append(labels, forge.LabelBacklog)
	}
	item, err := s.file(forge.Draft{Repo: repo, Title: r.Title, Body: r.Body, Labels: labels})
	if err != nil {
		return item, control.Refuse(http.StatusServiceUnavailable, "cannot sling: %s", text(err))
	}
	if len(blockers) == 0 {
		return item, nil
	}
	for _, b := range blockers {
		if err == nil {
			err = s.depend(item, b)
		}
	}
	if err == nil {
		err = s.label(item, []string{forge.LabelBacklog}, nil)
	}
	if err != nil {
		return item, control.Refuse(http.StatusServiceUnavailable, "%s is filed, and not put up for work: %s", item, text(err))
	}
	return item, nil
}

// repository is one of the factory's, in the spelling of the configuration; without a name, the only one.
func (s *Supervisor) repository(said string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	repos := s.config.Forge.Repos
	if said == "" && len(repos) == 1 {
		return repos[0], nil
	}
	if said == "" {
		return "", control.Refuse(http.StatusBadRequest, "cannot tell which repository is meant: say --repo, one of %s", strings.Join(repos, ", "))
	}
	i := slices.IndexFunc(repos, func(r string) bool { return strings.EqualFold(r, said) })
	if i < 0 {
		return "", control.Refuse(http.StatusNotFound, "%s is none of the repositories of this factory", said)
	}
	return repos[i], nil
}

// roleLabels are the labels that send an issue to agents of a role.
func (s *Supervisor) roleLabels(role string) ([]string, error) {
	if role == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.config.Role(role)
	others := slices.ContainsFunc(s.config.Roles, func(o agents.Role) bool { return o.On == agents.OnIssue && o.Name != role })
	switch {
	case r == nil:
		return nil, control.Refuse(http.StatusNotFound, "no agent has the role %s", role)
	case r.On != agents.OnIssue:
		return nil, control.Refuse(http.StatusConflict, "the role %s works on no issues", role)
	case r.Label != "":
		return []string{r.Label}, nil
	case others:
		return nil, control.Refuse(http.StatusConflict, "nothing tells the issues of the role %s from those of others: give its table a label", role)
	}
	return nil, nil
}

// existing reads references and makes sure that there is an open or closed issue behind each, before anything is written.
func (s *Supervisor) existing(home string, said []string) ([]forge.Ref, error) {
	var refs []forge.Ref
	for _, one := range said {
		ref, err := s.itemOf(home, one)
		if err != nil {
			return nil, err
		}
		if _, err := s.see(ref); err != nil {
			return nil, notDone("depend on", ref, err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func (s *Supervisor) file(d forge.Draft) (ref forge.Ref, err error) {
	err = s.call(s.base, callTimeout, func(ctx context.Context, f Forge) (err error) {
		ref, err = f.File(ctx, d)
		return err
	})
	return ref, err
}

func (s *Supervisor) depend(item, on forge.Ref) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Depend(ctx, item, on) })
}

// decideOn is a tick of its own for one issue: it commits the issue's start, whatever its thread, and leaves all others to
// theirs.
func (s *Supervisor) decideOn(ctx context.Context, item forge.Ref) {
	s.freshly(ctx)
	room := s.room()
	s.mu.Lock()
	if s.config == nil || s.until.Err() != nil {
		s.mu.Unlock()
		return
	}
	t := s.commitLocked(time.Now(), room, func(start *threads.Start) bool { return start.Item.Ref == item })
	s.mu.Unlock()
	s.act(t)
}

// freshly waits for facts that were asked for now, but not for long. The loops are kicked as well: where this gives up, they
// go on, and in any case when they look next may be another moment now.
func (s *Supervisor) freshly(ctx context.Context) {
	need := time.Now()
	read := make(chan struct{})
	s.running.Go(func() {
		defer close(read)
		s.scan(s.until, need)
	})
	wait(ctx, read, nil)
	s.kickAll(need)
}

// wait returns when one of two things has happened, or nobody waits any longer.
func wait(ctx context.Context, one, other <-chan struct{}) {
	select {
	case <-one:
	case <-other:
	case <-ctx.Done():
	}
}

// whyNot says why nobody is on the issue.
func (s *Supervisor) whyNot(report *control.SlingReport, item forge.Ref) {
	room := s.room()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return
	}
	ex, err := threads.Explain(s.snapshotLocked(time.Now(), room), item)
	switch {
	case err != nil: // no scan has shown it yet
		report.Code, report.Why = threads.StaleFacts, threads.Reason{Code: threads.StaleFacts}.Text()
	case ex.Code == "":
		report.Why = ex.Verdict
	default:
		report.Code, report.Why, report.Position = ex.Code, strings.TrimPrefix(ex.Verdict, "waits: "), ex.Position
	}
}

// sessionOn is the session on an issue; nil when there is none.
func (s *Supervisor) sessionOn(item forge.Ref) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(s.sessions)) {
		if s.sessions[run].Item.Ref == item {
			return s.sessions[run]
		}
	}
	return nil
}

// onIt reports a session, unless it is gone.
func (s *Supervisor) onIt(report *control.SlingReport, x *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[x.RunID] == nil {
		return false
	}
	report.Agent, report.Thread, report.Slot, report.State = x.Agent, x.Thread, x.Slot, x.State
	return true
}
