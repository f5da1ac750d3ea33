package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// oomMore is added to the supervisor's /proc/PID/oom_score_adj for a session's program. It counts for half of the
// machine's memory: when memory runs out, the kernel kills an agent and never the supervisor, which would notice.
const oomMore = 500

// oomScore is a process's own oom_score_adj, opened before the memory of the process is protected: after that the file
// belongs to root. The zero value is none.
type oomScore struct {
	file *os.File
	own  int
}

func openOOMScore() (o oomScore) {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err == nil {
		_, err = fmt.Fscan(f, &o.own)
	}
	if err == nil {
		o.file = f
	}
	return o
}

// raise lets f start a process that the kernel kills before us. Any process may raise its number and take that back.
func (o oomScore) raise(f func()) {
	if o.file != nil {
		_, _ = o.file.WriteAt([]byte(strconv.Itoa(min(o.own+oomMore, 1000))), 0)
		defer func() { _, _ = o.file.WriteAt([]byte(strconv.Itoa(o.own)), 0) }()
	}
	f()
}

// lessUrgent is how many steps of nice a session's program is less urgent than its supervisor. Where there is not
// enough processor for all, the supervisor, and a model that is computed on the same machine, get three times what one
// process of an agent does.
const lessUrgent = 5

// curb makes the processes that this thread starts less urgent, and limits those of the account; 0 sets no limit. The
// program could lift that limit until clamp makes it firm. curb also prevents core files: they would hold the agent's
// token, in a workspace that is about to be committed.
func curb(processes uint64) {
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-own+lessUrgent) // the kernel answers 20 - nice
	}
	softLimit(unix.RLIMIT_CORE, 0)
	if processes > 0 {
		softLimit(unix.RLIMIT_NPROC, processes)
	}
}

// softLimit lowers a limit of this process so that it can be raised again.
func softLimit(resource int, to uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) == nil {
		l.Cur = min(to, l.Max)
		_ = unix.Setrlimit(resource, &l)
	}
}

// clamp makes the limit of curb firm for the program, where we may (CAP_SYS_RESOURCE, for another account), and lifts
// it for the shim, which needs threads.
func clamp(pid int, processes uint64) {
	if processes == 0 {
		return
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: processes, Max: processes}, nil)
	softLimit(unix.RLIMIT_NPROC, unix.RLIM_INFINITY)
}

// around are the capabilities with which root reaches around its sandbox: to read the memory and environment of other
// processes, to open files by their handles and disks as devices, and to change the kernel.
var around = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_BPF, unix.CAP_DAC_READ_SEARCH, unix.CAP_MKNOD,
	unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT,
}

// dropCapabilities keeps the processes that this thread starts from ever having a capability among these, or any where
// these are nil, by inheriting it or by executing a file. The thread keeps its own. Without the right to lower the
// bounding set, no_new_privs alone prevents it.
func dropCapabilities(these []uintptr) {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) == nil {
		caps[0].Inheritable, caps[1].Inheritable = 0, 0
		_ = unix.Capset(&head, &caps[0])
	}
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		if these == nil || slices.Contains(these, c) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
}
