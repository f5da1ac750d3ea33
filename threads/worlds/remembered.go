package worlds

import (
	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// memoryRoom is the tokens that a server's memory holds, in worlds where the servers were probed.
const memoryRoom = 700

// caches returns the probed caches. In a quarter of the worlds servers share a cache. In another quarter only the
// configuration says so.
func (w *world) caches() map[string]threads.ServerCache {
	if w.seed%4 != 1 {
		return nil
	}
	all := make(map[string]threads.ServerCache)
	for _, t := range w.cfg.Threads {
		all[t.Name] = threads.ServerCache{Shared: true, Tokens: memoryRoom}
	}
	return all
}

// sharesCache returns the key cache of a world's threads.
func (w *world) sharesCache() threads.Cache {
	if w.seed%4 == 0 {
		return threads.CacheServer
	}
	return ""
}

// talkOf returns the size of a session's conversation, and 0 (unknown) for every third chain.
func talkOf(r *run, out *agents.Outcome) int64 {
	if r.Item.Chain.Number%3 == 0 {
		return 0
	}
	return out.Usage.InputTokens + out.Usage.OutputTokens
}
