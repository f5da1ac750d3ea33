package process

import (
	"os"
	"path/filepath"
	"strings"
)

// Starved returns how many processes of our own control group, of either version, the kernel has killed because
// memory ran out; 0 where that cannot be known. It is for a process in a session's own group.
func Starved() int64 {
	own, err1 := os.ReadFile("/proc/self/cgroup")
	mounts, err2 := os.ReadFile("/proc/self/mountinfo")
	if err1 != nil || err2 != nil {
		return 0
	}
	return starved(string(own), string(mounts))
}

// starved returns the number from the texts of /proc/self/cgroup and /proc/self/mountinfo.
func starved(own, mounts string) int64 {
	for line := range strings.Lines(own) { // version 1: 4:memory:/the/group
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && f[1] == "memory" {
			n, _ := field(filepath.Join("/sys/fs/cgroup/memory", f[2], "memory.oom_control"), "oom_kill")
			return n
		}
	}
	root := findCgroup(mounts, own)
	if root == "" {
		return 0
	}
	n, _ := field(filepath.Join(root, "memory.events"), "oom_kill")
	return n
}
