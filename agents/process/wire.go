package process

import (
	"slices"
	"strings"
	"syscall"
	"time"
)

// The supervisor and a session's shim talk over a socket pair, in JSON documents. The supervisor orders one start and
// then any number of ends; the shim reports the start and, if that was good, the end. When the supervisor is killed the
// socket closes, which is an order to end too. A shim may be older than its supervisor: documents only grow.

// startOrder says what the shim is to start. It goes over the socket because the environment holds the agent's token,
// and any user can read the arguments of a process.
type startOrder struct {
	Path   []byte // bytes, here and below: JSON strings would change what is not UTF-8
	Dir    []byte
	Argv   []byte              // packed
	Env    []byte              // packed
	Cred   *syscall.Credential `json:",omitempty"` // nil means the shim's own
	Cgroup string              `json:",omitempty"` // the session's cgroup, also open as shimCgroup
	// Limited says that the session's limits are those of its cgroup; NProc is the limit of its account's processes where
	// no cgroup has one.
	Limited bool          `json:",omitempty"`
	NProc   uint64        `json:",omitempty"`
	Sandbox *sandboxOrder `json:",omitempty"`
	Service bool          `json:",omitempty"` // neither less urgent than the supervisor nor killed before it
	MaxLog  int64         `json:",omitempty"` // of the log, which is the shim's stdout; 0 means any size
}

// endOrder asks for the end of the tree. Grace is the time from TERM to KILL. A later order can only shorten it.
type endOrder struct {
	Grace time.Duration
}

// startReport says that the program runs, or why not.
type startReport struct {
	PID   int           `json:",omitempty"`
	Errno syscall.Errno `json:",omitempty"`
	// NoSandbox says why the program is not restricted although it was to be. Where that was a condition, it does not
	// run either.
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
