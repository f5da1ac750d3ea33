package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// slingTries is how many sessions may fail to start before sling answers that no session is on the issue.
const slingTries = 3

// commands carries out the commands of people on one issue or pull request.
type commands struct {
	*core
	clerk    *clerk
	planner  *planner
	sessions *sessionRunner
}

// sling makes the scheduler decide on one issue at once, as a tick would, and reports the result. The only change to
// an existing issue is the label backlog. The command may be repeated.
func (cm *commands) sling(ctx context.Context, r control.SlingRequest, report *control.SlingReport) (err error) {
	var item forge.Ref
	switch role := cm.state.config().Role(r.Ref); {
	case role != nil && role.On.Timed():
		return cm.runNow(ctx, role, r.Repo, report)
	case (r.Ref == "") == (r.Title == ""):
		return control.Invalid("cannot start: give either an issue or a title")
	case r.Title != "":
		item, err = cm.fileSlung(&r)
		report.Filed = err == nil
	default:
		item, err = cm.offer(r.Ref)
	}
	if err != nil {
		return err
	}
	report.Repo, report.Number = item.Repo, item.Number
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for range slingTries {
		cm.planner.decideOn(ctx, item)
		x := cm.state.sessionOn(item)
		if x == nil {
			break
		}
		wait(ctx, x.atWork, x.gone)
		if cm.reportSession(report, x) {
			return nil
		}
	}
	cm.reportWhy(report, item)
	return nil
}

// runNow makes a scheduled role due in one repository, and reports the session of the run.
func (cm *commands) runNow(ctx context.Context, role *agents.Role, repo string, report *control.SlingReport) error {
	repo, err := cm.repository(repo)
	if err != nil {
		return err
	}
	on := forge.Ref{Repo: repo}
	key := threads.Key{Kind: agents.KindSchedule, Ref: on, Role: role.Name}
	report.Repo, report.Role = repo, role.Name
	if cm.state.sessionWith(key) == nil {
		if err := cm.askRun(key); err != nil {
			return control.NotNow("cannot run %s: %s", role.Name, text(err))
		}
		cm.planner.decideOn(ctx, on)
	}
	if x := cm.state.sessionWith(key); x != nil {
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		wait(ctx, x.atWork, x.gone)
		if cm.reportSession(report, x) {
			return nil
		}
	}
	report.Code, report.Why = cm.state.holdOf(key)
	return nil
}

// askRun makes scheduled work due now, unless a person has asked for it already.
func (cm *commands) askRun(key threads.Key) error {
	if cm.state.wanted(key) {
		return nil
	}
	cm.log.Info(fmt.Sprintf("scheduled %s on %s asked for by hand", key.Role, key.Ref.Repo))
	asked := ledger.Retry{Refs: []ledger.Ref{ledger.Ref(key.Ref)}, Role: key.Role}
	return cm.state.recordThen(ledger.Record{At: time.Now(), Retry: &asked}, nil)
}

// wanted reports whether a person asked for a run of scheduled work that has not ended since.
func (st *state) wanted(key threads.Key) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.History.Item(key).Wanted()
}

// sessionWith returns the session on a piece of work; nil without one.
func (st *state) sessionWith(key threads.Key) *session {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range st.sessions {
		if x.Item.Key() == key {
			return x
		}
	}
	return nil
}

// holdOf returns why the newest plan does not start a piece of work.
func (st *state) holdOf(key threads.Key) (threads.Code, string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, h := range st.plan.Holds {
		if h.Key() == key {
			return h.Reason.Code, h.Reason.Text()
		}
	}
	return threads.StaleFacts, threads.Reason{Code: threads.StaleFacts}.Text()
}

// offer labels an existing issue backlog, unless a session is on it already.
func (cm *commands) offer(said string) (forge.Ref, error) {
	item, err := cm.item("", said)
	if hint := threads.Suggest(said, timedRoles(cm.state.config())); err != nil && hint != "" {
		return item, control.NotFound("cannot start %q: it is neither an issue nor a scheduled role%s", said, hint)
	}
	if err != nil || cm.state.sessionOn(item) != nil {
		return item, err
	}
	t, err := cm.find("start", "", said)
	if err != nil {
		return item, err
	}
	if why := cm.unslingable(t, typed(said, item)); why != "" {
		return item, control.Conflict("cannot start %s: %s", item, why)
	}
	if t.has(forge.LabelBacklog) {
		return item, nil
	}
	if err := cm.addBacklog(item); err != nil {
		return item, notDone("start", item, err)
	}
	return item, nil
}

