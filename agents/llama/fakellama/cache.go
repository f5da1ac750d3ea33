package fakellama

import "slices"

// choose returns the slot for a prompt, with its cache made ready, and -1 where the request has to wait. A number
// beyond the last wraps around, and a pinned request never looks into memory where its slot is empty. s.mu is held.
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
		return best // most of what the slot keeps is used
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
	for i, slot := range s.slots { // the one used least recently; of equals the last
		if !slot.busy && (best < 0 || slot.used <= s.slots[best].used) {
			best = i
		}
	}
	if best >= 0 {
		s.swap(s.slots[best], prompt)
	}
	return best
}

// swap puts a slot's conversation into memory, and takes the one from there that suits the prompt better. s.mu is held.
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

// remember puts a conversation into memory, unless another one there contains it or it is larger than the memory. The
// oldest go. s.mu is held.
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

// remembered is the size of the memory in use. s.mu is held.
func (s *Server) remembered() int64 {
	var n int64
	for _, c := range s.memory {
		n += int64(len(c)) * s.perToken()
	}
	return n
}

// keepIdle copies all idle slots into memory, as --cache-idle-slots does, and empties them where their cache is shared.
// s.mu is held.
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
