package pid1

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// settleTime is how long the command runs before settle.
const settleTime = 50 * time.Millisecond

// settle makes the process small and safe for what may be months of waiting.
func settle() {
	StartThreads(4)
	DropBinary()
}

// StartThreads makes the runtime start n threads, which it keeps. A Go program that needs a thread and gets none dies
// (newosproc); as PID 1 in a container at its pids limit it takes the container with it, 3 times of 4 when it was tried
// with another supervisor.
func StartThreads(n int) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread() // each goroutine needs a thread of its own until all are there
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		})
	}
	done.Wait()
}

// DropBinary takes the pages of this program's file out of memory, as far as nobody can have written to them. The
// start touches nearly all of the file and a process at rest very little, but the kernel leaves what was once mapped
// mapped. What is needed again comes back from the page cache.
func DropBinary() {
	binary, err := os.Readlink(self)
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[5] != binary || strings.Contains(fields[1], "w") {
			continue
		}
		first, last, _ := strings.Cut(fields[0], "-")
		from, err1 := strconv.ParseUint(first, 16, 64)
		to, err2 := strconv.ParseUint(last, 16, 64)
		if err1 == nil && err2 == nil {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, uintptr(from), uintptr(to-from), syscall.MADV_DONTNEED)
		}
	}
}
