package ledger

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Work is the effort of sessions, and what came of it. It adds up: two sums make a sum. Its JSON form is part of the
// control API and of the journal.
type Work struct {
	Sessions int     `json:"sessions"`
	Minutes  float64 `json:"minutes"`
	// Tokens, without those from a cache, and USD add up the sessions whose programs reported them. They are nil, which
	// means unknown and not none, if no program did.
	Tokens *int64   `json:"tokens"`
	USD    *float64 `json:"usd"`
	// CacheHit is the share of the tokens read that came from a cache, from 0 to 1, over the sessions whose programs
	// reported it: Cached of Cached and Computed. It is absent if none did.
	CacheHit *float64 `json:"cache_hit,omitempty"`
	Computed int64    `json:"computed,omitempty"`
	Cached   int64    `json:"cached,omitempty"`
	// Cold counts the sessions that continued a conversation of which the server had less than half.
	Cold int `json:"cold,omitempty"`
	// Untold counts the sessions without a number of tokens, and Unpriced those without a cost, which local models have
	// not.
	Untold   int `json:"untold,omitempty"`
	Unpriced int `json:"unpriced,omitempty"`
	// Verified counts the sessions whose work was verified, GreenFirst those of them in which everything passed at once.
	Verified   int `json:"verified,omitempty"`
	GreenFirst int `json:"green_first,omitempty"`

	Failed Waste      `json:"failed,omitzero"`
	Merged MergedWork `json:"merged,omitzero"`
}

// Waste is the sessions that came to nothing; see agents.Result.Wasted.
type Waste struct {
	Sessions int      `json:"sessions"`
	USD      *float64 `json:"usd"` // nil means unknown
	Unpriced int      `json:"unpriced,omitempty"`
	// On and FailedBy are the newest items and agents, at most newestMost, the newest first. Only causes have them.
	On       []Ref    `json:"on,omitempty"`
	FailedBy []string `json:"by,omitempty"`
}

// MergedWork is about the merged pull requests that sessions of the group opened.
type MergedWork struct {
	Pulls      int `json:"pulls"`
	Reviewed   int `json:"reviewed"`    // pull requests of these that our agents reviewed
	FirstRound int `json:"first_round"` // reviewed ones that the first review approved
	Rounds     int `json:"rounds"`      // reviews that requested changes
}

// session adds a session. by is what its group has in common.
func (w *Work) session(p *Past, by By) {
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
	if p.Usage == nil {
		w.Untold++
	} else {
		w.Tokens = sum(w.Tokens, new(p.Usage.InputTokens+p.Usage.OutputTokens))
		if _, told := p.Usage.Hit(); told {
			w.Computed += p.Usage.InputTokens
			w.Cached += p.Usage.CachedTokens
		}
	}
	var usd *float64
	if p.Usage != nil && p.Usage.CostUSD > 0 {
		usd = &p.Usage.CostUSD
	} else {
		w.Unpriced++
	}
	w.USD = sum(w.USD, usd)
	if !p.Outcome.Wasted() {
		return
	}
	f := Waste{Sessions: 1, USD: usd}
	if usd == nil {
		f.Unpriced = 1
	}
	if by == ByCause {
		f.On, f.FailedBy = []Ref{p.Ref}, []string{p.Agent}
	}
	w.Failed.plus(&f)
}

// merge adds a merged pull request.
func (w *Work) merge(m *Merged) {
	w.Merged.Pulls++
	if c := m.Credit; c != nil && c.Reviews > 0 {
		w.Merged.Reviewed++
		w.Merged.Rounds += c.Rounds
		if !c.Rejected {
			w.Merged.FirstRound++
		}
	}
}

// plus adds later work.
func (w *Work) plus(o *Work) {
	w.Sessions += o.Sessions
	w.Minutes += o.Minutes
	w.Tokens, w.USD = sum(w.Tokens, o.Tokens), sum(w.USD, o.USD)
	w.Computed += o.Computed
	w.Cached += o.Cached
	w.Cold += o.Cold
	w.Untold += o.Untold
	w.Unpriced += o.Unpriced
	w.Verified += o.Verified
	w.GreenFirst += o.GreenFirst
	w.Failed.plus(&o.Failed)
	w.Merged.Pulls += o.Merged.Pulls
	w.Merged.Reviewed += o.Merged.Reviewed
	w.Merged.FirstRound += o.Merged.FirstRound
	w.Merged.Rounds += o.Merged.Rounds
}

func (f *Waste) plus(o *Waste) {
	f.Sessions += o.Sessions
	f.USD = sum(f.USD, o.USD)
	f.Unpriced += o.Unpriced
	f.On, f.FailedBy = newest(o.On, f.On), newest(o.FailedBy, f.FailedBy)
}

// newestMost is how many items and agents a cause names.
const newestMost = 3

// newest returns the first newestMost different values of two lists, without changing either.
func newest[T comparable](later, before []T) (list []T) {
	for _, v := range slices.Concat(later, before) {
		if len(list) < newestMost && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// sum adds numbers that may be unknown. It changes neither.
func sum[N int64 | float64](a, b *N) *N {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		return new(*b)
	case b == nil:
		return new(*a)
	}
	return new(*a + *b)
}

// round removes the error that binary fractions add to a sum of decimal ones.
func (w *Work) round() {
	w.Minutes = round(w.Minutes, 1e2)
	if read := w.Computed + w.Cached; read > 0 {
		w.CacheHit = new(round(float64(w.Cached)/float64(read), 1e3))
	}
	for _, usd := range []*float64{w.USD, w.Failed.USD} {
		if usd != nil {
			*usd = round(*usd, 1e6)
		}
	}
}
