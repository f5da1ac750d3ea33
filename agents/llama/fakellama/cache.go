package fakellama

import "slices"

// choose returns the slot for a prompt, with its cache prepared, or -1 if the request has to wait. A pin beyond the
// last slot wraps around. A pinned request is never served from memory if its slot is empty. The caller holds s.mu.
func (s *Server) choose(prompt string, pin int) int {
	best, like := -1, 0.1 // --slot-prompt-similarity
	for i, slot := range s.slots {
		if slot.busy || slot.conversation == "" || pin >= 0 && i != pin%len(s.slots) {
			continue
		}
		if f := float64(common(slot.conversation, prompt)) / float64(len(prompt)); f > like {
			best, like = i, f
		}
	}
	switch {
	case best >= 0 && like*float64(len(prompt))/float64(len(s.slots[best].conversation)) >= 0.5:
		return best // the prompt uses most of the slot's conversation
	case best >= 0:
		s.swap(s.slots[best], prompt)
		return best
	case pin >= 0:
		i := pin % len(s.slots)
		if s.slots[i].busy {
			return -1
		}
		if s.slots[i].conversation != "" {
			s.swap(s.slots[i], prompt)
		}
		return i
	}
	for i, slot := range s.slots { // the least recently used; of equals, the last
		if !slot.busy && (best < 0 || slot.used <= s.slots[best].used) {
			best = i
		}
	}
	if best >= 0 {
		s.swap(s.slots[best], prompt)
	}
	return best
}

// swap copies a slot's conversation into memory. If memory has a conversation that matches the prompt better, swap
// loads it into the slot. The caller holds s.mu.
func (s *Server) swap(at *slot, prompt string) {
	if s.RAM == 0 {
		return
	}
	s.remember(at.conversation)
	keep, like := -1.0, float64(common(at.conversation, prompt))/float64(len(prompt))
	if at.conversation != "" {
		keep = float64(common(at.conversation, prompt)) / float64(len(at.conversation))
	}
	found := -1
	for i, c := range s.memory {
		n := common(c, prompt)
		k, l := float64(n)/float64(len(c)), float64(n)/float64(len(prompt))
		if k >= 0.25 && k > keep && l > like {
			found, keep, like = i, k, l
		}
	}
	if found >= 0 {
		at.conversation, at.lost = s.memory[found], false
		s.memory = slices.Delete(s.memory, found, found+1)
	}
}

// remember puts a conversation into memory, unless memory has one that contains it, or the conversation is larger
// than memory. It evicts the oldest conversations. The caller holds s.mu.
func (s *Server) remember(conversation string) {
	size := int64(len(conversation)) * s.perToken()
	if conversation == "" || size > s.RAM {
		return
	}
	if slices.ContainsFunc(s.memory, func(c string) bool { return common(c, conversation) == len(conversation) }) {
		return
	}
	s.memory = slices.DeleteFunc(s.memory, func(c string) bool { return common(c, conversation) == len(c) })
	for s.remembered()+size > s.RAM {
		s.memory = s.memory[1:]
	}
	s.memory = append(s.memory, conversation)
}

// remembered returns the bytes of memory in use. The caller holds s.mu.
func (s *Server) remembered() int64 {
	var n int64
	for _, c := range s.memory {
		n += int64(len(c)) * s.perToken()
	}
	return n
}

// keepIdle copies all idle slots into memory, as --cache-idle-slots does, and empties them if the slots share one
// cache. The caller holds s.mu.
func (s *Server) keepIdle() {
	if s.RAM == 0 {
		return
	}
	for _, slot := range s.slots {
		if slot.busy {
			continue
		}
		s.remember(slot.conversation)
		if s.Unified {
			slot.conversation = ""
		}
	}
}
