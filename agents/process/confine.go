package process

import (
	"fmt"
	"os"
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

// yield makes the processes that this thread starts less urgent.
func yield() {
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-own+lessUrgent) // the kernel answers 20 - nice
	}
}

// curb limits the processes of the account; 0 sets no limit. The program could lift that limit until clamp makes it
// firm. curb also prevents core files: they would hold the agent's token, in a workspace that is about to be committed.
func curb(processes uint64) {
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

// ordinary are the capabilities that root keeps in a sandbox: those by which package managers and installers work on
// files, take ports below 1024 and become other users. All others reach around the sandbox: they read the memory of
// processes and every packet of the machine, open disks as devices, and set the clock. A list of what to drop would
// miss what the next kernel adds.
const ordinary capabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

// capabilities are a set of them, by their numbers.
type capabilities uint64

// dropCapabilities keeps the processes that this thread starts from ever having a capability that is not among keep, by
// inheriting it or by executing a file. The thread itself loses the others too, unless keep is empty: then it becomes
// another user first, who has none. With no_new_privs that holds without the right to lower the bounding set.
func dropCapabilities(keep capabilities) {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		if keep>>c&1 == 0 {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) != nil {
		return
	}
	for i := range caps {
		caps[i].Inheritable = 0
		if keep != 0 {
			kept := uint32(keep >> (32 * i))
			caps[i].Permitted &= kept
			caps[i].Effective &= kept
		}
	}
	_ = unix.Capset(&head, &caps[0])
}
