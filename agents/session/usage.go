package session

import "codeberg.org/johba/disinto/agents"

// usageOf is a use as a CLI tells it: the tokens that were computed, those that a cache had, those that were written.
// Without a number of cached ones it is not known which of the first a cache had: a server that does not tell is no
// server without a cache. The CLIs count in four ways:
//
//	claude    input is without cached ones, and has those that went into the cache apart; the last event is this run's
//	codex     input has the cached ones; the last event is the whole conversation's, and so is the diary's
//	opencode  input is without cached ones; each step tells its own
//	qwen      input has the cached ones; an answer tells its own, and the last event is the whole conversation's
func usageOf(computed int64, cached *int64, written int64) agents.Usage {
	u := agents.Usage{InputTokens: computed, OutputTokens: written, CacheUntold: cached == nil && computed > 0}
	if cached != nil {
		u.CachedTokens = *cached
	}
	return u
}

// without is an input without its cached tokens.
func without(input int64, cached *int64) int64 {
	if cached != nil {
		input -= *cached
	}
	return max(0, input)
}
