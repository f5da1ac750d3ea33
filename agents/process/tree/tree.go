// Package tree finds processes through /proc, by their parents, and signals exactly those. Linux only.
//
// It imports next to nothing, so that the init for one command, which starts before the rest of the program is
// initialised, can use it.
package tree

import (
	"syscall"
	"time"
)

// Of is root and everything below it by the parent chain, as far as a snapshot can tell. The order is that of the
// numbers.
func Of(root int) ([]Process, error) {
	var all []Process
	if err := Walk(func(p Process) { all = append(all, p) }); err != nil {
		return nil, err
	}
	in := map[int]bool{root: true}
	for grown := true; grown; { // a child may have a smaller number than its parent once the numbers wrapped
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

// CPU is the processor time of the whole tree: the living, and through their parents those that were waited for.
func CPU(root int) time.Duration {
	members, err := Of(root)
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, p := range members {
		sum += p.CPU
	}
	return sum
}

// Ask sends TERM to everything below root, once, and CONT so that a stopped process can act on it. The list is made
// before the first signal: what a process starts in answer, to save its work, is left alone.
func Ask(root int) {
	members, _ := Of(root)
	for _, p := range members {
		if p.PID == root || p.Dead() {
			continue
		}
		_ = p.Signal(syscall.SIGTERM)
		_ = p.Signal(syscall.SIGCONT)
	}
}

// Culled counts what a Cull met.
type Culled struct {
	Alive int // members that still lived
	Fresh int // those of them that had not been killed by an earlier one
}

// Cull kills while it walks, and follows the children of what it just killed in the same walk. seen remembers the
// killed across walks. Repeated until nothing is alive it converges against any program that forks, because a killed
// process forks no more.
func Cull(member func(Process) bool, seen map[Process]bool) (c Culled, err error) {
	in := map[int]bool{}
	err = Walk(func(p Process) {
		if p.Dead() || !(in[p.PPID] || member(p)) {
			return
		}
		in[p.PID] = true
		if p.Signal(syscall.SIGKILL) == syscall.ESRCH {
			return
		}
		c.Alive++
		if key := (Process{PID: p.PID, Start: p.Start}); !seen[key] {
			seen[key] = true
			c.Fresh++
		}
	})
	return c, err
}

// Pause is the time until the next Cull, given the one before this: none while they still meet something new, then up to 50 ms, for a process
// that the kernel does not let go.
func (c Culled) Pause(before time.Duration) time.Duration {
	if c.Fresh > 0 {
		return 0
	}
	return min(max(2*before, time.Millisecond), 50*time.Millisecond)
}
