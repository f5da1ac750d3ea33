package supervisor

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// PastSession is a session that a journal tells of.
type PastSession struct {
	Agent      string
	Kind       agents.Kind
	Ref        forge.Ref
	Chain      forge.Ref // the issue that it was about; Ref where the journal has forgotten that
	Start, End time.Time
}

// Past reads the sessions that ended from the text of a journal, the oldest first. Lines that it does not understand are
// skipped. Compaction, with which every start begins, leaves the newest twenty, and forgets of those which issue a pull
// request was for unless a later line says so.
func Past(journal []byte) []PastSession {
	records, _ := parseJournal(journal)
	var list []PastSession
	open := make(map[string]*startRecord)
	began := make(map[string]time.Time)
	chains := make(map[forge.Ref]forge.Ref)
	for i := range records {
		switch r := &records[i]; {
		case r.Start != nil, r.Open != nil:
			s := cmp.Or(r.Start, r.Open)
			open[s.Run], began[s.Run] = s, r.At
			chains[forge.Ref(s.Item.Ref)] = forge.Ref(s.Chain)
		case r.End != nil && open[r.End.Run] != nil && !r.End.NeverRan:
			s := open[r.End.Run]
			list = append(list, PastSession{s.Agent, s.Item.Kind, forge.Ref(s.Item.Ref), forge.Ref(s.Chain), began[s.Run], r.At})
		case r.Recent != nil && r.Recent.EndedAt.After(r.Recent.StartedAt):
			ref := forge.Ref{Repo: r.Recent.Repo, Number: r.Recent.Number}
			list = append(list, PastSession{r.Recent.Agent, r.Recent.Kind, ref, ref, r.Recent.StartedAt, r.Recent.EndedAt})
		}
	}
	for i := range list {
		if chain, known := chains[list[i].Ref]; known {
			list[i].Chain = chain
		}
	}
	slices.SortStableFunc(list, func(a, b PastSession) int { return a.Start.Compare(b.Start) })
	return list
}
