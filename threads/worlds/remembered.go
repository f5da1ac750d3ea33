package worlds

import (
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
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

// inMemory reports whether a sticky thread's server keeps conversations in its memory, and not in its slots.
func (in *inspection) inMemory(t *threads.Thread) bool {
	switch t.Cache {
	case threads.CacheServer:
		return true
	case threads.CacheSlot:
		return false
	}
	return in.s.Caches[t.Name].Shared
}

// remembers reports whether a thread's server has a conversation: the memory keeps the newest ones that fit together.
func (in *inspection) remembers(t *threads.Thread, agent string, chain forge.Ref) bool {
	talks, room := in.s.History.Thread(t.Name).Talks, in.s.Caches[t.Name].Tokens
	at := slices.IndexFunc(talks, func(k threads.Talk) bool {
		return k.Agent == agent && k.Repo == chain.Repo && k.Number == chain.Number
	})
	if at < 0 || room == 0 {
		return at >= 0
	}
	most := slices.MaxFunc(talks, func(a, b threads.Talk) int { return int(a.Tokens - b.Tokens) }).Tokens
	used := int64(0)
	for i := range at + 1 {
		size := talks[i].Tokens
		if size == 0 {
			size = most
		}
		if size > room {
			if i == at {
				return false
			}
			continue
		}
		used += size
	}
	return used <= room
}
