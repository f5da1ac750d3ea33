package threads

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// The most questions and plans on an item since a person's last retry: each costs a session and a person's time. One
// more counts as a refusal.
const (
	MaxQuestions = 3
	MaxPlans     = 5
)

// Dialogue is an agent's last question or plan, which people answer. It is dropped when the work is done.
type Dialogue struct {
	Plan     bool      `json:"plan,omitempty"`  // false for a question
	Split    bool      `json:"split,omitempty"` // of a plan: of issues into which the issue is split, as Words
	Run      string    `json:"run,omitempty"`   // the session; empty where only the forge shows the dialogue
	Agent    string    `json:"agent,omitempty"`
	Words    string    `json:"words,omitempty"` // the text, until people answer
	At       time.Time `json:"at,omitzero"`
	Asked    bool      `json:"asked,omitempty"` // the comment and the label are written
	Answered time.Time `json:"answered,omitzero"`
	Approved bool      `json:"approved,omitempty"` // of a split: a person approved it, and its issues are to be filed
	Comments []int64   `json:"comments,omitempty"` // the question or plan, and its answers
}

// Key returns the key of the comment with the question or plan.
func (d *Dialogue) Key() string {
	if d.Plan {
		return forge.PlanKey + d.Run
	}
	return forge.QuestionKey + d.Run
}

// open reports whether the dialogue still waits for people.
func (d *Dialogue) open() bool { return d != nil && d.Answered.IsZero() }

// Filing reports whether people approved a split whose issues are not all filed yet.
func (d *Dialogue) Filing() bool { return d != nil && d.Split && d.Approved }

// noteMax bounds the quoted words of a reason, in runes.
const noteMax = 200

// line returns the start of the words, on one line.
func (d *Dialogue) line() string { return Clip(strings.Join(strings.Fields(d.Words), " "), noteMax) }

// dialogue returns the item's last question or plan; nil without one.
func (v *view) dialogue(w *work) *Dialogue { return w.past.Dialogue }

// talk returns the comments on the item that were read.
func (w *work) talk() *forge.Talk {
	if w.issue != nil {
		return &w.issue.Talk
	}
	return &w.pull.Talk
}

// needsAnswer holds an item whose question waits for people.
func needsAnswer(v *view, w *work) *Reason {
	d := v.dialogue(w)
	asks := d.open() && !d.Plan
	if !asks && !w.has(forge.LabelNeedsAnswer) {
		return nil
	}
	why := &Reason{Code: NeedsAnswer, Person: v.filer(w)}
	if asks {
		why.Agent, why.Note, why.Until = d.Agent, d.line(), d.At
	}
	return why
}

// filer returns the person who filed the item's issue, or who opened its pull request where no issue is known. It is
// empty for an agent.
func (v *view) filer(w *work) string {
	is := w.issue
	if is == nil {
		is = v.Facts.Issue(w.Chain)
	}
	login := ""
	switch {
	case is != nil:
		login = is.Author
	case w.pull != nil:
		login = w.pull.Author
	}
	if v.isAgent(login) {
		return ""
	}
	return login
}

// approved reports whether a person approved the plan of an issue, or decided that it needs none. A label that an
// agent set does not count.
func (v *view) approved(is *forge.Issue) bool {
	by := is.Talk.ApprovedBy
	return is.Has(forge.LabelPlanApproved) && is.Talk.Known && by != "" && !v.isAgent(by)
}

// unplanned reports whether an issue needs a plan that people approve, and has none yet. Once an agent was asked for
// a plan, the label no longer counts, because that agent can remove it.
func (v *view) unplanned(is *forge.Issue, past *ChainHistory) bool {
	return (is.Has(forge.LabelPlanFirst) || toSplit(is, past) || past.Planner != "") && !v.cleared(is, past)
}

// toSplit reports whether the plan of an issue is one of issues into which it is split. The agent that wrote it can
// remove the label.
func toSplit(is *forge.Issue, past *ChainHistory) bool {
	return is.Has(forge.LabelSplitFirst) || past.Dialogue != nil && past.Dialogue.Split
}

// cleared reports whether a person's approval of an issue's plan counts. That of a split counts once it is recorded:
// what a label approves must have been there to be read.
func (v *view) cleared(is *forge.Issue, past *ChainHistory) bool {
	if toSplit(is, past) {
		return past.Dialogue.Filing()
	}
	return v.approved(is)
}

// splits holds an issue whose split is being filed, and one that is part of a batch: a batch in a batch would never
// close in order.
func splits(v *view, w *work) *Reason {
	if v.dialogue(w).Filing() {
		return &Reason{Code: Splitting}
	}
	if !w.has(forge.LabelSplitFirst) {
		return nil
	}
	for i := range v.Facts.Issues {
		c := &v.Facts.Issues[i]
		member := func(b forge.Blocker) bool { return b.Ref == w.Ref }
		if !c.Closed && c.Has(forge.LabelConvoy) && slices.ContainsFunc(c.Blockers, member) {
			return &Reason{Code: SplitRefused, Refs: []forge.Ref{c.Ref}}
		}
	}
	return nil
}

