package worlds

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

// This file has the comments of agents and people below issues and pull requests. It implements their rules
// independently of package threads: a question waits for an answer, and code for the approval of a plan.

// Limits of the design, restated here like those in invariants.go.
const (
	maxQuestions = 3
	maxPlans     = 5
)

// filer files every third issue, and may not write to the repository.
const filer = "fiona"

// talkOf returns the real comments below an item.
func (s *server) talkOf(ref forge.Ref) (talk *forge.Talk, updated *time.Time) {
	if is := s.issue(ref); is != nil {
		return &is.Talk, &is.Updated
	}
	p := s.pull(ref)
	return &p.Talk, &p.Updated
}

// comment adds a comment below an item. If key is not empty, the comment is ours, and is written only once.
func (s *server) comment(ref forge.Ref, author, key string) {
	talk, updated := s.talkOf(ref)
	if key != "" && slices.ContainsFunc(talk.Remarks, func(r forge.Remark) bool { return r.Key == key }) {
		return
	}
	s.said++
	writer := author != stranger && author != filer
	talk.Remarks = append(slices.Clone(talk.Remarks), forge.Remark{ID: s.said, Author: author, Writer: writer, Key: key})
	s.touch(updated)
}

// approve makes an account label an issue plan-approved.
func (s *server) approve(is *issue, login string) {
	is.Talk.ApprovedBy = login
	s.label(is, forge.LabelPlanApproved, "")
}

// speak returns the requests that post a question or plan: the comment, then the label.
func (s *server) speak(m threads.Mark) []func() error {
	d := s.w.shell.books.Chain(m.Ref).Dialogue
	label := forge.LabelNeedsAnswer
	if d.Plan {
		label = forge.LabelPlanFirst
	}
	return []func() error{
		func() error { s.comment(m.Ref, "boss", d.Key()); return nil },
		func() error {
			s.tag(m.Ref, label, "")
			if s.w.chance(0.7) {
				s.w.After(s.w.between(0, 20*time.Minute), func() { s.w.respond(m.Ref) })
			}
			return nil
		},
	}
}

// tag changes the labels of an issue or pull request.
func (s *server) tag(ref forge.Ref, add, remove string) {
	if is := s.issue(ref); is != nil {
		s.label(is, add, remove)
	} else {
		s.labelPull(s.pull(ref), add, remove)
	}
}

// heard returns the request that writes the label change for an answer.
func (s *server) heard(m threads.Mark) []func() error {
	return []func() error{func() error {
		switch is := s.issue(m.Ref); m.Reason.Code {
		case threads.Answered:
			s.tag(m.Ref, "", forge.LabelNeedsAnswer)
		case threads.PlanApproved:
			s.approve(is, "boss")
		}
		return nil
	}}
}

// respond makes an account answer a question or plan with a comment, a thumbs-up or a label. It does nothing once the
// world is calm.
func (w *world) respond(ref forge.Ref) {
	if w.calm {
		return
	}
	who := oneOf(w, "ada", "ada", "ada", filer, stranger, w.anyLogin(), w.cfg.Forge.Bots[0])
	talk, _ := w.forge.talkOf(ref)
	at := lastRemark(talk, func(r *forge.Remark) bool { return strings.HasPrefix(r.Key, forge.PlanKey) })
	is := w.forge.issue(ref)
	switch n := w.rng.IntN(10); {
	case n < 3 && at >= 0:
		w.log("people %s likes the plan of %s", who, ref)
		talk.Remarks = slices.Clone(talk.Remarks)
		if who != stranger && who != filer {
			talk.Remarks[at].Likes = sim.With(talk.Remarks[at].Likes, who)
		}
		w.forge.changed, w.forge.dirty = w.Now, true
	case n == 3 && is != nil && who != stranger && who != filer:
		w.log("people %s labels %s plan-approved", who, ref)
		w.forge.approve(is, who)
	case n == 4:
		w.log("people take needs-answer off %s", ref)
		w.forge.tag(ref, "", forge.LabelNeedsAnswer)
	case n == 5 && len(talk.Remarks) > 0:
		w.log("people delete a comment of %s", ref)
		_, updated := w.forge.talkOf(ref)
		gone := w.rng.IntN(len(talk.Remarks))
		talk.Remarks = slices.Delete(slices.Clone(talk.Remarks), gone, gone+1)
		w.forge.touch(updated)
	default:
		w.log("people %s says something below %s", who, ref)
		w.forge.comment(ref, who, "")
	}
	if w.shell.hooked {
		w.shell.kick()
	}
}

