package pid1

import (
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// HasInit reports whether this process is a supervisor with an init.
func HasInit() bool { return hasInit }

var hasInit bool

// attend prepares a supervisor that an init has started: its memory is protected before its secrets arrive, and it
// ignores the signals that mean a stop, because its init tells it to stop. They are caught: its children would inherit
// ignored ones.
func attend() {
	hasInit = true
	setName()
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_DUMPABLE, 0, 0)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	signal.Notify(Signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	syscall.CloseOnExec(InitSocket)
	f := os.NewFile(initEnv, "environment")
	text, _ := io.ReadAll(f)
	_ = f.Close()
	os.Clearenv()
	for kv := range strings.SplitSeq(string(text), "\x00") {
		if k, v, ok := strings.Cut(kv, "="); ok {
			_ = os.Setenv(k, v)
		}
	}
}
