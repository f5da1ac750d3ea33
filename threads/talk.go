package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Talk is an agent's conversation on a chain with the model of a sticky thread.
type Talk struct {
	Agent  string `json:"agent"`
	Repo   string `json:"repo"`
	Number int64  `json:"number,omitempty"` // 0 for scheduled work
	Tokens int64  `json:"tokens,omitempty"` // size of its last request and answer; 0 means unknown
	Saved  int64  `json:"saved,omitempty"`  // tokens in its file, if it has one; 0 means unknown
}

// Chain returns the chain of the conversation.
func (t *Talk) Chain() forge.Ref { return forge.Ref{Repo: t.Repo, Number: t.Number} }

func (t *Talk) is(agent string, chain forge.Ref) bool { return t.Agent == agent && t.Chain() == chain }

// maxTalks bounds the remembered conversations of a thread: 8 GiB of memory hold fewer, unless each is short.
const maxTalks = 64

// Said records the end of a session: its conversation becomes the most recently used one. A size of 0 keeps the known
// size.
func (h *ThreadHistory) Said(agent string, chain forge.Ref, tokens, saved int64) {
	was := h.Talk(agent, chain)
	talks := []Talk{{agent, chain.Repo, chain.Number, cmp.Or(tokens, was.Tokens), cmp.Or(saved, was.Saved)}}
	for _, t := range h.Talks {
		if !t.is(agent, chain) {
			talks = append(talks, t)
		}
	}
	h.Talks = talks[:min(len(talks), maxTalks)]
}

// Talk returns a remembered conversation; the zero value for one that is not remembered.
func (h *ThreadHistory) Talk(agent string, chain forge.Ref) Talk {
	for _, t := range h.Talks {
		if t.is(agent, chain) {
			return t
		}
	}
	return Talk{}
}

// ServerCache describes the cache of a sticky thread's server, as observed. In the zero value nothing is known.
type ServerCache struct {
	Shared bool  // idle slots were seen emptied: the server's memory has their conversations
	Tokens int64 // room in the server's memory; 0 means unknown
}

// CacheOf describes a server's cache according to an observation of the server.
func CacheOf(s *agents.Server) ServerCache {
	c := ServerCache{Shared: s.Emptied()}
	if s.PerToken > 0 {
		c.Tokens = defaultRAM / s.PerToken
	}
	return c
}

// InMemory reports whether conversations of a thread stay warm in its server's memory, rather than each in its slot.
func (t *Thread) InMemory(c ServerCache) bool {
	return !t.Overlap && (t.Cache == CacheServer || t.Cache == "" && c.Shared)
}

// Remembered returns the conversations that a server's memory still has, the last used first: as many as fit. It skips
// conversations that are larger than the memory. An unknown size counts as the largest known one.
func (h *ThreadHistory) Remembered(c ServerCache) []Talk {
	if c.Tokens == 0 {
		return h.Talks
	}
	largest := int64(0)
	for _, t := range h.Talks {
		largest = max(largest, t.Tokens)
	}
	var kept []Talk
	left := c.Tokens
	for _, t := range h.Talks {
		size := t.Tokens
		if size == 0 {
			size = largest
		}
		if size > c.Tokens {
			continue
		}
		if size > left {
			break
		}
		left -= size
		kept = append(kept, t)
	}
	return kept
}

// warmthRule reports whether a session of an agent on an item could continue its conversation in a free slot.
type warmthRule struct {
	name string
	is   func(v *view, w *work, c candidate, slot int) bool
}

var warmthRules = []warmthRule{
	{"the slot's last conversation", inSlot},
	{"a conversation in the server's memory", inMemory},
}

func inSlot(_ *view, w *work, c candidate, slot int) bool {
	warm := c.agent.thread.warm[slot]
	return warm.Agent == c.agent.Name && warm.Chain == w.Chain
}

func inMemory(_ *view, w *work, c candidate, _ int) bool {
	return slices.ContainsFunc(c.agent.thread.talks, func(t Talk) bool { return t.is(c.agent.Name, w.Chain) })
}

// goesOn reports whether a session in a free slot of a sticky thread would continue its conversation.
func (v *view) goesOn(w *work, c candidate, slot int) bool {
	return slices.ContainsFunc(warmthRules, func(r warmthRule) bool { return r.is(v, w, c, slot) })
}

// Forgotten is a model whose first request found little of a conversation that was restored from a file.
type Forgotten struct {
	Model    string `json:"model"`
	Restored int64  `json:"restored"` // tokens
	Found    int64  `json:"found"`
}

// Forget records how much of its restored conversation a session's first request found. If that is less than half,
// files do not hold the model's whole state, and its conversations are no longer saved.
func (h *ThreadHistory) Forget(model string, restored, found int64) {
	if restored <= 0 || 2*found >= restored || h.Forgets(model) != nil {
		return
	}
	h.Forgotten = append(slices.Clone(h.Forgotten), Forgotten{model, restored, found})
}

// Forgets returns why a model's conversations are not saved; nil when they may be.
func (h *ThreadHistory) Forgets(model string) *Forgotten {
	return find(h.Forgotten, func(f *Forgotten) bool { return f.Model == model })
}
