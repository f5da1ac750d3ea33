package process

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// oomMore is what a session's program has more than the supervisor in /proc/PID/oom_score_adj: it counts for half of the
// machine's memory, so that the kernel ends an agent when there is none left, and never the one that would notice.
const oomMore = 500

// oomScore is a process's own oom_score_adj, opened while it may still be: of a process whose memory is protected the file
// belongs to root. The zero value is none.
type oomScore struct {
	file *os.File
	own  int
}

func openOOMScore() (o oomScore) {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return o
	}
	var text [16]byte
	n, _ := f.Read(text[:])
	own, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		_ = f.Close()
		return o
	}
	return oomScore{f, own}
}

// raise lets f start a process that the kernel rather ends than us. Everybody may raise the number and take that back.
func (o oomScore) raise(f func()) {
	if o.file != nil {
		_, _ = o.file.WriteAt([]byte(strconv.Itoa(min(o.own+oomMore, 1000))), 0)
		defer func() { _, _ = o.file.WriteAt([]byte(strconv.Itoa(o.own)), 0) }()
	}
	f()
}

// lessUrgent is what a session is nicer than the supervisor: where there is not enough processor for all, the supervisor,
// and a model that is computed on the same machine, get three times what one process of an agent does.
const lessUrgent = 5

// curb makes what this thread starts from here on less urgent, has it leave no memory images behind, which would hold
// the agent's token and lie in a workspace that is about to be committed, and bounds its account's processes; 0 does not.
// The last bound is one that it could lift, until clamp makes it firm.
func curb(processes uint64) {
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-own+lessUrgent) // the kernel answers 20 less than it
	}
	softLimit(unix.RLIMIT_CORE, 0)
	if processes > 0 {
		softLimit(unix.RLIMIT_NPROC, processes)
	}
}

// softLimit lowers a limit of this process, as far as it can be raised again.
func softLimit(resource int, to uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) == nil {
		l.Cur = min(to, l.Max)
		_ = unix.Setrlimit(resource, &l)
	}
}

// clamp makes the bound of curb firm for the program, where we may (CAP_SYS_RESOURCE, for another account), and lifts it for
// the shim, which needs threads.
func clamp(pid int, processes uint64) {
	if processes == 0 {
		return
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: processes, Max: processes}, nil)
	softLimit(unix.RLIMIT_NPROC, unix.RLIM_INFINITY)
}

// dropCapabilities keeps what this thread starts from ever having a capability: not by inheriting it, nor, by what it
// executes, above the bound. The thread keeps its own. Who is not allowed to lower the bound is stopped by no_new_privs
// alone.
func dropCapabilities() {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) == nil {
		caps[0].Inheritable, caps[1].Inheritable = 0, 0
		_ = unix.Capset(&head, &caps[0])
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
}
