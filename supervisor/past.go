package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Of ended sessions the newest pastLimit are remembered, for pastAge: 570 a day for a week, or 130 a day for a month. They take
// 1 MB of the journal, and 50 ms of a start.
const (
	pastLimit = 4000
	pastAge   = 30 * 24 * time.Hour
)

// PastSession is a session that a journal tells of.
type PastSession struct {
	Agent    string
	Kind     agents.Kind
	Ref      forge.Ref
	Chain    forge.Ref // the issue that it was about
	Ready    time.Time // since when it could be worked on; zero where the journal does not say
	Priority int       // 0 where the journal does not say
	Skills   []string  // of its labels
	Start    time.Time
	End      time.Time
}

// Past reads the sessions that ended from the text of a journal, the oldest first. Lines that it does not understand are
// skipped.
func Past(journal []byte) []PastSession {
	records, _ := parseJournal(journal)
	h := newHistory()
	for _, r := range records {
		h.apply(r)
	}
	list := make([]PastSession, len(h.past))
	for i := range h.past {
		p := &h.past[i]
		list[i] = PastSession{p.Agent, p.Kind, forge.Ref(p.Ref), forge.Ref(p.Chain), p.Ready, p.Priority, p.Skills, p.Start, p.End}
	}
	slices.SortStableFunc(list, func(a, b PastSession) int { return a.Start.Compare(b.Start) })
	return list
}

// bury remembers a session that ended.
func (h *history) bury(p pastRecord) {
	if len(h.past) >= pastLimit {
		h.past = slices.Delete(h.past, 0, len(h.past)-pastLimit+1)
	}
	h.past = append(h.past, p)
}

// readySince is since when an item could be worked on, as far as the forge tells: an issue from its filing, its reopening or
// the end of the last thing that it depends on. Its skills are those of the labels.
func readySince(facts *forge.Facts, it *threads.Item) (since time.Time, skills []string) {
	since = it.Since
	is := facts.Issue(it.Chain)
	if is == nil {
		return since, nil
	}
	if it.Kind == agents.KindIssue {
		since = later(since, is.Reopened)
		for _, b := range is.Blockers {
			if on := facts.Issue(b.Ref); on != nil {
				since = later(since, on.Ended)
			}
		}
	}
	return since, forge.Skills(is.Labels)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
