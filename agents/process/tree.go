package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// tree is root and everything below it by the parent chain, as far as a snapshot can tell. The order is that of the
// numbers.
func tree(root int) ([]proc, error) {
	var all []proc
	if err := walk(func(p proc) { all = append(all, p) }); err != nil {
		return nil, err
	}
	in := map[int]bool{root: true}
	for grown := true; grown; { // a child may have a smaller number than its parent once the numbers wrapped
		grown = false
		for _, p := range all {
			if in[p.ppid] && !in[p.pid] {
				in[p.pid], grown = true, true
			}
		}
	}
	members := all[:0]
	for _, p := range all {
		if in[p.pid] {
			members = append(members, p)
		}
	}
	return members, nil
}

// treeCPU is the processor time of the whole tree: the living, and through their parents those that were waited for.
func treeCPU(root int) time.Duration {
	members, err := tree(root)
	if err != nil {
		return 0
	}
	var sum time.Duration
	for _, p := range members {
		sum += p.cpu
	}
	return sum
}

// askTree sends TERM to everything below root, once, and CONT so that a stopped process can act on it. The list is made
// before the first signal: what a process starts in answer, to save its work, is left alone.
func askTree(root int) {
	members, _ := tree(root)
	for _, p := range members {
		if p.pid == root || p.dead() {
			continue
		}
		_ = p.signal(unix.SIGTERM)
		_ = p.signal(unix.SIGCONT)
	}
}

// culled counts what a cull met.
type culled struct {
	alive int // members that still lived
	fresh int // those of them that had not been killed by an earlier one
}

// cull kills while it walks, and follows the children of what it just killed in the same walk. seen remembers the
// killed across walks. Repeated until nothing is alive it converges against any program that forks, because a killed
// process forks no more.
func cull(member func(proc) bool, seen map[proc]bool) (c culled, err error) {
	in := map[int]bool{}
	err = walk(func(p proc) {
		if p.dead() || !(in[p.ppid] || member(p)) {
			return
		}
		in[p.pid] = true
		if p.signal(unix.SIGKILL) == unix.ESRCH {
			return
		}
		c.alive++
		if key := (proc{pid: p.pid, start: p.start}); !seen[key] {
			seen[key] = true
			c.fresh++
		}
	})
	return c, err
}

// nextPause is the time until the next cull: none while they still meet something new, then up to 50 ms, for a process
// that the kernel does not let go.
func nextPause(pause time.Duration, c culled) time.Duration {
	if c.fresh > 0 {
		return 0
	}
	return min(max(2*pause, time.Millisecond), 50*time.Millisecond)
}
