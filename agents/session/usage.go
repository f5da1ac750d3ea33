package session

import "codeberg.org/johba/disinto/agents"

// usageOf converts the usage that a CLI reports: tokens computed, cached and written. If the number of cached tokens is
// missing, it is unknown, not 0: a server may have a cache without reporting it. The CLIs count in four ways:
//
//	claude    input excludes cached tokens, and lists those written to the cache apart; the last event covers this run
//	codex     input includes cached tokens; the last event and the usage file cover the whole conversation
//	opencode  input excludes cached tokens; each step reports its own usage
//	qwen      input includes cached tokens; each answer reports its own usage, the last event the whole conversation's
func usageOf(computed int64, cached *int64, written int64) agents.Usage {
	u := agents.Usage{InputTokens: computed, OutputTokens: written, CacheUntold: cached == nil && computed > 0}
	if cached != nil {
		u.CachedTokens = *cached
	}
	return u
}

// without returns an input without its cached tokens.
func without(input int64, cached *int64) int64 {
	if cached != nil {
		input -= *cached
	}
	return max(0, input)
}
