package supervisor

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// explainCold records why the server had kept little of a session's conversation. The reason goes into the session's
// end in the journal and, once, into the log.
func (inf *inference) explainCold(x *session, end *ledger.End) {
	if end.Resumed == nil || !x.thread.Backend.Server() {
		return
	}
	r := inf.state.resumed(x, end.Resumed)
	inf.servers.around(x.thread.BaseURL, &r)
	if end.Cold = r.Cold(); end.Cold != "" {
		inf.of(x.RunID).Info(fmt.Sprintf("%s computed its conversation again: %s", x.tag, end.Cold))
	}
}

// resumed describes a resumed session: when the last session on its chain ended, and which sessions have run on the
// same server since.
func (st *state) resumed(x *session, said *agents.Resumption) threads.Resumed {
	st.mu.Lock()
	defer st.mu.Unlock()
	r := threads.Resumed{Resumption: *said}
	for _, p := range slices.Backward(st.ledger.Past) {
		if p.Agent == x.Agent && forge.Ref(p.Chain) == x.Item.Chain {
			r.Last = p.End
			break
		}
	}
	if r.Last.IsZero() {
		return r
	}
	shares := func(thread string) bool {
		t := x.config.Thread(thread)
		return thread == x.Thread || t != nil && t.BaseURL != "" && t.BaseURL == x.thread.BaseURL
	}
	for i := range st.ledger.Past {
		p := &st.ledger.Past[i]
		if p.End.After(r.Last) && p.Start.Before(x.Started) && shares(p.Thread) {
			r.Others = append(r.Others, p.Agent+" "+numbered(p.Ref.Number))
		}
	}
	for _, y := range st.sessions {
		if y != x && y.Started.Before(x.Started) && shares(y.Thread) {
			r.Others = append(r.Others, y.Agent+" "+numbered(y.Item.Ref.Number))
		}
	}
	slices.Sort(r.Others)
	return r
}

// numbered returns an item's number for a list of sessions; scheduled work has none.
func numbered(n int64) string {
	if n == 0 {
		return "scheduled"
	}
	return fmt.Sprintf("#%d", n)
}

// around adds the newest observation of a server to r.
func (v *servers) around(url string, r *threads.Resumed) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.of[url]; known != nil {
		said := known.said
		r.Server, r.Restarted, r.Slept = &said, known.past.Restarted, known.slept
	}
}

// hits sums computed and cached tokens, by agent or by thread.
type hits map[string]*hit

type hit struct{ computed, cached int64 }

func (h hits) add(name string, u *agents.Usage) {
	if h[name] == nil {
		h[name] = new(hit)
	}
	h[name].computed += u.InputTokens
	h[name].cached += u.CachedTokens
}

// of returns the cached share of the tokens, rounded to thousandths; nil if it is unknown.
func (h hits) of(name string) *float64 {
	sum := h[name]
	if sum == nil || sum.computed+sum.cached <= 0 {
		return nil
	}
	share := float64(sum.cached) / float64(sum.computed+sum.cached)
	return new(float64(int64(share*1000+0.5)) / 1000)
}

// hitsLocked returns the hits of this day (UTC), including running sessions.
func (st *state) hitsLocked(now time.Time) (byAgent, byThread hits) {
	byAgent, byThread = make(hits), make(hits)
	add := func(agent, thread string, u *agents.Usage) {
		if _, told := u.Hit(); told {
			byAgent.add(agent, u)
			byThread.add(thread, u)
		}
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for i := range st.ledger.Past {
		p := &st.ledger.Past[len(st.ledger.Past)-1-i]
		if p.End.Before(today) {
			break
		}
		if p.Usage != nil {
			add(p.Agent, p.Thread, p.Usage)
		}
	}
	for _, x := range st.sessions {
		add(x.Agent, x.Thread, &x.Used)
	}
	return byAgent, byThread
}

// coldLocked returns by thread why its newest resumed session computed most of its conversation again, with the
// session's name; empty if it did not.
func (st *state) coldLocked() map[string]string {
	cold := make(map[string]string)
	for i := range st.ledger.Past { // the newest last
		switch p := &st.ledger.Past[i]; {
		case p.Resumed == nil:
		case p.Cold == "":
			cold[p.Thread] = ""
		default:
			cold[p.Thread] = fmt.Sprintf("%s %s computed its conversation again: %s", p.Agent, numbered(p.Ref.Number), p.Cold)
		}
	}
	return cold
}
