// Package tree finds processes through /proc, by their parents, and signals exactly those. Linux only.
//
// It imports next to nothing, so that pid1, which runs before the rest of the program is initialised, can use it.
package tree

import (
	"syscall"
	"time"
)

// Of returns root and every process below it by the parent chain, sorted by number. It is a snapshot.
func Of(root int) ([]Process, error) {
	var all []Process
	if err := Walk(func(p Process) { all = append(all, p) }); err != nil {
		return nil, err
	}
	in := map[int]bool{root: true}
	for grown := true; grown; { // after a wrap a child may have a smaller number than its parent
		grown = false
		for _, p := range all {
			if in[p.PPID] && !in[p.PID] {
				in[p.PID], grown = true, true
			}
		}
	}
	members := all[:0]
	for _, p := range all {
		if in[p.PID] {
			members = append(members, p)
		}
	}
	return members, nil
}

// CPU returns the processor time of the whole tree: of its processes, and of those that they have waited for. It is 0
// where /proc cannot be read.
func CPU(root int) (sum time.Duration) {
	members, _ := Of(root)
	for _, p := range members {
		sum += p.CPU
	}
	return sum
}

// Terminate sends TERM once to every process below root, and CONT so that a stopped process can act on it. The list is
// made before the first signal, so processes that are started in response, to save work, get none.
func Terminate(root int) {
	members, _ := Of(root)
	for _, p := range members {
		if p.PID == root || p.Dead() {
			continue
		}
		_ = p.Signal(syscall.SIGTERM)
		_ = p.Signal(syscall.SIGCONT)
	}
}

// Killer ends every member, however fast members fork. Call KillOnce repeatedly; it kills the members that exist.
type Killer struct {
	// Member reports whether a process is a member. Every process below a member that KillOnce has killed is one too.
	Member func(Process) bool
	// Pause is the time to wait before the next KillOnce. It is zero while KillOnce meets members that it has not killed
	// before. Then it grows to 50 ms, for a process that the kernel does not release.
	Pause  time.Duration
	killed map[ID]bool
}

// KillOnce kills members while it walks, and the children of members in the same walk. alive is the number of members
// that it met. A killed process cannot fork, so eventually KillOnce meets none. After an error there may be members
// that it has not met.
func (h *Killer) KillOnce() (alive int, err error) {
	if h.killed == nil {
		h.killed = make(map[ID]bool)
	}
	before, in := len(h.killed), map[int]bool{}
	err = Walk(func(p Process) {
		if p.Dead() || !(in[p.PPID] || h.Member(p)) {
			return
		}
		in[p.PID] = true
		if p.Signal(syscall.SIGKILL) != syscall.ESRCH {
			alive++
			h.killed[p.ID()] = true
		}
	})
	h.Pause = min(max(2*h.Pause, time.Millisecond), 50*time.Millisecond)
	if err == nil && len(h.killed) > before {
		h.Pause = 0
	}
	return alive, err
}

// Killed returns the number of processes killed so far.
func (h *Killer) Killed() int { return len(h.killed) }
