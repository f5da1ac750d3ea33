package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/gate"
)

// A supervisor and a session's shim exchange messages over a SOCK_SEQPACKET pair: one write is one message, a JSON
// document. The supervisor sends orders, and the shim answers each with its whole state. Orders may be repeated. The
// shim also sends its state when the program runs and when no process is left. A shim may be older than its
// supervisor, so documents may only gain fields.

// Protocol is the version of these messages and of those between supervisor and init. A supervisor speaks this one and
// the one before it.
const Protocol = 1

// order is a message to a shim. One without any order asks for the state.
type order struct {
	// Gen is the generation of the sender. A shim ignores the orders of a lower generation than it has seen.
	Gen uint32 `json:"gen"`
	// Start starts the program of the start order, the commit point. Before it, an order to end or to leave, or the end
	// of the socket, makes the shim exit without starting anything.
	Start bool `json:"start,omitempty"`
	// End ends the tree. The first reason counts; a later order can only shorten the grace.
	End *endOrder `json:"end,omitempty"`
	// Leave lets the shim exit as soon as no process is left. Without it the shim stays, and keeps the outcome.
	Leave bool `json:"leave,omitempty"`
}

// endOrder orders the end of the tree, TERM at once and KILL after the grace.
type endOrder struct {
	Grace time.Duration `json:"grace,omitempty"`
	verdict
}

// verdict is why we ended a session. Its zero value means that we did not.
type verdict struct {
	Result agents.Result `json:"result,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// anyGeneration is the highest generation: that of the init, and of nobody, when init and supervisor are gone.
const anyGeneration = math.MaxUint32

// ownGeneration is the generation of this supervisor: the time since boot, in seconds. A supervisor starts no earlier
// than the last one was killed.
func ownGeneration() uint32 { return uint32(bootTime() / time.Second) }

// phase is what a shim does.
type phase string

// The phases.
const (
	waiting phase = "waiting" // for the order to start
	runs    phase = "running"
	ended   phase = "ended" // no process is left, or the program could not be started
)

// shimState is all that a shim knows.
type shimState struct {
	Gen   uint32 `json:"gen"`
	Phase phase  `json:"phase"`
	// Program is the program's process number; 0 if it was not started. Begun is when it was, and Since the same as the
	// time since boot.
	Program int           `json:"program,omitempty"`
	Begun   time.Time     `json:"begun,omitzero"`
	Since   time.Duration `json:"since,omitempty"`
	Errno   syscall.Errno `json:"errno,omitempty"` // why the program was not started
	// NoSandbox says why the program is not restricted although the order asked for it. If the sandbox is strict, the
	// program does not run either.
	NoSandbox string `json:"no_sandbox,omitempty"`
	// Refused are the hosts that its egress did not allow, in the phase ended.
	Refused agents.Refusals `json:"refused,omitempty"`
	// Verdict is the reason of the first order to end, if that came before the program's own end.
	Verdict verdict `json:"verdict,omitzero"`

	// The rest is set in the phase ended.
	At     time.Time          `json:"at,omitzero"`      // of the end
	Status syscall.WaitStatus `json:"status,omitempty"` // of the program itself
	CPU    time.Duration      `json:"cpu,omitempty"`
	MaxRSS int64              `json:"max_rss,omitempty"` // bytes
	Hits   hits               `json:"hits,omitzero"`
}

// startOrder says what to start. It is in a file in memory that the shim inherits, because the environment holds the
// agent's token, and may be larger than a message.
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
	Egress  *gate.Order   `json:",omitempty"` // nil: all hosts
	Service bool          `json:",omitempty"` // keeps the supervisor's priority, oom_score_adj and capabilities
	Root    bool          `json:",omitempty"` // as in agents.Job
	MaxLog  int64         `json:",omitempty"` // bound of the log, the shim's stdout, in bytes; 0 means none
	Log     []byte        `json:",omitempty"` // path of the log
	// StopSignal goes to the program alone when the tree is to end; 0 means TERM to every process of the tree.
	StopSignal syscall.Signal `json:",omitempty"`

	Timeout time.Duration `json:",omitempty"` // from the start until the shim ends the tree itself; 0 means never
	Late    endOrder      // the order that the shim then gives itself
}

// maxText bounds a message, in bytes. The longest part of one is a reason of at most maxReason.
const (
	maxText   = 16 << 10
	maxReason = 2 << 10 // each of its bytes takes up to six in JSON
)

// sendMessage writes one message.
func sendMessage(socket *os.File, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = socket.Write(text)
	}
	return err
}

// receiveMessage waits for one message. An error other than io.EOF is that of a message, not of the socket.
func receiveMessage(socket *os.File, buf []byte, v any) error {
	n, err := socket.Read(buf)
	if errors.Is(err, unix.ECONNRESET) { // the other end was closed with unread messages; ours may still wait
		n, err = socket.Read(buf)
	}
	if err != nil {
		return io.EOF
	}
	return json.Unmarshal(buf[:n], v)
}

// inMemory makes a file in memory. It disappears with the last process that has it open.
func inMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("disinto-"+name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// writeDocument fills a file in memory with a JSON document.
func writeDocument(f *os.File, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	return err
}

// readDocument reads a file of writeDocument.
func readDocument(f *os.File, v any) error {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(v)
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

// bootTime is the time since boot without the time in which the machine was suspended, for all processes the same. A
// laptop that slept for the night ended every session at its timeout, and each counted as an attempt.
func bootTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// bootAfter fires at a time since boot, or earlier: ask bootTime again. It never fires for the zero time.
func bootAfter(at time.Duration) <-chan time.Time {
	if at == 0 {
		return nil
	}
	return time.After(min(max(at-bootTime(), 0), time.Minute))
}
