package supervisor

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// recordCache stores an observation of a server's cache. Once Shared was observed, it stays true until the server
// restarts.
func (st *state) recordCache(url string, said *agents.Server, restarted time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.caches == nil {
		st.caches = make(map[string]serverCache)
	}
	now := serverCache{threads.CacheOf(said), restarted}
	if was := st.caches[url]; was.restarted.Equal(restarted) {
		now.Shared = now.Shared || was.Shared
	}
	if now != st.caches[url] {
		st.caches[url] = now
		st.changedLocked()
	}
}

// serverCache has the facts about a server's cache since its restart.
type serverCache struct {
	threads.ServerCache
	restarted time.Time
}

// cachesLocked returns the caches by thread.
func (st *state) cachesLocked() map[string]threads.ServerCache {
	caches := make(map[string]threads.ServerCache)
	if st.cfg == nil {
		return caches
	}
	for i := range st.cfg.Threads {
		t := &st.cfg.Threads[i]
		if c, seen := st.caches[t.BaseURL]; seen && t.Backend.Server() && t.BaseURL != "" {
			caches[t.Name] = c.ServerCache
		}
	}
	return caches
}