// converse makes people comment below an item that waits for them, ask for a plan, or approve without one.
func (w *world) converse(r *repo) {
	if w.mood.curious == 0 {
		return
	}
	waits := func(labels []string) bool {
		return slices.Contains(labels, forge.LabelNeedsAnswer) || slices.Contains(labels, forge.LabelPlanFirst)
	}
	if p := w.aPull(r, func(p *pull) bool { return waits(p.Labels) }); p != nil {
		w.respond(p.Ref)
	}
	if is := w.anIssue(r, func(is *issue) bool { return open(is) && waits(is.Labels) }); is != nil {
		w.respond(is.Ref)
		return
	}
	is := w.anIssue(r, open)
	switch {
	case is == nil:
	case w.chance(0.7):
		w.log("people want a plan of %s", is.Ref)
		w.forge.label(is, forge.LabelPlanFirst, "")
	case w.chance(0.5):
		w.forge.approve(is, oneOf(w, "ada", w.anyLogin()))
	default:
		w.log("people label %s needs-answer", is.Ref)
		w.forge.label(is, forge.LabelNeedsAnswer, "")
	}
}

// plan is the work of a session that must post a plan. Some sessions write code instead, or in addition, and some of
// these remove the label that holds back the code.
func (w *world) plan(r *run, f *fate) {
	f.out = agents.Outcome{Result: agents.Planned, Reason: "first this", Words: "First this.", Claimed: true}
	if !w.trouble(0.2) {
		return
	}
	is, login := w.forge.issue(r.Item.Ref), w.logins[r.Agent]
	p := w.forge.open(w.forge.repo(is.Repo), login, true, is.Ref)
	w.log("agent  %s must plan, but opens %s", r.Agent, p.Ref)
	if w.chance(0.5) {
		f.out = agents.Outcome{Result: agents.Done}
	}
	if w.chance(0.5) {
		w.log("agent  %s takes plan-first off %s", r.Agent, is.Ref)
		w.forge.label(is, "", forge.LabelPlanFirst)
	}
}

// readTalk reads the comments below an item if its labels require that. It is a separate request that may fail.
func (sc *scanner) readTalk(labels []string, real *forge.Talk, got *forge.Talk, issue bool) {
	*got = forge.Talk{}
	reads := slices.Contains(labels, forge.LabelNeedsAnswer) || issue &&
		(slices.Contains(labels, forge.LabelPlanFirst) || slices.Contains(labels, forge.LabelPlanApproved))
	if !reads || sc.cold && sc.w.chance(0.5) || sc.w.trouble(0.03) {
		return
	}
	got.Known, got.Remarks = true, forge.Relevant(real.Remarks)
	if slices.Contains(labels, forge.LabelPlanApproved) {
		got.ApprovedBy = real.ApprovedBy
	}
}

// lastRemark returns the index of the last remark that fits, or -1.
func lastRemark(t *forge.Talk, fits func(*forge.Remark) bool) int {
	for i := len(t.Remarks) - 1; i >= 0; i-- {
		if fits(&t.Remarks[i]) {
			return i
		}
	}
	return -1
}

// cleared reports whether a person approved the work on an issue.
func (w *world) cleared(is *forge.Issue) bool {
	by := is.Talk.ApprovedBy
	return is.Has(forge.LabelPlanApproved) && by != "" && !w.ours(by) && !w.bot(by)
}

// mustPlan reports whether an issue needs a plan: its label or a role that may take it requires one, or an agent has
// planned it. That agent may have removed the label.
func (w *world) mustPlan(is *forge.Issue) bool {
	return is.Has(forge.LabelPlanFirst) || w.planner(is) != nil || w.begunToPlan(is.Ref)
}

// begunToPlan reports whether an agent has planned the issue since a person's last retry.
func (w *world) begunToPlan(ref forge.Ref) bool { return w.shell.books.Chain(ref).Planner != "" }

func (w *world) planner(is *forge.Issue) *agents.Role {
	i := slices.IndexFunc(w.cfg.Roles, func(r agents.Role) bool { return r.Plan && (r.Label == "" || is.Has(r.Label)) })
	if i < 0 {
		return nil
	}
	return &w.cfg.Roles[i]
}

// uncleared reports whether an issue needs a plan and has no approval.
func (s *server) uncleared(is *issue) bool { return s.w.mustPlan(&is.Issue) && !s.w.cleared(&is.Issue) }

// unplannedPull reports whether the issue of our pull request waits for the approval of a plan.
func (s *server) unplannedPull(p *pull) bool {
	is := s.issue(home(&p.Pull))
	return is != nil && !is.Closed && s.w.ours(p.Author) && !s.w.cleared(&is.Issue) &&
		(is.Has(forge.LabelPlanFirst) || s.w.begunToPlan(is.Ref))
}
