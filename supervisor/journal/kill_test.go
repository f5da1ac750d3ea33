package journal

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads/ledger"
)

// killAt in this test program's environment makes it the victim: it compacts the journal in the folder killIn, and is
// killed at that system call.
const killAt, killIn = "DISINTO_TEST_KILL_AT", "DISINTO_TEST_KILL_IN"

func TestMain(m *testing.M) {
	if at, err := strconv.Atoi(os.Getenv(killAt)); err == nil {
		fmt.Fprintln(os.Stderr, compactAndDie(os.Getenv(killIn), killPoints[at]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// killPoint is a system call of a compaction. The kernel kills the program before it runs that call.
type killPoint struct {
	name string
	call uintptr
	on   func(journal, next int) int // the descriptor in its first argument; nil for any
}

// The new file gets the next free descriptor. Once the old file is closed, the folder gets the old file's descriptor.
var (
	ofNew  = func(_, next int) int { return next }
	ofOld  = func(journal, _ int) int { return journal }
	folder = ofOld
)

var killPoints = []killPoint{
	{"open the new file", unix.SYS_OPENAT, nil},
	{"write it", unix.SYS_WRITE, ofNew},
	{"sync it", unix.SYS_FSYNC, ofNew},
	{"rename it", unix.SYS_RENAMEAT, nil},
	{"close the old one", unix.SYS_CLOSE, ofOld},
	{"sync the folder", unix.SYS_FSYNC, folder},
}

// compactAndDie returns only if the kill failed.
func compactAndDie(dir string, at killPoint) error {
	state := ledger.New()
	j, _, err := Open(dir, state.Apply)
	if err != nil {
		return err
	}
	r := endRec("r", 2*time.Hour, ledger.End{Result: agents.Done})
	if err := j.Append(r, func() { state.Apply(r) }); err != nil {
		return err
	}
	next, err := unix.Open(dir, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	_ = unix.Close(next)
	fd := -1
	if at.on != nil {
		fd = at.on(int(j.file.Fd()), next)
	}
	if err := killBefore(at.call, fd); err != nil {
		return err
	}
	return errors.Join(errors.New("survived"), j.Rewrite(func() iter.Seq[ledger.Record] { return state.Compaction(noon) }))
}

// killBefore makes the kernel kill this process at its next system call of a kind, if its first argument is fd or fd
// is negative.
func killBefore(call uintptr, fd int) error {
	const (
		number, argument = 0, 16 // offsets in struct seccomp_data
		load             = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal            = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret              = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: number},
		{Code: equal, K: uint32(call), Jf: 3},
		{Code: load, K: argument},
		{Code: equal, K: uint32(fd), Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	if fd < 0 {
		filter[3] = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// A kill between any two system calls of a compaction loses nothing, and the next supervisor compacts again, whatever
// part of a new file the killed one left behind.
func TestKilledWhileCompacting(t *testing.T) {
	before := ledger.Fold(everything(t))
	before.Apply(endRec("r", 2*time.Hour, ledger.End{Result: agents.Done}))
	want := remembered(before)
	for i, point := range killPoints {
		t.Run(point.name, func(t *testing.T) {
			dir := t.TempDir()
			fillJournal(t, dir)
			torn := []byte(`{"at":"2026-11-21T12:00:00Z","forget":{"re`)
			if err := os.WriteFile(filepath.Join(dir, "journal.jsonl.new"), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			victim := exec.Command(os.Args[0])
			victim.Env = append(os.Environ(), fmt.Sprint(killAt, "=", i), killIn+"="+dir)
			out, err := victim.CombinedOutput()
			if status, ok := victim.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != unix.SIGSYS {
				t.Fatalf("the victim was not killed: %v: %s", err, out)
			}
			if diff := cmp.Diff(want, remembered(reopen(t, dir))); diff != "" {
				t.Errorf("after the kill:\n%s", diff)
			}
			state := ledger.New()
			j, _, err := Open(dir, state.Apply)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if err := j.Rewrite(func() iter.Seq[ledger.Record] { return state.Compaction(noon) }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, remembered(reopen(t, dir))); diff != "" {
				t.Errorf("compacted after the kill:\n%s", diff)
			}
		})
	}
}

// fillJournal writes a journal with a line of each kind.
func fillJournal(t *testing.T, dir string) {
	t.Helper()
	j, _, err := Open(dir, func(ledger.Record) {})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, r := range everything(t) {
		if err := j.Append(r, func() {}); err != nil {
			t.Fatal(err)
		}
	}
}
