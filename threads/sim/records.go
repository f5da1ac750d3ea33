package sim

import (
	"slices"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// StartOf returns the journal record that precedes a claim. over is the item that was passed over.
func StartOf(r *threads.Session, cfg *threads.Config, over threads.Key) *ledger.Start {
	return &ledger.Start{
		Run: r.RunID, Thread: r.Thread, Slot: r.Slot, Sticky: !cfg.Thread(r.Thread).Overlap, Agent: r.Agent, Login: r.Login,
		Role: r.Role, Item: ledger.KeyOf(r.Item.Key()), Chain: ledger.Ref(r.Item.Chain), Cause: r.Item.Cause,
		Attempt: r.Attempt, Rung: r.Rung, PassedOver: ledger.KeyOf(over), Author: r.Item.Author,
		Opener:   r.Item.Opener,
		Executor: cfg.Thread(r.Thread).Executor,
	}
}

// RecordOf returns the record of a mark that was written, or an empty one for a mark without a record.
func RecordOf(m *threads.Mark) ledger.Record {
	ref := ledger.Ref(m.Ref)
	told := ledger.Record{Told: &ledger.Told{Ref: ref, Key: m.Reason.Key()}}
	switch m.Action {
	case threads.ActRelease:
		return ledger.Record{Released: &ledger.Released{Ref: ref}}
	case threads.ActBlocked:
		return ledger.Record{Blocked: &ledger.Blocked{Chain: ledger.Ref(m.Item.Chain), Kind: m.Item.Kind}}
	case threads.ActTell:
		return told
	case threads.ActAnswered: // written before the mark: see mark
		return ledger.Record{Answered: &ledger.Answered{Ref: ref, Comments: m.Item.Comments}}
	case threads.ActNeedsHuman:
		if m.Reason.Once() {
			told.Told.Why = m.Reason.Text()
			return told
		}
		handed := &ledger.Handed{Ref: ref}
		if m.Reason.Code == threads.OverLimit {
			handed.Used = ledger.Ref(m.Item.Chain)
		}
		return ledger.Record{Handed: handed}
	}
	return ledger.Record{}
}

// With returns a sorted list that has s. It never changes list, which a scan may still use.
func With(list []string, s string) []string {
	at, found := slices.BinarySearch(list, s)
	if found || s == "" {
		return list
	}
	return slices.Insert(slices.Clone(list), at, s)
}

// Without returns a list that lacks s. It never changes list.
func Without(list []string, s string) []string {
	if !slices.Contains(list, s) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(o string) bool { return o == s })
}
