package pid1

import (
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The exit codes of a shell for a command that did not run, or that a signal ended.
const (
	exitFailed       = 1
	exitNoExecutable = 126
	exitNotFound     = 127
	exitSignal       = 128 // plus the signal's number
)

const (
	// StartPatience is how long a start is retried while the machine has no room for another process.
	StartPatience = time.Minute
	// StartPause is the first pause between two tries. Each pause is twice the one before, up to 5 s.
	StartPause = 100 * time.Millisecond
)

// start starts the command. If it cannot, code is the exit code for the reason.
func (c *command) start() (code int, ok bool) {
	c.role.prepare()
	name := c.Command[0]
	paths, env, dir := candidates(name), environ(), leaveFolder()
	var err error
	for pause, began := StartPause, time.Now(); ; pause = min(2*pause, 5*time.Second) {
		if c.pid, err = c.fork(paths, env, dir); err == nil {
			c.role.spawned(name, c.pid, c.session())
			return 0, true
		}
		if err != syscall.EAGAIN && err != syscall.ENOMEM || time.Since(began) > StartPatience {
			break
		}
		if pause == StartPause {
			printFailure(name, err.Error()+": no room for another process (is there a pids limit?), trying again for "+
				StartPatience.String())
		}
		for until := time.Now().Add(pause); time.Now().Before(until); {
			if s := await(until); s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT {
				return exitSignal + int(s), false
			}
		}
	}
	return c.role.reportFailure(name, err), false
}

// exitCode returns a shell's exit code for a command that the kernel refuses to start.
func exitCode(err error) int {
	switch err {
	case syscall.ENOENT:
		return exitNotFound
	case syscall.EAGAIN, syscall.ENOMEM:
		return exitFailed
	}
	return exitNoExecutable
}

// leaveFolder moves to the root, because the volume of our working directory could otherwise never be unmounted. It
// returns the directory, for the command to start in. If the command could not get back in, it does not move and
// returns "".
func leaveFolder() string {
	dir, err := syscall.Getwd()
	if err != nil || syscall.Chdir(dir) != nil {
		return ""
	}
	_ = syscall.Chdir("/")
	return dir
}

// fork starts the first of these programs that the kernel accepts, as execvp does, in a process group of its own, and
// with our terminal if we own it. A program that may not be executed, or whose interpreter is missing, does not end the
// search; the error is then EACCES if there was one. The error of a lone program is the kernel's.
func (c *command) fork(paths, env []string, dir string) (pid int, err error) {
	c.terminal = ownsTerminal()
	denied := false
	for _, path := range paths {
		b := &child{
			session: c.session(), terminal: c.terminal, path: path, dir: dir, argv: c.Command, env: env,
		}
		if pid, err = b.fork(); err == syscall.ENOEXEC {
			b.path, b.argv = shell, append([]string{shell, path}, c.Command[1:]...)
			pid, err = b.fork()
		}
		switch err {
		case syscall.EACCES:
			denied = true
		case syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE, syscall.ENODEV, syscall.ETIMEDOUT:
		default:
			return pid, err
		}
	}
	switch {
	case denied:
		err = syscall.EACCES
	case len(paths) != 1:
		err = syscall.ENOENT
	}
	return 0, err
}

// session reports whether the command gets a session of its own, as with dumb-init. A command that gets our terminal
// stays in our session, to which the terminal belongs.
func (c *command) session() bool { return c.role.name == dumbInit && !c.Single && !c.terminal }

// shell runs an executable file that neither is a program nor begins with #!, as execvp does.
const shell = "/bin/sh"

// candidates returns the files of that name in the folders of PATH. A name with a slash is left to the kernel.
func candidates(name string) (paths []string) {
	if strings.Contains(name, "/") || name == "" {
		return []string{name}
	}
	list, ok := syscall.Getenv("PATH")
	if !ok {
		list = "/usr/local/bin:/usr/bin:/bin"
	}
	for dir := range strings.SplitSeq(list, ":") {
		if dir == "" {
			dir = "."
		}
		var st syscall.Stat_t
		path := dir + "/" + name
		if err := syscall.Stat(path, &st); err != syscall.ENOENT && err != syscall.ENOTDIR {
			paths = append(paths, path)
		}
	}
	return paths
}

// Executable reports whether there is such a program. name is searched for in PATH, unless it is a path.
func Executable(name string) bool {
	for _, path := range candidates(name) {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR &&
			(st.Mode&0o111 != 0 || strings.Contains(name, "/")) {
			return true
		}
	}
	return false
}

// leastPids is the number of processes that an init with one process takes: Go's runtime starts up to five threads.
// With a lower limit the runtime may end us before our first instruction. Of 60 commands under a limit of five, eight
// found no room.
const leastPids = 6

// pidsLimit returns the pids limit of the container; MaxInt without one, and outside a container.
func pidsLimit() int {
	for _, path := range []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"} { // cgroups 2 and 1
		text, err := readAll(path)
		if err != nil {
			continue
		}
		if max, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return max
		}
	}
	return math.MaxInt
}
