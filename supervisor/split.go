package supervisor

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/plan"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// usable takes the words from a session's plan of a split if they cannot be filed as they are, and says why.
func (rn *sessionRunner) usable(x *session, out agents.Outcome) agents.Outcome {
	if out.Result != agents.Planned || x.Item.Cause != threads.CauseSplit {
		return out
	}
	p, err := plan.ParseSplit(out.Words, x.Item.Ref)
	if err != nil {
		p.Tasks = nil
	}
	for i := range p.Tasks {
		_, issues := p.Needs(i, x.Item.Ref.Repo)
		for _, on := range issues {
			if _, missing := rn.fetchItem(on, time.Now()); errors.Is(missing, forge.ErrNotFound) {
				err = errors.Join(err, fmt.Errorf("split.md: task %s depends on %s, which does not exist", p.Called(i), on))
			}
		}
	}
	if err != nil {
		out.Words, out.Reason = "", plan.Lines(err)
	}
	return out
}

// split files the issues of an approved split, and makes the issue their convoy. Every step may be repeated: a kill at
// any moment, or a second approval, files none twice, because each draft has a key of the plan and the task. Nothing
// starts before the last of them is there, because the convoy is staged until then.
func (k *clerk) split(c *chore) error {
	d := &c.dialogue
	p, err := plan.ParseSplit(d.Words, c.ref)
	if err != nil {
		return fmt.Errorf("%w: %s", forge.ErrConflict, plan.Lines(err))
	}
	m := &making{draft: forge.Draft{Repo: c.ref.Repo}}
	needed := make([][]forge.Ref, len(p.Tasks))
	for i := range p.Tasks {
		_, needed[i] = p.Needs(i, c.ref.Repo)
	}
	roles, key := k.roleLabelsOf(c.ref), splitKey(c)
	err = k.fileTasks(m, &p, needed, func(i int) forge.Draft {
		t := &p.Tasks[i]
		return forge.Draft{
			Repo: c.ref.Repo, Title: inert(t.Title), Body: childText(c.ref, t.Body),
			Labels: append(t.AllLabels(), roles...), Key: fmt.Sprintf("%s/%d", key, i+1), Since: d.At.Add(-24 * time.Hour),
		}
	})
	if err != nil {
		return err
	}
	_, err = k.tie(m, func() (forge.Ref, error) {
		return c.ref, k.label(c.ref, []string{forge.LabelConvoy, forge.LabelStaged}, nil)
	})
	if err != nil {
		return err
	}
	c.said = "split into " + mention(c.ref.Repo, m.members)
	err = k.label(c.ref, nil, []string{
		forge.LabelStaged, forge.LabelSplitFirst, forge.LabelPlanFirst, forge.LabelPlanApproved,
	})
	return k.recordAfter(err, ledger.Record{Answered: &ledger.Answered{Ref: ledger.Ref(c.ref), Filed: true}})
}

// splitKey names the plan of a split: two plans with the same words, of two issues or two sessions, differ.
func splitKey(c *chore) string {
	sum := sha256.Sum256([]byte(c.ref.String() + "\n" + c.dialogue.Run + "\n" + c.dialogue.Words))
	return fmt.Sprintf("split-%x", sum[:8])
}

// roleLabelsOf returns the labels of an issue that route it to a role. Its parts go the same way.
func (k *clerk) roleLabelsOf(ref forge.Ref) (labels []string) {
	is, _ := k.state.issue(ref)
	config := k.state.config()
	for i := range config.Roles {
		if l := config.Roles[i].Label; is != nil && l != "" && is.Has(l) {
			labels = append(labels, l)
		}
	}
	return labels
}

// childText is the text of an issue that a split files. An agent's words are quoted: they mention, close and delay
// nothing.
func childText(of forge.Ref, words string) string {
	text := "Part of " + of.Short() + "."
	if strings.TrimSpace(words) != "" {
		text += "\n\n" + fence(words)
	}
	return text
}

// effects matches what a forge acts on in a title: @name, #12, !12, and addresses, which can name an issue.
var effects = regexp.MustCompile(`[@#!]+\w|://`)

// inert returns a title in which nothing has an effect, with a space where it would begin: "fixes # 1".
func inert(title string) string {
	title = effects.ReplaceAllStringFunc(title, func(found string) string {
		return found[:len(found)-1] + " " + found[len(found)-1:]
	})
	return strings.ToValidUTF8(title[:min(len(title), plan.MaxTitle)], "")
}
