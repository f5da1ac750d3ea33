package process

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Room measures the room for new processes, in bytes: the memory that can be used before the kernel kills a process,
// and the disk space at dir. A value that cannot be measured is math.MaxInt64.
func Room(dir string) (memory, disk int64) {
	return freeMemory("/proc", "/sys/fs/cgroup"), freeDisk(dir)
}

// freeMemory returns the smaller of the memory that the machine and the container's cgroup have left. Cached file
// pages not in use count as free, because the kernel drops them before it kills.
func freeMemory(proc, cgroup string) int64 {
	free := int64(math.MaxInt64)
	if kB, ok := field(filepath.Join(proc, "meminfo"), "MemAvailable:"); ok {
		free = kB << 10
	}
	limit, limited := wholeNumber(filepath.Join(cgroup, "memory.max"))
	used, known := wholeNumber(filepath.Join(cgroup, "memory.current"))
	if limited && known {
		idle, _ := field(filepath.Join(cgroup, "memory.stat"), "inactive_file")
		free = min(free, max(0, limit-used+idle))
	}
	return free
}

// freeDisk returns how many bytes an account other than root can still write.
func freeDisk(dir string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Bsize <= 0 || s.Bavail > math.MaxInt64/uint64(s.Bsize) {
		return math.MaxInt64
	}
	return int64(s.Bavail) * s.Bsize
}

// field returns the number after a name in a file of lines such as "name 12 kB"; false if there is none.
func field(file, name string) (int64, bool) {
	text, _ := os.ReadFile(file)
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) > 1 && string(words[0]) == name {
			n, err := strconv.ParseInt(string(words[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// wholeNumber returns the number in a file; false if there is none, as in a limit of "max".
func wholeNumber(file string) (int64, bool) {
	text, _ := os.ReadFile(file)
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}
