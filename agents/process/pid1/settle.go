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

// settleTime is how long the command runs before settle. A command that ends sooner is spared that millisecond.
const settleTime = 50 * time.Millisecond

// settle makes the process small and safe for what may be months of waiting.
func settle() {
	quiet()
	StartThreads(4)
	DropBinary()
}

// StartThreads makes the runtime start n threads, which it keeps. A Go program that needs a thread and gets none dies
// in newosproc. Another supervisor did so in 3 of 4 tries, as PID 1 at its pids limit, and took its container with it.
func StartThreads(n int) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread() // each goroutine keeps a thread of its own until all are there
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		})
	}
	done.Wait()
}

// DropBinary releases the resident pages of this program's file, except writable ones. The start touches nearly all of
// the file and a process at rest very little, yet the kernel keeps mapped pages mapped. A page needed again comes back
// from the page cache. Failures are ignored: the pages stay.
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
