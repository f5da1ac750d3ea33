package sim

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// mark carries out a mark, and makes people respond to it.
func (tr *trial) mark(m *threads.Mark) {
	t := tr.issue(m.Ref)
	if t == nil {
		return
	}
	switch m.Action {
	case threads.ActRoute:
		tr.assign(t, m.Agent)
	case threads.ActNeedsHuman: // a person reads it, and sends it back
		tr.tag(t, m, forge.LabelNeedsHuman)
	case threads.ActBlocked:
		tr.tag(t, m, forge.LabelBlocked)
	case threads.ActAsk:
		tr.askPeople(t, m)
	case threads.ActPlanFirst:
		tr.label(t, forge.LabelPlanFirst, "")
		tr.change()
	case threads.ActSplit: // nobody knows the issues yet
		tr.label(t, forge.LabelConvoy, "")
		tr.record(ledger.Record{Answered: &ledger.Answered{Ref: ledger.Ref(m.Ref), Filed: true}})
		tr.change()
	case threads.ActTell:
		tr.record(RecordOf(m))
	case threads.ActRelease, threads.ActUnlabel:
		tr.record(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(m.Ref)}})
		tr.unclaim(&trialRun{issue: t, Session: threads.Session{Item: threads.Item{Kind: kindOf(t, m.Ref)}}})
		tr.change()
	}
}

func kindOf(t *trialIssue, ref forge.Ref) agents.Kind {
	if t.Issue.Ref == ref {
		return agents.KindIssue
	}
	return agents.KindReview
}

// tag writes a label that asks for a person, who removes it some time later.
func (tr *trial) tag(t *trialIssue, m *threads.Mark, label string) {
	tr.record(RecordOf(m))
	set := func(add, remove string) {
		if t.Issue.Ref == m.Ref {
			tr.label(t, add, remove)
		} else if t.pull != nil {
			t.pull.Labels = With(Without(t.pull.Labels, remove), add)
		}
	}
	if tr.Model != nil {
		set(label, "")
	}
	tr.later(t, func() {
		set("", label)
		if label == forge.LabelBlocked {
			refs := []ledger.Ref{ledger.Ref(t.Issue.Ref)}
			if t.pull != nil {
				refs = append(refs, ledger.Ref(t.pull.Ref))
			}
			tr.record(ledger.Record{Retry: &ledger.Retry{Refs: refs}})
		}
		tr.outside()
	})
	tr.change()
}

// askPeople posts a question or a plan, and some time later the answer.
func (tr *trial) askPeople(t *trialIssue, m *threads.Mark) {
	d := tr.books.Chain(m.Ref).Dialogue
	if d == nil {
		return
	}
	tr.record(ledger.Record{Asked: &ledger.Asked{Ref: ledger.Ref(m.Ref), Run: d.Run}})
	plan := d.Plan
	if plan {
		t.Talk.Remarks = append(slices.Clone(t.Talk.Remarks), forge.Remark{Author: "disinto", Key: d.Key()})
	}
	tr.later(t, func() {
		if plan {
			t.Talk.ApprovedBy = "ada"
			tr.label(t, forge.LabelPlanApproved, "")
		}
		tr.record(ledger.Record{Answered: &ledger.Answered{Ref: ledger.Ref(m.Ref), Approved: plan}})
		tr.outside()
	})
	tr.change()
}

// probeTime is how long a session must run before the backend of a parked thread counts as found.
const probeTime = time.Minute

// parked returns the threads as plans see them: a park lasts until the first session after it has run for a minute.
func (tr *trial) parked() map[string]*threads.ThreadHistory {
	any := false
	for _, known := range tr.books.Threads {
		any = any || !known.ParkedUntil.IsZero()
	}
	if !any {
		return tr.books.Threads
	}
	list := make(map[string]*threads.ThreadHistory, len(tr.books.Threads))
	for name, known := range tr.books.Threads {
		t := *known
		if x := tr.probe(name); !t.ParkedUntil.IsZero() && !t.ParkedUntil.After(tr.Now) && x != nil {
			t.ParkedUntil = x.reserved.Add(probeTime)
		}
		if !t.ParkedUntil.After(tr.Now) {
			t.ParkedUntil, t.ParkedWhy = time.Time{}, ""
		}
		list[name] = &t
	}
	return list
}

// probe returns the first session that a thread started after it was parked, or nil.
func (tr *trial) probe(thread string) *trialRun {
	for _, x := range tr.runs {
		if x.Thread == thread && !x.over && !x.reserved.Before(tr.books.Thread(thread).ParkedUntil) {
			return x
		}
	}
	return nil
}

// mayProbe lets a thread start only one session after it was parked.
func (tr *trial) mayProbe(thread string) bool {
	if tr.books.Thread(thread).ParkedUntil.IsZero() {
		return true
	}
	x := tr.probe(thread)
	return x == nil || !tr.Now.Before(x.reserved.Add(probeTime))
}