// planHolds holds an issue whose plan waits, or whose split is under way.
func planHolds(v *view, w *work) *Reason {
	if why := splits(v, w); why != nil {
		return why
	}
	return planWaits(v, w)
}

func splitTwice(v *view, w *work) *Reason {
	if w.issue == nil || !w.queued {
		return nil
	}
	if why := splits(v, w); why != nil && why.Code == SplitRefused {
		return why
	}
	return nil
}

// markSplit files what was approved, whatever the labels show: a crash may have left them half written.
func markSplit(d *decision, w *work) *Mark {
	if w.issue == nil || !d.dialogue(w).Filing() || w.has(forge.LabelCancelled) || len(w.sessions) > 0 {
		return nil
	}
	return &Mark{Action: ActSplit, Ref: w.Ref, Reason: Reason{Code: Splitting}}
}

func talkUnread(_ *view, w *work) *Reason {
	wants := w.has(forge.LabelPlanFirst) || w.has(forge.LabelPlanApproved)
	return when(wants && !w.talk().Known, TalkUnread)
}

// planWaits holds an issue whose plan waits for people.
func planWaits(v *view, w *work) *Reason {
	d := v.dialogue(w)
	written := d.open() && d.Plan
	labelled := w.has(forge.LabelPlanFirst) && !v.cleared(w.issue, w.past) // else see planUnlabelled
	if !labelled && !(written && !d.Asked) {
		return nil
	}
	if !written {
		at := v.planAt(w)
		if at < 0 || v.likedBy(w, at) == "" && len(v.repliesTo(w, at)) > 0 {
			return nil // the first plan is due, or the next one
		}
	}
	why := &Reason{Code: PlanWaits, Person: v.filer(w)}
	if written {
		why.Agent, why.Until = d.Agent, d.At
	}
	return why
}

// planUnlabelled holds an issue that a role with plan may take, or that an agent was asked to plan, until it carries
// plan-first. From then on the forge shows everything that counts.
func planUnlabelled(v *view, w *work) *Reason {
	if w.has(forge.LabelPlanFirst) || v.cleared(w.issue, w.past) {
		return nil
	}
	if toSplit(w.issue, w.past) {
		return &Reason{Code: PlanUnlabelled, Note: forge.LabelSplitFirst}
	}
	if planner := w.past.Planner; planner != "" {
		return &Reason{Code: PlanUnlabelled, Note: planner}
	}
	if !v.plans {
		return nil
	}
	labels := v.filterLabels(w)
	for i := range v.Config.Roles {
		if r := &v.Config.Roles[i]; r.Plan && takes(r, labels) {
			return &Reason{Code: PlanUnlabelled, Note: r.Name}
		}
	}
	return nil
}

// unplannedPull holds our pull request for an issue whose plan is not approved: a session that should have written
// the plan wrote code.
func unplannedPull(v *view, w *work) *Reason {
	is := v.Facts.Issue(w.Chain)
	if !w.stage.own || is == nil || is.Closed || !v.unplanned(is, v.History.Chain(is.Ref)) {
		return nil
	}
	return &Reason{Code: NoPlan, Refs: []forge.Ref{is.Ref}}
}

// planAt returns the index of the last plan among the remarks; -1 without one. If we remember an open plan, only that
// one counts: when its comment was deleted, an older plan does not take its place.
func (v *view) planAt(w *work) int {
	if d := v.dialogue(w); d.open() && d.Plan {
		return lastKey(w.talk(), d.Key())
	}
	return lastKey(w.talk(), forge.PlanKey)
}

// questionAt returns the index of the last question in the same way.
func (v *view) questionAt(w *work) int {
	if d := v.dialogue(w); d.open() && !d.Plan && d.Run != "" {
		return lastKey(w.talk(), d.Key())
	}
	return lastKey(w.talk(), forge.QuestionKey)
}

// lastKey returns the index of the last remark whose key has this prefix; -1 without one.
func lastKey(t *forge.Talk, key string) int {
	for i := len(t.Remarks) - 1; i >= 0; i-- {
		if strings.HasPrefix(t.Remarks[i].Key, key) {
			return i
		}
	}
	return -1
}

// repliesTo returns the answers to one of our remarks: later remarks of accounts with write access and, to questions
// only, of the person who filed the issue if the configuration says so. Agents answer nothing.
func (v *view) repliesTo(w *work, at int) (replies []forge.Remark) {
	all := w.talk().Remarks
	filers := v.Config.Forge.AnswersAuthor && strings.HasPrefix(all[at].Key, forge.QuestionKey)
	for _, r := range all[at+1:] {
		counts := r.Writer || filers && r.Author != "" && r.Author == v.filer(w)
		if r.Key == "" && counts && !v.isAgent(r.Author) {
			replies = append(replies, r)
		}
	}
	return replies
}

