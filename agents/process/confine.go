package process

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// oomMore is added to the supervisor's /proc/PID/oom_score_adj for a session's program. It weighs as much as half of
// the machine's memory. So when memory runs out, the kernel never kills the supervisor, but an agent, and the
// supervisor notices that.
const oomMore = 500

// oomScore is a process's own oom_score_adj. The file is opened before the process's memory is protected, because
// afterwards it belongs to root. The zero value is none.
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

// raise calls f with a higher score, which f's child processes inherit: the kernel kills them before us. Any process
// may raise its score and lower it again.
func (o oomScore) raise(f func()) {
	if o.file != nil {
		_, _ = o.file.WriteAt([]byte(strconv.Itoa(min(o.own+oomMore, 1000))), 0)
		defer func() { _, _ = o.file.WriteAt([]byte(strconv.Itoa(o.own)), 0) }()
	}
	f()
}

// lessUrgent is how many steps of nice a session's program ranks below its supervisor. When processors are scarce,
// the supervisor, and a model that runs on the same machine, get three times the share of one agent process.
const lessUrgent = 5

// lowerPriority raises the nice value of the processes that this thread starts.
func lowerPriority() {
	if own, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-own+lessUrgent) // the kernel answers 20 - nice
	}
}

// limitProcesses limits the account's processes; 0 sets no limit. The program could lift that limit until hardenLimit
// makes it firm. It also prevents core files: they would hold the agent's token, in a workspace that will be committed.
func limitProcesses(processes uint64) {
	softLimit(unix.RLIMIT_CORE, 0)
	if processes > 0 {
		softLimit(unix.RLIMIT_NPROC, processes)
	}
}

// softLimit lowers a soft limit of this process, which can be raised again.
func softLimit(resource int, to uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) == nil {
		l.Cur = min(to, l.Max)
		_ = unix.Setrlimit(resource, &l)
	}
}

// hardenLimit makes limitProcesses' limit firm for the program, where we may (CAP_SYS_RESOURCE, for another account),
// and lifts it for the shim, which needs threads.
func hardenLimit(pid int, processes uint64) {
	if processes == 0 {
		return
	}
	_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: processes, Max: processes}, nil)
	softLimit(unix.RLIMIT_NPROC, unix.RLIM_INFINITY)
}

// ordinary are the capabilities that root keeps in a sandbox if its role has root = true: those with which package
// managers and installers change files, bind ports below 1024 and become other users. All others bypass the sandbox:
// they read the memory of processes and every packet of the machine, open disks as devices, and set the clock. A list
// of capabilities to drop would miss those that the next kernel adds.
const ordinary capabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE

// fewest are the capabilities that root keeps otherwise. Without the others it is an account like any other that owns
// many files.
const fewest capabilities = 1 << unix.CAP_NET_BIND_SERVICE

// everyCapability is the set of all that the supervisor has.
const everyCapability = ^capabilities(0)

// capabilities is a set of capabilities, one bit for each number.
type capabilities uint64

// capabilities returns those that the program keeps if it runs as root.
func (o *startOrder) capabilities() capabilities {
	switch {
	case o.Cred != nil: // another account has none
		return 0
	case o.Service || o.Root && o.Sandbox == nil:
		return everyCapability
	case o.Root:
		return ordinary
	}
	return fewest
}

// dropCapabilities prevents the processes that this thread starts from ever gaining a capability outside keep, by
// inheritance or by executing a file. The thread loses those capabilities too, unless keep is empty: then it first
// becomes another user, who has none. With no_new_privs that holds even without the right to lower the bounding set.
// A thread that the shim still needs, for cgroups, keeps its own if the bounding set could be lowered, which suffices.
func dropCapabilities(keep capabilities, needed bool) {
	lowered := true
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for c := uintptr(0); unix.Prctl(unix.PR_CAPBSET_READ, c, 0, 0, 0) == nil; c++ {
		if keep>>c&1 == 0 {
			lowered = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) == nil && lowered
		}
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if unix.Capget(&head, &caps[0]) != nil {
		return
	}
	for i := range caps {
		caps[i].Inheritable = 0
		if keep != 0 && !(needed && lowered) {
			kept := uint32(keep >> (32 * i))
			caps[i].Permitted &= kept
			caps[i].Effective &= kept
		}
	}
	_ = unix.Capset(&head, &caps[0])
}
