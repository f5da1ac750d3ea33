package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// slingTries is how many sessions may fail to start before sling answers that no session is on the issue.
const slingTries = 3

// sling makes the scheduler decide on one issue at once, as a tick would, and reports the result. The only change to
// an existing issue is the label backlog. The command may be repeated.
func (s *Supervisor) sling(ctx context.Context, r control.SlingRequest, report *control.SlingReport) (err error) {
	var item forge.Ref
	switch {
	case (r.Ref == "") == (r.Title == ""):
		return control.Invalid("cannot sling: give either an issue or a title")
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
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for range slingTries {
		s.decideOn(ctx, item)
		x := s.books.sessionOn(item)
		if x == nil {
			break
		}
		wait(ctx, x.atWork, x.gone)
		if s.reportSession(report, x) {
			return nil
		}
	}
	s.reportWhy(report, item)
	return nil
}

// offer labels an existing issue backlog, unless a session is on it already.
func (s *Supervisor) offer(said string) (forge.Ref, error) {
	item, err := s.item("", said)
	if err != nil || s.books.sessionOn(item) != nil {
		return item, err
	}
	t, err := s.find("sling", "", said)
	if err != nil {
		return item, err
	}
	if why := s.unslingable(t); why != "" {
		return item, control.Conflict("cannot sling %s: %s", item, why)
	}
	if t.has(forge.LabelBacklog) {
		return item, nil
	}
	if err := s.putUp(item); err != nil {
		return item, notDone("sling", item, err)
	}
	return item, nil
}

// unslingable returns why an issue cannot be slung, with the remedy; "" if it can. A temporary reason, such as a
// blocker, does not count: the scheduler reports it.
func (s *Supervisor) unslingable(t *target) string {
	switch label := forge.SkipLabel(t.labels); {
	case t.pull:
		return "it is a pull request, which is reviewed and merged by itself"
	case t.closed:
		return "it is closed: reopen it first"
	case label == forge.LabelConvoy:
		return "it is a convoy, use disinto convoy start"
	case slices.Contains(retryLabels, label):
		return "it is labelled " + label + ": disinto retry takes that off"
	case label != "":
		return "it is labelled " + label + ": take that label off first"
	}
	config := s.books.config()
	for _, login := range t.assignees {
		if !isBot(config, login) && config.AgentByLogin(login) == nil {
			return "it is assigned to " + login + ": unassign that account first"
		}
	}
	return ""
}

// fileSlung files the issue. It adds the label backlog only after all its dependencies.
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
		labels = append(labels, forge.SkillPrefix+skill)
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
		return item, control.NotNow("cannot sling: %s", text(err))
	}
	for _, b := range blockers {
		if err == nil {
			err = s.depend(item, b)
		}
	}
	if err == nil && len(blockers) > 0 {
		err = s.label(item, []string{forge.LabelBacklog}, nil)
	}
	if err != nil {
		return item, control.NotNow("%s is filed, but not labelled backlog: %s", item, text(err))
	}
	return item, nil
}

// decideOn is a tick for one issue: it commits the start on any thread, and leaves the other starts to their
// threads' loops.
func (s *Supervisor) decideOn(ctx context.Context, item forge.Ref) {
	s.scanner.freshen(ctx)
	s.act(s.books.commit(item, time.Now(), s.room()))
}

// reportSession reports a session, and returns false if it has ended.
func (s *Supervisor) reportSession(report *control.SlingReport, x *session) bool {
	if !s.books.running(x.RunID) {
		return false
	}
	d := s.books.show(x)
	report.Agent, report.Thread, report.Slot, report.State = control.Assigned(d.Agent), d.Thread, d.Slot, d.State
	return true
}

// reportWhy reports why no session is on the issue.
func (s *Supervisor) reportWhy(report *control.SlingReport, item forge.Ref) {
	ex, err := s.explain(item)
	switch {
	case err != nil: // no scan shows the issue yet
		report.Code, report.Why = threads.StaleFacts, threads.Reason{Code: threads.StaleFacts}.Text()
	case ex.Code == "":
		report.Why = ex.Verdict
	default:
		report.Code, report.Why, report.Position = ex.Code, strings.TrimPrefix(ex.Verdict, "waits: "), ex.Position
	}
}