// withReplies returns the IDs of one of our remarks and of its answers.
func (v *view) withReplies(w *work, at int) []int64 {
	ids := []int64{w.talk().Remarks[at].ID}
	for _, r := range v.repliesTo(w, at) {
		ids = append(ids, r.ID)
	}
	return ids
}

// about returns the IDs of the comments that a session on the item has to read.
func (v *view) about(w *work) []int64 {
	var ids []int64
	if d := v.dialogue(w); d != nil {
		ids = slices.Clone(d.Comments)
	}
	if at := lastKey(w.talk(), forge.PlanKey); at >= 0 {
		ids = append(ids, v.withReplies(w, at)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// planning gives the issue's next session its cause if it has to write a plan.
func (v *view) planning(w *work) {
	if v.unplanned(w.issue, w.past) {
		w.Cause = CausePlan
		if toSplit(w.issue, w.past) {
			w.Cause = CauseSplit
		}
	}
}

// reply returns how people answered the last question or plan, and the comments; nil without an answer.
func (v *view) reply(w *work) (why *Reason, comments []int64) {
	d := v.dialogue(w)
	switch {
	case d != nil && !d.Asked:
		return nil, nil
	case w.has(forge.LabelNeedsAnswer):
		return v.replyToQuestion(w)
	case d.open() && !d.Plan: // a person removed the label, which is an answer too
		return &Reason{Code: Answered}, nil
	case w.issue != nil:
		return v.replyToPlan(w)
	}
	return nil, nil
}

func (v *view) replyToQuestion(w *work) (*Reason, []int64) {
	at := v.questionAt(w)
	if !w.talk().Known || at < 0 {
		return nil, nil
	}
	replies := v.repliesTo(w, at)
	if len(replies) == 0 {
		return nil, nil
	}
	return &Reason{Code: Answered, Person: replies[0].Author}, v.withReplies(w, at)
}

// replyToPlan prefers a thumbs-up to comments: the person who gave it wants the plan carried out.
func (v *view) replyToPlan(w *work) (*Reason, []int64) {
	d, at := v.dialogue(w), v.planAt(w)
	if !v.unplanned(w.issue, w.past) || !w.talk().Known || at < 0 {
		return nil, nil
	}
	split, person := toSplit(w.issue, w.past), v.likedBy(w, at)
	if split && person == "" && v.approved(w.issue) {
		person = w.talk().ApprovedBy
	}
	if person != "" && (!split || d.open() && d.Split) { // only the supervisor that has a split's words can file it
		return &Reason{Code: PlanApproved, Person: person}, v.withReplies(w, at)
	}
	replies := v.repliesTo(w, at)
	if len(replies) == 0 || !d.open() || !d.Plan {
		return nil, nil
	}
	return &Reason{Code: PlanReturned, Person: replies[0].Author}, v.withReplies(w, at)
}

// likedBy returns a person who gave a plan a thumbs-up; empty without one.
func (v *view) likedBy(w *work, at int) string {
	likes := w.talk().Remarks[at].Likes
	i := slices.IndexFunc(likes, func(login string) bool { return !v.isAgent(login) })
	if i < 0 {
		return ""
	}
	return likes[i]
}

// asks returns the reason for a question or plan that is not on the forge yet, or whose comment was deleted.
func asks(v *view, w *work) *Reason {
	d := v.dialogue(w)
	if !d.open() || d.Asked && !v.deleted(w, d) {
		return nil
	}
	if d.Plan {
		return planWaits(v, w)
	}
	return needsAnswer(v, w)
}

// deleted reports whether the comment of a dialogue was deleted while its label shows that it still waits.
func (v *view) deleted(w *work, d *Dialogue) bool {
	label := forge.LabelNeedsAnswer
	if d.Plan {
		label = forge.LabelPlanFirst
	}
	return w.has(label) && w.talk().Known && lastKey(w.talk(), d.Key()) < 0
}

// markReply records the answer, and the label that it implies.
func markReply(d *decision, w *work) *Mark {
	why, comments := d.reply(w)
	if why == nil {
		return nil
	}
	m := &Mark{Action: ActAnswered, Ref: w.Ref, Item: w.Item, Reason: *why}
	m.Item.Comments = comments
	return m
}

// markPlanFirst labels an issue that could start, except for its plan.
func markPlanFirst(d *decision, w *work) *Mark {
	if w.issue == nil || planUnlabelled(d.view, w) == nil {
		return nil
	}
	why := d.objection(w)
	if why.Code != PlanUnlabelled {
		return nil
	}
	return &Mark{Action: ActPlanFirst, Ref: w.Ref, Reason: *why}
}