// timedRoles returns the names of the roles that start by the clock.
func timedRoles(c *threads.Config) (names []string) {
	for i := range c.Roles {
		if c.Roles[i].On.Timed() {
			names = append(names, c.Roles[i].Name)
		}
	}
	return names
}

// unslingable returns why an issue cannot be slung, with the remedy, which calls the issue called; "" if it can. A
// temporary reason, such as a blocker, does not count: the scheduler reports it.
func (cm *commands) unslingable(t *target, called string) string {
	switch label := forge.SkipLabel(t.labels); {
	case t.pull:
		return "it is a pull request, which is reviewed and merged by itself"
	case t.closed:
		return "it is closed: reopen it first"
	case label == forge.LabelConvoy:
		return "it is a convoy: use disinto batch start " + called
	case slices.Contains(retryLabels, label):
		return "it is labelled " + label + ": disinto retry " + called + " takes that off"
	case label != "":
		return "it is labelled " + label + ": take that label off first"
	}
	config := cm.state.config()
	for _, login := range t.assignees {
		if !config.IsBot(login) && config.AgentByLogin(login) == nil {
			return "it is assigned to " + login + ": unassign that account first"
		}
	}
	return ""
}

// fileSlung files the issue. It adds the label backlog only after all its dependencies.
func (cm *commands) fileSlung(r *control.SlingRequest) (forge.Ref, error) {
	repo, err := cm.repository(r.Repo)
	if err != nil {
		return forge.Ref{}, err
	}
	labels, err := cm.roleLabels(r.Role)
	if err != nil {
		return forge.Ref{}, err
	}
	if r.Priority < 0 || r.Priority > 10 {
		return forge.Ref{}, control.Invalid("the priority has to be 1 to 10, not %d", r.Priority)
	}
	if r.Priority > 0 {
		labels = append(labels, fmt.Sprintf("priority/%d", r.Priority))
	}
	skills, err := cm.skillLabels(r.Skills)
	if err != nil {
		return forge.Ref{}, err
	}
	labels = append(labels, skills...)
	blockers, err := cm.existing(repo, r.DependsOn)
	if err != nil {
		return forge.Ref{}, err
	}
	if len(blockers) == 0 {
		labels = append(labels, forge.LabelBacklog)
	}
	item, err := cm.file(forge.Draft{Repo: repo, Title: r.Title, Body: r.Body, Labels: labels})
	if err != nil {
		return item, control.NotNow("cannot start: %s", text(err))
	}
	for _, b := range blockers {
		if err == nil {
			err = cm.depend(item, b)
		}
	}
	if err == nil && len(blockers) > 0 {
		err = cm.label(item, []string{forge.LabelBacklog}, nil)
	}
	if err != nil {
		return item, control.NotNow("%s is filed, but not labelled backlog: %s", item, text(err))
	}
	return item, nil
}

// decideOn is a tick for one issue: it commits the start on any thread, and leaves the other starts to their
// threads' loops.
func (p *planner) decideOn(ctx context.Context, item forge.Ref) {
	p.scanner.scanNow(ctx)
	p.act(p.state.commit(item, time.Now(), p.room()))
}

// shown carries out a command on one item, and then lets the scheduler decide on the item with facts that show the
// command's writes: the person's next question is answered with them, and not with "waits for the next scan".
func (cm *commands) shown(
	do func(context.Context, control.ItemRequest, *control.Report) error,
) func(context.Context, control.ItemRequest, *control.Report) error {
	return func(ctx context.Context, r control.ItemRequest, report *control.Report) error {
		if err := do(ctx, r, report); err != nil {
			return err
		}
		if item, err := cm.item("", r.Ref); err == nil {
			ctx, cancel := context.WithTimeout(ctx, answerTime)
			defer cancel()
			cm.planner.decideOn(ctx, item)
		}
		return nil
	}
}

// reportSession reports a session, and returns false if it has ended.
func (cm *commands) reportSession(report *control.SlingReport, x *session) bool {
	if !cm.state.running(x.RunID) {
		return false
	}
	d := cm.state.show(x)
	report.Agent, report.Thread, report.Slot, report.State = control.Assigned(d.Agent), d.Thread, d.Slot, d.State
	return true
}

// reportWhy reports why no session is on the issue.
func (cm *commands) reportWhy(report *control.SlingReport, item forge.Ref) {
	ex, err := cm.explain(item)
	switch {
	case err != nil: // no scan shows the issue yet
		report.Code, report.Why = threads.StaleFacts, threads.Reason{Code: threads.StaleFacts}.Text()
	case ex.Code == "":
		report.Why = ex.Verdict
	default:
		report.Code, report.Why, report.Position = ex.Code, strings.TrimPrefix(ex.Verdict, "waits: "), ex.Position
	}
}
