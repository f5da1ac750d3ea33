package ledger

import (
	"math"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// By is a property by which sessions are grouped.
type By string

// The ways to group sessions. A session counts for each of its skills, and for the day (UTC) on which it ended.
const (
	ByAgent  By = "agent"
	ByModel  By = "model"
	ByRole   By = "role"
	BySkill  By = "skill"
	ByThread By = "thread"
	ByIssue  By = "issue"
	ByDay    By = "day"
	byAll    By = ""
)

// Bys are all ways to group sessions.
var Bys = []By{ByAgent, ByModel, ByRole, BySkill, ByThread, ByIssue, ByDay}

// keys returns the groups of a session.
func (by By) keys(p *Past) []string {
	switch by {
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
	case ByIssue:
		if p.Chain.Number == 0 {
			return []string{""}
		}
		return []string{forge.Ref(p.Chain).String()}
	case BySkill:
		if len(p.Skills) > 0 {
			return p.Skills
		}
	}
	return []string{""}
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Tally is the work of one group of sessions in a time. Its JSON form is part of the control API.
type Tally struct {
	Key  string `json:"key"` // of the group, such as an agent; empty for sessions for which it is unknown
	Work        // of the sessions that ended in that time
	// Busy is the share of the time from the first session of all groups to the last in which a session of this group
	// ran.
	Busy   float64    `json:"busy"`
	Merged MergedWork `json:"merged"`
	// PerIssue is left out where no issue was merged.
	PerIssue *Rate `json:"per_issue,omitempty"`

	runs [][2]time.Time
}

// Work is the effort of sessions.
type Work struct {
	Sessions int     `json:"sessions"`
	Minutes  float64 `json:"minutes"`
	// Tokens, without those from a cache, and USD add up the sessions whose programs reported them. They are nil, which
	// means unknown and not none, if no program did.
	Tokens *int64   `json:"tokens"`
	USD    *float64 `json:"usd"`
	// CacheHit is the share of the tokens read that came from a cache, from 0 to 1, over the sessions whose programs
	// reported it. It is absent if none did.
	CacheHit *float64 `json:"cache_hit,omitempty"`
	// Cold counts the sessions that continued a conversation of which the server had less than half.
	Cold int `json:"cold,omitempty"`
	// Untold counts the sessions without a number of tokens, and Unpriced those without a cost, which local models have
	// not.
	Untold   int `json:"untold,omitempty"`
	Unpriced int `json:"unpriced,omitempty"`
	// Verified counts the sessions whose work was verified, GreenFirst those of them in which everything passed at once.
	Verified   int `json:"verified,omitempty"`
	GreenFirst int `json:"green_first,omitempty"`

	computed, cached int64 // tokens read, of the sessions that reported the cache's share
}

func (w *Work) add(p *Past) {
	w.Sessions++
	w.Minutes += p.End.Sub(p.Start).Minutes()
	if p.Cold != "" {
		w.Cold++
	}
	if p.Verified != nil {
		w.Verified++
		if p.Verified.Verdict == agents.GreenFirst {
			w.GreenFirst++
		}
	}
	if p.Usage != nil {
		if _, told := p.Usage.Hit(); told {
			w.computed += p.Usage.InputTokens
			w.cached += p.Usage.CachedTokens
		}
	}
	if p.Usage == nil {
		w.Untold++
	} else {
		w.Tokens = plus(w.Tokens, p.Usage.InputTokens+p.Usage.OutputTokens)
	}
	if p.Usage == nil || p.Usage.CostUSD == 0 {
		w.Unpriced++
	} else {
		w.USD = plus(w.USD, p.Usage.CostUSD)
	}
}

// round removes the error that binary fractions add to a sum of decimal ones.
func (w *Work) round() {
	w.Minutes = round(w.Minutes, 1e2)
	if read := w.computed + w.cached; read > 0 {
		w.CacheHit = new(round(float64(w.cached)/float64(read), 1e3))
	}
	if w.USD != nil {
		*w.USD = round(*w.USD, 1e6)
	}
}

func round(n, parts float64) float64 { return math.Round(n*parts) / parts }

// plus adds to a sum that may be unknown.
func plus[N int64 | float64](sum *N, n N) *N {
	if sum != nil {
		n += *sum
	}
	return &n
}

// MergedWork is about the issues that were merged in the time and that the group worked on. It counts all work on
// them, even earlier work. An issue that was merged twice counts once. By day, an issue counts for the day of its
// merge.
type MergedWork struct {
	Issues     int `json:"issues"`
	Reviewed   int `json:"reviewed"`    // issues of these that our agents reviewed
	FirstRound int `json:"first_round"` // reviewed issues that the first review approved
	Rounds     int `json:"rounds"`      // reviews that requested changes
	Work           // of the group's own sessions on these issues; by day, of all sessions
}

// Rate is the average effort for a merged issue.
type Rate struct {
	Rounds  float64  `json:"rounds"`
	Minutes float64  `json:"minutes"`
	Tokens  *int64   `json:"tokens"` // nil means unknown
	USD     *float64 `json:"usd"`
}

// Total returns the tally of all sessions.
func Total(past []Past, merges []Merged, from time.Time) Tally {
	if list := Tallies(past, merges, from, byAll); len(list) > 0 {
		return list[0]
	}
	return Tally{}
}

// Tallies groups the sessions that ended, and the issues that were merged, from a time on. The result is sorted by
// key.
func Tallies(past []Past, merges []Merged, from time.Time, by By) []Tally {
	t := tallies{by: by, rows: make(map[string]*Tally), chains: make(map[Ref][]*Past)}
	var first, last time.Time
	for i := range past {
		p := &past[i]
		t.chains[p.Chain] = append(t.chains[p.Chain], p)
		if p.End.Before(from) {
			continue
		}
		start := later(p.Start, from)
		if first.IsZero() || start.Before(first) {
			first = start
		}
		last = later(last, p.End)
		for _, key := range by.keys(p) {
			row := t.row(key)
			row.add(p)
			row.runs = append(row.runs, [2]time.Time{start, p.End})
		}
	}
	t.merged(merges, from)
	list := make([]Tally, 0, len(t.rows))
	for _, row := range t.rows {
		row.finish(last.Sub(first))
		list = append(list, *row)
	}
	slices.SortFunc(list, func(a, b Tally) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// tallies are the groups while they are counted.
type tallies struct {
	by     By
	rows   map[string]*Tally
	chains map[Ref][]*Past
}

func (t *tallies) row(key string) *Tally {
	row := t.rows[key]
	if row == nil {
		row = &Tally{Key: key}
		t.rows[key] = row
	}
	return row
}

// merged counts the issues that were merged from a time on, newest first and each once.
func (t *tallies) merged(merges []Merged, from time.Time) {
	counted := make(map[Ref]bool)
	for i := range merges {
		m := &merges[len(merges)-1-i]
		if m.When.Before(from) || counted[m.Chain] {
			continue
		}
		counted[m.Chain] = true
		groups := make(map[string]*Tally)
		for _, p := range t.chains[m.Chain] {
			keys := t.by.keys(p)
			if t.by == ByDay {
				keys = []string{dayOf(m.When)}
			}
			for _, key := range keys {
				groups[key] = t.row(key)
				groups[key].Merged.add(p)
			}
		}
		for _, row := range groups {
			row.Merged.judge(t.chains[m.Chain])
		}
	}
}

// judge counts a merged issue by the verdicts of its reviews.
func (w *MergedWork) judge(sessions []*Past) {
	w.Issues++
	var verdicts []Verdict
	for _, p := range sessions {
		if p.Verdict != "" {
			verdicts = append(verdicts, p.Verdict)
		}
		if p.Verdict == ChangesRequested {
			w.Rounds++
		}
	}
	if len(verdicts) > 0 {
		w.Reviewed++
		if verdicts[0] == Approved {
			w.FirstRound++
		}
	}
}

// finish computes the ratios from the sums. span is the time from the first session to the last.
func (t *Tally) finish(span time.Duration) {
	slices.SortFunc(t.runs, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	var busy time.Duration
	var until time.Time
	for _, run := range t.runs {
		if start := later(run[0], until); run[1].After(start) {
			busy += run[1].Sub(start)
			until = run[1]
		}
	}
	t.runs = nil
	if span > 0 {
		t.Busy = round(busy.Seconds()/span.Seconds(), 1e3)
	}
	t.round()
	t.Merged.round()
	n := t.Merged.Issues
	if n == 0 {
		return
	}
	m := &t.Merged
	t.PerIssue = &Rate{Rounds: round(float64(m.Rounds)/float64(n), 1e2), Minutes: round(m.Minutes/float64(n), 1e2)}
	if m.Tokens != nil {
		t.PerIssue.Tokens = new(*m.Tokens / int64(n))
	}
	if m.USD != nil {
		t.PerIssue.USD = new(round(*m.USD/float64(n), 1e6))
	}
}
