package ledger

import (
	"io"
	"path"
	"slices"
	"strings"
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

// pastWords bounds the reason of a past session in bytes, so that 4,000 of them take 2 MB at most.
const pastWords = 200

// shortened is the beginning of a text in at most pastWords bytes.
func shortened(text string) string {
	if len(text) <= pastWords {
		return text
	}
	return strings.ToValidUTF8(text[:pastWords-3], "") + "…"
}

// LogPath is where a session's log is, relative to the state directory, which may move.
func LogPath(agent, run string) string { return path.Join("logs", agent, run+".log") }

// ReadPast returns the sessions that a journal tells of, oldest first. Lines that are not understood are skipped.
func ReadPast(journal io.Reader) ([]Past, error) {
	s := New()
	err := Read(journal, s.Apply, func(_, _ int64) {})
	slices.SortStableFunc(s.Past, func(a, b Past) int { return a.Start.Compare(b.Start) })
	return s.Past, err
}

// typicalOf is how many of the newest sessions of a kind say how long such sessions take.
const typicalOf = 50

// Typical returns the median time that the newest sessions of each kind took. Fewer than three say nothing.
func (s *State) Typical() map[agents.Kind]time.Duration {
	took := make(map[agents.Kind][]time.Duration)
	for _, p := range slices.Backward(s.Past) {
		if len(took[p.Kind]) < typicalOf {
			took[p.Kind] = append(took[p.Kind], p.End.Sub(p.Start))
		}
	}
	typical := make(map[agents.Kind]time.Duration)
	for kind, list := range took {
		if len(list) >= 3 {
			slices.Sort(list)
			typical[kind] = list[len(list)/2]
		}
	}
	return typical
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
