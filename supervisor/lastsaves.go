package supervisor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// lastLook bounds the look at servers before sessions, or a server, are ended. With lastSave it makes a stop or a
// restart at most 2 s longer.
const lastLook = 500 * time.Millisecond

// locateConversations finds the slots with the conversations of sessions that are about to be cut. During a request a
// slot shows which part of the conversation the request found; afterwards nothing shows it.
func (inf *inference) locateConversations(ends func(url string) bool) {
	ctx, cancel := context.WithTimeout(inf.base, lastLook)
	defer cancel()
	var all sync.WaitGroup
	sessions := inf.state.saving(ends)
	for _, url := range slices.Sorted(maps.Keys(sessions)) {
		server := sessions[url][0].saving.server
		inf.background(&all, "the last look at "+url, func() {
			if slots, err := server.Slots(ctx); err == nil {
				inf.state.seenAt(sessions[url], slots)
			}
		})
	}
	all.Wait()
}

// saving returns, by server, the sessions whose conversations must be saved on some servers.
func (st *state) saving(on func(url string) bool) map[string][]*session {
	st.mu.Lock()
	defer st.mu.Unlock()
	list := make(map[string][]*session)
	for _, run := range slices.Sorted(maps.Keys(st.sessions)) {
		if x := st.sessions[run]; x.saving != nil && on(x.server()) {
			list[x.server()] = append(list[x.server()], x)
		}
	}
	return list
}

// seenAt records which slots have the conversations of sessions.
func (st *state) seenAt(sessions []*session, slots []agents.ServerSlot) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range sessions {
		if slot, known := saved.Using(slots, x.saving.since, x.talk, !x.shares); known {
			x.holds = &slot
		}
	}
}

// saveOnService saves the conversations of sessions on the server of a service that is about to be ended. A session
// that fails because its server is gone saves nothing at its own end.
func (inf *inference) saveOnService(service *threads.Service) {
	inf.locateConversations(service.Serves)
	var all sync.WaitGroup
	for _, list := range inf.state.saving(service.Serves) {
		for _, x := range list {
			inf.background(&all, "the conversation of "+x.tag, func() {
				if _, known, err := inf.saveTo(inf.base, lastSave, x, x.RunID+"restart"); known && err != nil {
					inf.of(x.RunID).Info(x.tag + " conversation not saved: " + text(err))
				}
			})
		}
	}
	all.Wait()
}
