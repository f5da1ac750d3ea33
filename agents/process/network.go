package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/gate"
)

// networkArg as the first argument makes any program that imports this package try to give a thread a network of its
// own. It prints why that fails.
const networkArg = "session-network"

func init() {
	if len(os.Args) > 1 && os.Args[1] == networkArg {
		runtime.LockOSThread()
		if err := gate.OwnNetwork(); err != nil {
			fmt.Print(err)
		}
		syscall.Exit(0)
	}
}

// shimAttr returns the attributes of a shim. Only with CAP_SYS_ADMIN can a thread of it make a network. A supervisor
// without rights starts the shim in a user namespace in which it has that capability; the program there has none.
func shimAttr(ownNetwork bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if uid := os.Geteuid(); ownNetwork && uid != 0 {
		attr.Cloneflags = unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE}
	}
	return attr
}

// sandboxNetwork says why sessions have no network of their own. Tests replace it.
var sandboxNetwork = sync.OnceValue(findNetwork)

// findNetwork tries to give a process a network of its own, as a session gets it. The error says what forbids it.
func findNetwork() error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	defer from.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"disinto", networkArg}, &syscall.ProcAttr{
		Files: []uintptr{to.Fd(), to.Fd(), to.Fd()}, Sys: shimAttr(true),
	})
	to.Close()
	if err != nil {
		return forbidden(fmt.Errorf("cannot make a user namespace: %w", err))
	}
	said, err := io.ReadAll(io.LimitReader(from, maxReason))
	_, _ = syscall.Wait4(pid, nil, 0, nil) // a reaper may be first
	if err == nil && len(said) > 0 {
		err = errors.New(string(said))
	}
	return forbidden(err)
}

// forbidden adds what probably forbids namespaces.
func forbidden(err error) error {
	if err == nil {
		return nil
	}
	setting := func(name string) string {
		text, _ := os.ReadFile("/proc/sys/" + name)
		return strings.TrimSpace(string(text))
	}
	why := "the container's seccomp profile, perhaps"
	switch {
	case os.Geteuid() == 0:
		why = "root needs the capabilities SYS_ADMIN and NET_ADMIN"
	case setting("kernel/unprivileged_userns_clone") == "0":
		why = "kernel.unprivileged_userns_clone is 0"
	case setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		why = "kernel.apparmor_restrict_unprivileged_userns is 1"
	case setting("user/max_user_namespaces") == "0":
		why = "user.max_user_namespaces is 0"
	}
	return fmt.Errorf("%w (%s)", err, why)
}
