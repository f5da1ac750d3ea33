package pid1

import (
	"os"
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
	path, err := find(name)
	dir := leaveFolder()
	for pause, began := StartPause, time.Now(); err == nil; pause = min(2*pause, 5*time.Second) {
		if c.pid, err = c.fork(path, dir); err == nil {
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
		err = nil
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

// fork starts the program at path, in a process group of its own, and with our terminal if we own it.
func (c *command) fork(path, dir string) (int, error) {
	c.terminal = ownsTerminal()
	b := &child{
		session: c.session(), terminal: c.terminal,
		path: path, dir: dir, argv: c.Command, env: os.Environ(),
	}
	pid, err := b.fork()
	if err == syscall.ENOEXEC {
		b.path, b.argv = shell, append([]string{shell, path}, c.Command[1:]...)
		pid, err = b.fork()
	}
	return pid, err
}

// session reports whether the command gets a session of its own, as with dumb-init. A command that gets our terminal
// stays in our session, to which the terminal belongs.
func (c *command) session() bool { return c.role.name == dumbInit && !c.Single && !c.terminal }

// shell runs an executable file that neither is a program nor begins with #!, as execvp does.
const shell = "/bin/sh"

// find searches as execvp does. A name with a slash is left to the kernel.
func find(name string) (path string, err error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	list, ok := syscall.Getenv("PATH")
	if !ok {
		list = "/usr/local/bin:/usr/bin:/bin"
	}
	err = syscall.ENOENT
	for dir := range strings.SplitSeq(list, ":") {
		if dir == "" {
			dir = "."
		}
		var st syscall.Stat_t
		path := dir + "/" + name
		if name == "" || syscall.Stat(path, &st) != nil {
			continue
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Mode&0o111 != 0 {
			return path, nil
		}
		err = syscall.EACCES // found, but not executable
	}
	return "", err
}

// Executable reports whether there is such a program. name is searched for in PATH, unless it is a path.
func Executable(name string) bool {
	path, err := find(name)
	var st syscall.Stat_t
	return err == nil && syscall.Stat(path, &st) == nil && st.Mode&syscall.S_IFMT != syscall.S_IFDIR
}
