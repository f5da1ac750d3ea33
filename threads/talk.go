package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Talk is a conversation of an agent on a chain, with the model of a sticky thread.
type Talk struct {
	Agent  string `json:"agent"`
	Repo   string `json:"repo"`
	Number int64  `json:"number,omitempty"` // 0 for scheduled work
	Tokens int64  `json:"tokens,omitempty"` // of its last request with the answer; 0 means unknown
	Saved  int64  `json:"saved,omitempty"`  // tokens that its file got, if it has one; 0 means unknown
}

// Chain is the chain that the conversation is on.
func (t *Talk) Chain() forge.Ref { return forge.Ref{Repo: t.Repo, Number: t.Number} }

func (t *Talk) is(agent string, chain forge.Ref) bool { return t.Agent == agent && t.Chain() == chain }

// maxTalks bounds the conversations that are remembered of a thread: 8 GiB of memory hold fewer, unless each is short.
const maxTalks = 64

// Said notes the end of a session: its conversation is the one that was used last. A size of 0 leaves the one that was
// known.
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

// Talk returns what is known of a conversation; the zero value when nothing is.
func (h *ThreadHistory) Talk(agent string, chain forge.Ref) Talk {
	for _, t := range h.Talks {
		if t.is(agent, chain) {
			return t
		}
	}
	return Talk{}
}

// ServerCache is a fact about the server of a sticky thread, from looks at it. The zero value is a server of which
// nothing is known.
type ServerCache struct {
	Shared bool  // idle slots were seen emptied: its memory has their conversations
	Tokens int64 // that its memory has room for; 0 means unknown
}

// CacheOf returns the facts of a cache that a look at its server tells.
func CacheOf(s *agents.Server) ServerCache {
	c := ServerCache{Shared: s.Emptied()}
	if s.PerToken > 0 {
		c.Tokens = defaultRAM / s.PerToken
	}
	return c
}

// InMemory reports whether conversations of a thread stay warm in its server's memory, and not each in its slot.
func (t *Thread) InMemory(c ServerCache) bool {
	return !t.Overlap && (t.Cache == CacheServer || t.Cache == "" && c.Shared)
}

// Remembered are the conversations that a server's memory still has, those used last first: as many as it has room
// for. One that is larger than the memory is never in it. One of unknown size counts as the largest known.
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

// warmthRule reports whether a session of an agent on an item could go on with its conversation in a free slot.
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

// goesOn reports whether a session in a free slot of a sticky thread would go on with its conversation.
func (v *view) goesOn(w *work, c candidate, slot int) bool {
	return slices.ContainsFunc(warmthRules, func(r warmthRule) bool { return r.is(v, w, c, slot) })
}

// Forgotten says of a model how little of a conversation that was restored from a file was found by the first request.
type Forgotten struct {
	Model    string `json:"model"`
	Restored int64  `json:"restored"` // tokens
	Found    int64  `json:"found"`
}

// Forget notes what the first request of a session found of its restored conversation. With less than half, the model's
// state is not what its files have, and its conversations are not saved any more.
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
