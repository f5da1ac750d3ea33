package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// askPeople posts an agent's question or plan on the forge. The comment comes first, because the label means that it
// exists.
func (k *clerk) askPeople(c *chore) error {
	words, label := questionComment(c), forge.LabelNeedsAnswer
	c.said = c.dialogue.Agent + " asked people a question"
	var void []string
	if c.dialogue.Plan {
		words, label = planComment(c), forge.LabelPlanFirst
		c.said = c.dialogue.Agent + " asked people to approve its plan"
	}
	if c.dialogue.Split { // who approved earlier had another text before them, or none
		words, void = splitComment(c, k.state.books().PerMerge()), []string{forge.LabelPlanApproved}
	}
	if err := k.comment(c.ref, words); err != nil {
		return err
	}
	err := k.label(c.ref, []string{label}, void)
	return k.recordAfter(err, ledger.Record{Asked: &ledger.Asked{Ref: ledger.Ref(c.ref), Run: c.dialogue.Run}})
}

// recordAnswer journals the answer to a question or plan before it changes the label: once the question's label is off,
// the supervisor does not ask the forge for the comments any more.
func (k *clerk) recordAnswer(c *chore) error {
	c.said = c.mark.Reason.Text()
	k.state.record(ledger.Record{
		At: time.Now(), Answered: &ledger.Answered{
			Ref: ledger.Ref(c.ref), Comments: c.mark.Item.Comments, Approved: c.mark.Reason.Code == threads.PlanApproved,
		},
	})
	switch c.mark.Reason.Code {
	case threads.Answered:
		return k.label(c.ref, nil, []string{forge.LabelNeedsAnswer})
	case threads.PlanApproved:
		return k.labelApproved(c.ref)
	}
	return nil
}

func (k *clerk) labelPlanFirst(c *chore) error {
	c.said = "labelled plan-first, for " + c.mark.Reason.Note
	return k.label(c.ref, []string{forge.LabelPlanFirst}, nil)
}

// questionComment asks the person who filed the issue. The comment is written once for each session that asks.
func questionComment(c *chore) comment {
	who := "Those who may write to this repository can answer"
	if c.filers {
		who += ", and so can the person who filed the issue"
	}
	return comment{c.dialogue.Key(), fmt.Sprintf(
		"%s%s asks:\n\n%s\n\nPlease answer in a comment below; the agent then continues its work. %s. To have it continue "+
			"without an answer, remove the label `needs-answer`.",
		greeting(c.mark.Reason.Person), c.dialogue.Agent, fence(c.dialogue.Words), who)}
}

// planComment asks people to approve an agent's plan.
func planComment(c *chore) comment {
	return comment{c.dialogue.Key(), fmt.Sprintf("%s%s plans:\n\n%s\n\n%s",
		greeting(c.mark.Reason.Person), c.dialogue.Agent, fence(c.dialogue.Words), howToApprove)}
}
