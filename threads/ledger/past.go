package ledger

import (
	"path"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// RecentLimit is how many ended sessions State.Recent keeps: a screenful of the status.
const RecentLimit = 20

// Of sessions that ran, the newest PastLimit are kept, for pastAge: 570 a day for a week, or 130 a day for a month.
// They take 1 MB of the journal and 50 ms of a start.
const (
	PastLimit = 4000
	pastAge   = 30 * 24 * time.Hour
)

// keep remembers the session itself, unless it had no claim and so never was one.
func (s *State) keep(e *ended) {
	if e.Result == agents.ClaimFailed {
		return
	}
	r := Recent{
		RunID: e.Start.Run, Agent: e.Agent, Repo: e.Item.Ref.Repo, Number: e.Item.Ref.Number, Kind: e.Item.Kind,
		Outcome: e.Result, Reason: e.Reason, LastLine: e.LastLine, StartedAt: e.At, EndedAt: e.at,
	}
	if !e.NeverRan {
		s.bury(Past{
			Agent: e.Agent, Kind: e.Item.Kind, Ref: e.Item.Ref, Chain: e.Chain, Ready: e.Ready, Priority: e.Priority,
			Skills: e.Skills, Start: e.At, End: e.at,
		})
		r.Log = LogPath(e.Agent, e.Start.Run)
	}
	s.remember(r)
}

// LogPath is where a session's log is, relative to the state directory, which may move.
func LogPath(agent, run string) string { return path.Join("logs", agent, run+".log") }

func (s *State) remember(r Recent) {
	n := min(len(s.Recent), RecentLimit-1)
	s.Recent = append([]Recent{r}, s.Recent[:n]...)
}

func (s *State) bury(p Past) {
	if len(s.Past) >= PastLimit {
		s.Past = slices.Delete(s.Past, 0, len(s.Past)-PastLimit+1)
	}
	s.Past = append(s.Past, p)
}

// ReadPast returns the sessions that the text of a journal tells of, oldest first. Lines that are not understood are
// skipped.
func ReadPast(journal []byte) []Past {
	records, _ := Parse(journal)
	past := Fold(records).Past
	slices.SortStableFunc(past, func(a, b Past) int { return a.Start.Compare(b.Start) })
	return past
}

// ReadySince returns since when an item could be worked on, as far as the forge tells, and the skills in its labels.
// An issue could from its filing, its reopening or the end of the last issue that it depends on, whichever is latest.
func ReadySince(facts *forge.Facts, it *threads.Item) (since time.Time, skills []string) {
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
