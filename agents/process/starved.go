package process

import (
	"os"
	"path/filepath"
	"strings"
)

// Starved returns how many processes of our own control group, of either version, the kernel has killed. It is 0 if the
// group never reached its own limit of memory, because a full machine says nothing about a session, and where it is
// unknown. It is for a process in a session's own group.
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
			group := filepath.Join("/sys/fs/cgroup/memory", f[2])
			hits, err := os.ReadFile(filepath.Join(group, "memory.failcnt"))
			if err != nil || strings.TrimSpace(string(hits)) == "0" {
				return 0
			}
			n, _ := field(filepath.Join(group, "memory.oom_control"), "oom_kill")
			return n
		}
	}
	root := findCgroup(mounts, own)
	if root == "" {
		return 0
	}
	events := filepath.Join(root, "memory.events")
	if full, _ := field(events, "oom"); full == 0 {
		return 0
	}
	n, _ := field(events, "oom_kill")
	return n
}
