package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/plan"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// tie is a dependency to write: on blocks item.
type tie struct{ item, on forge.Ref }

// making is a convoy under construction.
type making struct {
	draft   forge.Draft
	members []forge.Ref // in the request's order
	filed   []forge.Ref // the members that this request filed
	ties    []tie
}

// create creates a tracking issue that depends on its members. It assigns no agent: the ticks start the members as
// they become ready. It refuses dependency cycles of any length and unsuitable members before it writes anything.
// Nothing starts before the last dependency is written.
func (v *convoys) create(ctx context.Context, r control.ConvoyRequest, report *control.Report) (err error) {
	var m *making
	switch {
	case (r.Plan == nil) == (len(r.Members) == 0):
		err = control.Invalid("cannot make a convoy: give either its members or a plan")
	case r.Plan != nil:
		m, err = v.fromPlan(&r)
	default:
		m, err = v.fromMembers(&r)
	}
	if err != nil {
		return err
	}
	convoy, err := v.assemble(m, r.Staged)
	if err != nil {
		return control.NotNow("cannot make the convoy: %s%s", text(err), m.left(convoy))
	}
	v.scanner.awaitShown(ctx)
	report.Subject = convoy.String()
	report.Add("convoy of %d made", len(m.members))
	if len(m.filed) > 0 {
		report.Add("filed %s", mention(convoy.Repo, m.filed))
	}
	if r.Staged {
		report.Note = "staged: nothing starts until disinto batch start " + called(&r, convoy)
	}
	return nil
}

// called returns a convoy's reference as the person would write it.
func called(r *control.ConvoyRequest, convoy forge.Ref) string {
	if r.Repo == "" {
		return fmt.Sprint(convoy.Number)
	}
	return convoy.String()
}

// left describes the leftovers of an unfinished convoy on the forge. None of them starts, and a person can remove
// them.
func (m *making) left(convoy forge.Ref) string {
	switch {
	case !convoy.IsZero():
		return fmt.Sprintf("; %s is there, incomplete and staged: clear it away with disinto batch cancel --close %s",
			convoy, convoy)
	case len(m.filed) > 0:
		return fmt.Sprintf("; %s are filed and start nothing: close them", mention("", m.filed))
	}
	return ""
}

// fromMembers validates a convoy of existing issues.
func (v *convoys) fromMembers(r *control.ConvoyRequest) (*making, error) {
	m := &making{draft: forge.Draft{Title: r.Title, Body: r.Body}}
	if strings.TrimSpace(r.Title) == "" {
		return nil, control.Invalid("cannot make a convoy without a title: set --title")
	}
	for _, said := range r.Members {
		t, err := v.find("take", r.Repo, said)
		if err != nil {
			return nil, err
		}
		if slices.Contains(m.members, t.Ref) {
			return nil, control.Invalid("cannot make a convoy: %s is named twice", t.Ref)
		}
		if why := unfit(t); why != "" {
			return nil, control.Conflict("cannot take %s into a convoy: %s", t.Ref, why)
		}
		if n := len(m.members); r.Chain && n > 0 {
			m.ties = append(m.ties, tie{t.Ref, m.members[n-1]})
		}
		m.members = append(m.members, t.Ref)
	}
	repo, err := v.repository(r.Repo)
	switch {
	case err != nil && r.Repo != "":
		return nil, err
	case err != nil:
		repo = m.members[0].Repo
	}
	m.draft.Repo = repo
	return m, v.refuseCycle(m)
}

// unfit returns why an issue cannot be a member; "" if it can.
func unfit(t *target) string {
	switch {
	case t.closed:
		return "it is closed"
	case t.has(forge.LabelCancelled):
		return "it is cancelled"
	case t.has(forge.LabelConvoy):
		return "it is a convoy itself"
	}
	return ""
}

// mostWalked bounds the number of issues whose dependencies are read, so that a large graph does not take minutes.
const mostWalked = 500

// refuseCycle reads all dependencies of the members from the forge, and refuses a cycle: its issues would never start.
// The forge itself refuses only cycles of two.
func (v *convoys) refuseCycle(m *making) error {
	waits := make(map[forge.Ref][]forge.Ref)
	for _, t := range m.ties {
		waits[t.item] = append(waits[t.item], t.on)
	}
	queue := slices.Clone(m.members)
	seen := make(map[forge.Ref]bool)
	for len(queue) > 0 && len(seen) < mostWalked {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		blockers, err := v.blockers(at)
		if err != nil {
			return notDone("take", at, err)
		}
		for _, b := range blockers {
			if b.State == forge.BlockerOpen {
				waits[at] = append(waits[at], b.Ref)
				queue = append(queue, b.Ref)
			}
		}
	}
	if circle := threads.Circle(waits); circle != nil {
		return control.Conflict("cannot make the convoy, issues would wait for each other: %s",
			strings.Join(mentions(m.draft.Repo, circle), " -> "))
	}
	return nil
}

