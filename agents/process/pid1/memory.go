package pid1

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname
)

// shrinkAfter is how long the command runs before shrink. A command that ends sooner never pays for shrink, which
// takes a millisecond.
const shrinkAfter = 50 * time.Millisecond

// shrink makes the process small for a wait that may last months.
func shrink() {
	// An idle init allocates next to nothing, and the collector would wake it every two minutes.
	setGCPercent(-1)
	setMemoryLimit(8 << 20)
	DropBinary()
}

// setGCPercent and setMemoryLimit are debug.SetGCPercent and debug.SetMemoryLimit. Importing runtime/debug would
// delay this package's init.

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(bytes int64) (before int64)

// StartThreads makes the runtime start and keep n threads. A Go program that needs a thread and gets none dies in
// newosproc. Another supervisor died that way in 3 of 4 tries, as PID 1 at its pids limit, and ended its container.
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

// DropBinary releases the resident pages of this program's file, except writable ones. The start touches nearly all
// of the file and an idle process very little, yet the kernel keeps mapped pages mapped. A page needed again comes
// back from the page cache. Failures are ignored: the pages stay.
func DropBinary() {
	binary, err1 := os.Readlink(self)
	maps, err2 := os.ReadFile("/proc/self/maps")
	if err1 != nil || err2 != nil {
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
