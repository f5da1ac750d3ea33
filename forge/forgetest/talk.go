package forgetest

import (
	"slices"

	"codeberg.org/johba/disinto/forge"
)

func talkRules() []rule {
	return []rule{
		{Talk, "a scan shows a question, and the later comments of accounts that can answer", scanQuestion},
		{Talk, "a scan shows likes of a plan, although a like does not change the issue", scanPlan},
		{Talk, "a scan shows who labelled an issue plan-approved", scanApproval},
	}
}

// remarks lists the remarks on an item, each as its author and key.
func remarks(t *forge.Talk) (words []string) {
	for _, r := range t.Remarks {
		words = append(words, r.Author+" "+r.Key)
	}
	return words
}

func scanQuestion(w *world) {
	ref := w.file("asks")
	w.must("Comment", w.here.Comment(w.ctx, ref, "question-0", "before"))
	w.Say(w.colleague, ref, "an answer to it")
	same(w, "comments known without the label", w.issue(ref).Talk.Known, false)
	w.must("Comment", w.here.Comment(w.ctx, ref, "question-1", "which one?"))
	w.must("Label", w.here.Label(w.ctx, ref, []string{forge.LabelNeedsAnswer}, nil))
	w.must("Comment", w.here.Comment(w.ctx, ref, "told-1", "something else"))
	w.Say(w.human, ref, "from a person who may not write")
	w.Say(w.dev, ref, "from an agent")
	w.Say(w.colleague, ref, "/disinto why")
	w.Say(w.colleague, ref, "that one")
	w.tick()
	t := w.issue(ref).Talk
	same(w, "comments known", t.Known, true)
	equal(w, "remarks", remarks(&t), []string{w.boss + " question-1", w.colleague + " "})
	same(w, "the author of the answer can write", t.Remarks[1].Writer, true)

	pull, _ := w.work("asks-too", "")
	w.must("Label", w.here.Label(w.ctx, pull, []string{forge.LabelNeedsAnswer}, nil))
	w.must("Comment", w.here.Comment(w.ctx, pull, "question-2", "which one?"))
	w.Say(w.colleague, pull, "that one")
	w.tick()
	t = w.pull(pull).Talk
	equal(w, "remarks on a pull request", remarks(&t), []string{w.boss + " question-2", w.colleague + " "})
}

func scanPlan(w *world) {
	ref := w.file("plans", forge.LabelPlanFirst)
	w.must("Comment", w.here.Comment(w.ctx, ref, "plan-1", "first this"))
	w.tick()
	t := w.issue(ref).Talk
	equal(w, "remarks", remarks(&t), []string{w.boss + " plan-1"})
	equal(w, "likes", t.Remarks[0].Likes, nil)
	w.Tag(w.dev, ref, forge.LabelPlanApproved) // an agent's label is recorded, but only a person can approve
	w.tick()
	same(w, "who approved it", w.issue(ref).Talk.ApprovedBy, w.dev)
	for _, login := range []string{w.human, w.colleague} {
		w.Like(login, ref, t.Remarks[0].ID)
	}
	w.eventually("the plan shows the like of the writer only", func() bool {
		t := w.issue(ref).Talk
		return slices.Equal(t.Remarks[0].Likes, []string{w.colleague})
	})
}

func scanApproval(w *world) {
	ref := w.file("is approved", forge.LabelPlanFirst)
	for _, login := range []string{w.dev, w.colleague} {
		w.Tag(login, ref, forge.LabelPlanApproved)
		w.tick()
		same(w, "who approved it", w.issue(ref).Talk.ApprovedBy, login)
		w.must("Label", w.here.Label(w.ctx, ref, nil, []string{forge.LabelPlanApproved}))
		w.tick()
		same(w, "who approved it, once the label is removed", w.issue(ref).Talk.ApprovedBy, "")
	}
}
