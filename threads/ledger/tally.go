package ledger

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// By is a property by which sessions and merges are grouped.
type By string

// The ways to group sessions. A session counts for each of its labels, and for the day (UTC) on which it ended. Only
// sessions that came to nothing have a cause, and a session counts for each host that its egress refused. A merge
// counts for the session that opened the pull request.
const (
	ByRepo    By = "repo"
	ByLabel   By = "label"
	ByAgent   By = "agent"
	ByModel   By = "model"
	ByRole    By = "role"
	ByThread  By = "thread"
	ByIssue   By = "issue"
	ByDay     By = "day"
	ByOutcome By = "outcome"
	ByCause   By = "cause"
	ByRefused By = "refused"
	byAll     By = ""
)

// Bys are all ways to group sessions.
var Bys = []By{ByRepo, ByLabel, ByAgent, ByModel, ByRole, ByThread, ByIssue, ByDay, ByOutcome, ByCause, ByRefused}

// Earlier is the key of the sums of days in a report by issue: they do not say on which issues the sessions were.
const Earlier = "(earlier days)"

// keys returns the groups of a session.
func (by By) keys(p *Past) []string {
	switch by {
	case ByRepo:
		return []string{p.Ref.Repo}
	case ByAgent:
		return []string{p.Agent}
	case ByModel:
		return []string{p.Model}
	case ByRole:
		return []string{p.Role}
	case ByThread:
		return []string{p.Thread}
	case ByDay:
		return []string{dayOf(p.End)}
	case ByOutcome:
		return []string{string(p.Outcome)}
	case ByCause:
		if !p.Outcome.Wasted() {
			return nil
		}
		return []string{causeOf(p)}
	case ByRefused:
		hosts := []string{}
		for _, r := range p.Refused {
			hosts = append(hosts, r.Host)
		}
		return hosts
	case ByIssue:
		if p.Chain.Number != 0 {
			return []string{forge.Ref(p.Chain).String()}
		}
	case ByLabel:
		if labels := p.AllLabels(); len(labels) > 0 {
			return labels
		}
	}
	return []string{""}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// AllLabels returns the labels of a session's issue; older journals have only those of skills.
func (p *Past) AllLabels() (list []string) {
	for _, skill := range p.Skills {
		list = append(list, forge.SkillPrefix+skill)
	}
	return append(list, p.Labels...)
}

// varying matches what may differ between failures with one cause: numbers, times, and what may be a hash.
var varying = regexp.MustCompile(`[0-9]+([.:,][0-9]+)+|\b[0-9a-f]+\b|[0-9]+`)

// hashLeast is the length of a short hash.
const hashLeast = 7

// causeMax bounds a cause in runes, because a table shows it.
const causeMax = 100

// causeOf returns why a session came to nothing, in words that are the same for the same cause.
func causeOf(p *Past) string {
	words, _, _ := strings.Cut(strings.TrimSpace(p.Reason), "\n")
	words = varying.ReplaceAllStringFunc(words, func(word string) string {
		if len(word) < hashLeast && strings.ContainsAny(word, "abcdef") {
			return word
		}
		return "N"
	})
	if words == "" {
		return string(p.Outcome)
	}
	return string(p.Outcome) + ": " + threads.Clip(words, causeMax)
}

// Tally is the work of one group in a time. Its JSON form is part of the control API.
type Tally struct {
	Key string `json:"key"` // of the group, such as an agent; empty for sessions for which it is unknown
	Work
	// PerMerge is the work for each merged pull request; nil without one, and without sessions.
	PerMerge *Rate `json:"per_merge,omitempty"`
}

// Rate is the average work for a merged pull request. That of sessions that came to nothing is included.
type Rate struct {
	Rounds  float64  `json:"rounds"`
	Minutes float64  `json:"minutes"`
	Tokens  *int64   `json:"tokens"` // nil means unknown
	USD     *float64 `json:"usd"`
}

// Books are what is kept of sessions and merges: those of Past and Merges one by one, earlier ones as the sums of days.
type Books struct {
	Past   []Past
	Merges []Merged
	Days   map[string]Sums
	Ever   int64 // sessions of the factory since its first; 0 if unknown
}

// Books returns a copy of what is kept.
func (s *State) Books() *Books {
	b := &Books{Past: slices.Clone(s.Past), Merges: slices.Clone(s.Merges), Ever: s.Receipt.N}
	b.Days = make(map[string]Sums, len(s.Days))
	for day, sums := range s.Days {
		b.Days[day] = sums.clone()
	}
	return b
}

// Counted returns how many sessions ended from a time on, how many of them only the sums of days have, and when the
// first of them ended. A sum counts if its day ends after that time.
func (b *Books) Counted(from time.Time) (sessions, summed int, first time.Time) {
	for day, sums := range b.Days {
		if n := sums[SumKey{}]; n != nil && n.Sessions > 0 && day >= dayOf(from) {
			sessions, summed = sessions+n.Sessions, summed+n.Sessions
			if at, err := time.Parse(time.DateOnly, day); err == nil && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	for i := range b.Past {
		if p := &b.Past[i]; !p.End.Before(from) {
			if sessions++; first.IsZero() || p.End.Before(first) {
				first = p.End
			}
		}
	}
	return sessions, summed, first
}

// Total returns the tally of all sessions.
func (b *Books) Total(from time.Time) Tally {
	if list := b.Tallies(from, byAll); len(list) > 0 {
		return list[0]
	}
	return Tally{}
}

// PerMerge returns the average work on a merged issue, as far as sessions are known one by one.
func (b *Books) PerMerge() Rate {
	var all Tally
	known := Books{Past: b.Past, Merges: b.Merges}
	for _, row := range known.Tallies(time.Time{}, ByIssue) {
		if row.PerMerge != nil {
			all.plus(&row.Work)
		}
	}
	if all.finish(); all.PerMerge == nil {
		return Rate{}
	}
	return *all.PerMerge
}

// Tallies groups the sessions that ended, and the pull requests that were merged, from a time on. The result is sorted
// by key.
func (b *Books) Tallies(from time.Time, by By) []Tally {
	rows := make(map[string]*Tally)
	row := func(key string) *Work {
		if rows[key] == nil {
			rows[key] = &Tally{Key: key}
		}
		return &rows[key].Work
	}
	for _, day := range slices.Sorted(maps.Keys(b.Days)) {
		if day < dayOf(from) {
			continue
		}
		for k, w := range b.Days[day] {
			switch {
			case k.By == by:
				row(k.Key).plus(w)
			case k.By == byAll && by == ByDay:
				row(day).plus(w)
			case k.By == byAll && by == ByIssue:
				row(Earlier).plus(w)
			}
		}
	}
	for i := range b.Past {
		if p := &b.Past[i]; !p.End.Before(from) {
			for _, key := range by.keys(p) {
				row(key).session(p, by)
			}
		}
	}
	for i := range b.Merges {
		m := &b.Merges[i]
		keys := by.mergeKeys(m)
		if by == ByIssue && len(b.Days) > 0 && len(b.Past) > 0 && m.When.Before(b.Past[0].End) {
			keys = []string{Earlier} // where its sessions are
		}
		for _, key := range keys {
			if !m.When.Before(from) {
				row(key).merge(m)
			}
		}
	}
	list := make([]Tally, 0, len(rows))
	for _, t := range rows {
		t.finish()
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Tally) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// finish computes the ratios from the sums.
func (t *Tally) finish() {
	t.round()
	n := float64(t.Merged.Pulls)
	if n == 0 || t.Sessions == 0 {
		return
	}
	t.PerMerge = &Rate{Rounds: round(float64(t.Merged.Rounds)/n, 1e2), Minutes: round(t.Minutes/n, 1e2)}
	if t.Tokens != nil {
		t.PerMerge.Tokens = new(*t.Tokens / int64(n))
	}
	if t.USD != nil {
		t.PerMerge.USD = new(round(*t.USD/n, 1e6))
	}
}

func round(n, parts float64) float64 { return math.Round(n*parts) / parts }
