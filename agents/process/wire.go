package process

import (
	"slices"
	"strings"
	"syscall"
	"time"
)

// The supervisor and a session's shim exchange JSON documents over a socket pair. The supervisor orders one start and
// then any number of ends. The shim reports the start and, if that succeeded, the end. When the supervisor is killed,
// the socket closes; the shim treats that as an order to end. A shim may be older than its supervisor, so documents
// may only gain fields.

// startOrder is the order to start a program. It travels over the socket because the environment holds the agent's
// token, and any user can read a process's arguments.
type startOrder struct {
	Path   []byte // bytes, here and below: JSON strings would change other bytes than UTF-8
	Dir    []byte
	Argv   []byte              // packed
	Env    []byte              // packed
	Cred   *syscall.Credential `json:",omitempty"` // nil means the shim's own account
	Cgroup string              `json:",omitempty"` // the session's cgroup, also open as shimCgroup
	// Limited means that the session's cgroup enforces its limits. NProc limits the account's processes where no cgroup
	// does.
	Limited bool          `json:",omitempty"`
	NProc   uint64        `json:",omitempty"`
	Sandbox *sandboxOrder `json:",omitempty"`
	Service bool          `json:",omitempty"` // keeps the supervisor's priority and oom_score_adj
	MaxLog  int64         `json:",omitempty"` // bound of the log, the shim's stdout, in bytes; 0 means none
	Log     []byte        `json:",omitempty"` // path of the log
	// StopSignal goes to the program alone when the tree is to end; 0 means TERM to every process of the tree.
	StopSignal syscall.Signal `json:",omitempty"`
}

// endOrder orders the end of the tree. Grace is the time from TERM to KILL. A later order can only shorten it.
type endOrder struct {
	Grace time.Duration
}

// startReport says that the program runs, or why not.
type startReport struct {
	PID   int           `json:",omitempty"`
	Errno syscall.Errno `json:",omitempty"`
	// NoSandbox says why the program is not restricted although the order asked for it. If the sandbox is strict, the
	// program does not run either.
	NoSandbox string `json:",omitempty"`
}

// endReport says that no process is left below the shim.
type endReport struct {
	Status syscall.WaitStatus // of the program itself
	Ended  bool               // it was still running when the first order to end came
	CPU    time.Duration
	MaxRSS int64 // bytes
	Hits   hits
}

// pack joins strings without NUL, each followed by a NUL.
func pack(list []string) []byte {
	return []byte(strings.Join(slices.Concat(list, []string{""}), "\x00"))
}

// unpack undoes pack.
func unpack(b []byte) []string {
	list := strings.Split(string(b), "\x00")
	return list[:len(list)-1]
}
