package sim

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Foretell returns a trial of one day of a journal, and how long that day's issues really waited for their first
// sessions. The trial knows when the issues were filed, and the work left from the day before. It draws everything
// else from a model learnt from the days before. First, in its report, covers only that day's issues.
func Foretell(j Journal, config *threads.Config, begin, end time.Time) (t Trial, real Spread) {
	first := firstSessions(j.Past)
	var old []ledger.Past
	for _, p := range possible(j.Past) {
		s, known := first[p.Chain]
		early := p.Kind == agents.KindSchedule || known && filed(s).Before(begin)
		if early && p.Start.Before(end) && !p.Start.Before(begin.Add(-24*time.Hour)) {
			old = append(old, p)
		}
	}
	t = Replay(Journal{Past: old}, config, longestReplayed)
	if t.From.IsZero() || t.From.After(begin) {
		t.From = begin
	}
	t.Model, t.Policy, t.ofDrawn, t.Quiet = Learn(j.Before(begin)), Ours, true, true
	t.Uses = meanUses(j.Before(begin).Past)
	t.Outages = slices.DeleteFunc(t.Outages, func(o Outage) bool { return !t.From.Add(o.From).Before(begin) })
	var waits []time.Duration
	for _, s := range first {
		at := filed(s)
		if s.Kind != agents.KindIssue || at.Before(begin) || !at.Before(end) {
			continue
		}
		w := workOf(s)
		w.At, w.drawn = at.Sub(t.From), true
		w.fit(config)
		t.Load, waits = append(t.Load, w), append(waits, s.Start.Sub(at))
	}
	slices.SortFunc(t.Load, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Repo, b.Repo))
	})
	t.Drain = 24 * time.Hour
	return t, spread(waits)
}

// firstSessions returns the first writing session of each issue.
func firstSessions(past []ledger.Past) map[ledger.Ref]*ledger.Past {
	first := make(map[ledger.Ref]*ledger.Past)
	for i := range past {
		s := &past[i]
		if before := first[s.Chain]; s.Kind.Writes() && (before == nil || s.Start.Before(before.Start)) {
			first[s.Chain] = s
		}
	}
	return first
}