// fromPlan validates a plan, and files its tasks.
func (v *convoys) fromPlan(r *control.ConvoyRequest) (*making, error) {
	p := r.Plan
	if err := p.Check(); err != nil {
		return nil, control.Invalid("%s", text(err))
	}
	if r.Chain {
		return nil, control.Invalid("cannot chain a plan: it states its own dependencies")
	}
	home, err := v.repository(cmp.Or(r.Repo, p.Repo))
	if err != nil {
		return nil, err
	}
	m := &making{draft: forge.Draft{Repo: home, Title: cmp.Or(r.Title, p.Title), Body: cmp.Or(r.Body, p.Body)}}
	repos, needed := make([]string, len(p.Tasks)), make([][]forge.Ref, len(p.Tasks))
	for i := range p.Tasks {
		if repos[i], err = v.repository(cmp.Or(p.Tasks[i].Repo, home)); err != nil {
			return nil, err
		}
		_, issues := p.Needs(i, repos[i])
		if needed[i], err = v.existing(repos[i], mentions("", issues)); err != nil {
			return nil, err
		}
	}
	err = v.fileTasks(m, p, needed, func(i int) forge.Draft {
		t := &p.Tasks[i]
		return forge.Draft{Repo: repos[i], Title: t.Title, Body: t.Body, Labels: t.AllLabels()}
	})
	if err != nil {
		return nil, control.NotNow("cannot make the convoy: %s%s", text(err), m.left(forge.Ref{}))
	}
	return m, nil
}

// fileTasks files the tasks without backlog, so that none starts yet.
func (c *core) fileTasks(m *making, p *plan.Plan, needed [][]forge.Ref, draft func(i int) forge.Draft) error {
	refs := make([]forge.Ref, len(p.Tasks))
	for _, i := range p.Order() {
		ref, err := c.file(draft(i))
		if err != nil {
			return err
		}
		refs[i] = ref
		m.members, m.filed = append(m.members, ref), append(m.filed, ref)
		tasks, _ := p.Needs(i, m.draft.Repo)
		for _, need := range tasks {
			m.ties = append(m.ties, tie{ref, refs[need]})
		}
		for _, on := range needed[i] {
			m.ties = append(m.ties, tie{ref, on})
		}
	}
	return nil
}

// assemble writes the dependencies of the members, files the tracking issue, makes it depend on them, and only then
// adds backlog to the members. The tracking issue is staged until all of that is written, so that a scan in between
// does not take it for a convoy of fewer members.
func (v *convoys) assemble(m *making, staged bool) (convoy forge.Ref, err error) {
	convoy, err = v.tie(m, func() (forge.Ref, error) {
		m.draft.Labels = []string{forge.LabelConvoy, forge.LabelStaged}
		m.draft.Body = trackingText(m)
		return v.file(m.draft)
	})
	if err != nil {
		return convoy, err
	}
	write := v.state.beginWrite(convoy)
	if !staged {
		err = v.label(convoy, nil, []string{forge.LabelStaged})
	}
	v.kicks.all(write.end())
	return convoy, err
}

// tie writes the dependencies of the members, stages the convoy, makes it depend on them, and adds backlog to them. It
// may be repeated where stage may.
func (c *core) tie(m *making, stage func() (forge.Ref, error)) (convoy forge.Ref, err error) {
	for _, t := range m.ties {
		if err := c.depend(t.item, t.on); err != nil {
			return convoy, err
		}
	}
	if convoy, err = stage(); err != nil {
		return convoy, err
	}
	for _, ref := range m.members {
		if err := c.depend(convoy, ref); err != nil {
			return convoy, err
		}
	}
	for _, ref := range m.members {
		if err := c.addBacklog(ref); err != nil {
			return convoy, err
		}
	}
	return convoy, nil
}

// trackingText returns the text of the tracking issue. It contains no titles: the forge shows them beside the numbers,
// and a title might read as a dependency.
func trackingText(m *making) string {
	var b strings.Builder
	if body := strings.TrimSpace(m.draft.Body); body != "" {
		b.WriteString(body + "\n\n")
	}
	b.WriteString("## Members\n\n")
	for _, ref := range m.members {
		fmt.Fprintf(&b, "- [ ] %s\n", nameIn(m.draft.Repo, ref))
	}
	return b.String()
}
