package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// sawCache stores an observation of a server's cache. Once Shared was observed, it stays true until the server
// restarts.
func (b *books) sawCache(url string, said *agents.Server, restarted time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.caches == nil {
		b.caches = make(map[string]serverCache)
	}
	now := serverCache{threads.CacheOf(said), restarted}
	if was := b.caches[url]; was.restarted.Equal(restarted) {
		now.Shared = now.Shared || was.Shared
	}
	if now != b.caches[url] {
		b.caches[url] = now
		b.changedLocked()
	}
}

// serverCache has the facts about a server's cache since its restart.
type serverCache struct {
	threads.ServerCache
	restarted time.Time
}

// cachesLocked returns the caches by thread.
func (b *books) cachesLocked() map[string]threads.ServerCache {
	caches := make(map[string]threads.ServerCache)
	if b.cfg == nil {
		return caches
	}
	for i := range b.cfg.Threads {
		t := &b.cfg.Threads[i]
		if c, seen := b.caches[t.BaseURL]; seen && t.Backend.Server() && t.BaseURL != "" {
			caches[t.Name] = c.ServerCache
		}
	}
	return caches
}
