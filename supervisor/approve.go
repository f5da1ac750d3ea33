package supervisor

import (
	"context"
	"fmt"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// approve approves an issue's plan, as a person's thumbs-up does, and the work continues. Before a plan is
// written, the approval means that no plan is needed. The command may be repeated.
func (cm *commands) approve(_ context.Context, r control.ItemRequest, report *control.Report) error {
	t, err := cm.find("approve", "", r.Ref)
	if err != nil {
		return err
	}
	if t.pull {
		return control.Conflict("cannot approve %s: it is a pull request, and a plan belongs to an issue", t.Ref)
	}
	if t.closed {
		return control.Conflict("cannot approve %s: it is closed, reopen it", t.Ref)
	}
	past := cm.state.chain(t.Ref)
	d := past.Dialogue
	if t.has(forge.LabelSplitFirst) && (d == nil || !d.Split || !d.Answered.IsZero() && !d.Filing()) {
		return control.Conflict("cannot approve %s: its split is not written yet", t.Ref)
	}
	if !t.has(forge.LabelPlanFirst) && past.Planner == "" { // an agent may have removed the label
		return control.Conflict("cannot approve %s: it needs no plan; the label plan-first asks for one", t.Ref)
	}
	report.Subject = t.String()
	write := cm.state.beginWrite(t.Ref)
	err = cm.clerk.labelApproved(t.Ref)
	cm.kicks.all(write.end())
	cm.touchStatus()
	if err != nil {
		return notDone("approve", t.Ref, err)
	}
	report.Add("plan approved")
	cm.log.Info(fmt.Sprintf("[%s] plan approved by hand", wordsOf(cm.state.config(), t.Ref, "")))
	return nil
}

// labelApproved labels an issue plan-approved in the supervisor's name. It removes the label first, because an agent
// may have set it, and an agent's label does not count.
func (k *clerk) labelApproved(ref forge.Ref) error {
	if err := k.label(ref, nil, []string{forge.LabelPlanApproved}); err != nil {
		return err
	}
	return k.label(ref, []string{forge.LabelPlanApproved}, nil)
}
