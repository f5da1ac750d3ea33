package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// commandGrace is the time from TERM to KILL when a short command's context ends. Git removes its lock files on TERM,
// and leaves them behind on KILL.
const commandGrace = 2 * time.Second

// Cmd is a short command: git, ssh, a hook. The zero values of its fields mean no input, discarded output, this
// process's own directory, and its environment.
type Cmd struct {
	Argv   []string // the program, searched for in PATH unless it has a slash, and its arguments
	Dir    string
	Env    []string // the complete environment
	Stdin  io.Reader
	Stdout io.Writer // written by one goroutine at a time, even if it is also Stderr
	Stderr io.Writer
	// Alone ends all processes that the command leaves behind, below a process with NewReaper.
	Alone bool
}

// ExitError is the error of a command that ran and did not end with status 0.
type ExitError struct {
	Name   string // of the program
	Status syscall.WaitStatus
}

// Killed reports whether SIGKILL ended the command, or a program in it, as a shell's exit status says.
func (e *ExitError) Killed() bool {
	return e.Status.Signaled() && e.Status.Signal() == syscall.SIGKILL || e.Status.ExitStatus() == killedStatus
}

// ExitCode returns the command's exit status; -1 if a signal ended it.
func (e *ExitError) ExitCode() int { return e.Status.ExitStatus() }

// killedStatus is the exit status of a shell whose command was ended by SIGKILL.
const killedStatus = 128 + int(syscall.SIGKILL)

func (e *ExitError) Error() string { return e.Name + ": " + pid1.Describe(e.Status) }

// Run runs a short command to its end. The error is an *ExitError if the command failed. If the context ended the
// command, the error wraps the context's cause, and the command's process group gets TERM and, 2 s later, KILL. Run
// does not wait for processes that the command leaves behind, even if they hold its output open; the reaper collects
// them.
func (r *Reaper) Run(ctx context.Context, cmd Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(cmd.Argv) == 0 {
		return errors.New("cannot run a command without a program")
	}
	var p plumbing
	defer p.close()
	before := make(map[tree.ID]bool)
	if cmd.Alone {
		before = members(os.Getpid())
	}
	child, err := r.launch(cmd, &p)
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", cmd.Argv[0], err)
	}
	p.start(cmd.Stdin)
	e := child.await(ctx)
	if cmd.Alone {
		endOthers(before)
	}
	copyErr := p.finish()
	switch {
	case ctx.Err() != nil && e.Status != 0:
		return fmt.Errorf("cannot finish %s: %w", cmd.Argv[0], context.Cause(ctx))
	case e.Status != 0:
		return &ExitError{Name: cmd.Argv[0], Status: e.Status}
	}
	return copyErr
}

// members returns a process and those below it.
func members(root int) map[tree.ID]bool {
	ids := make(map[tree.ID]bool)
	list, _ := tree.Of(root)
	for _, p := range list {
		ids[p.ID()] = true
	}
	return ids
}

// endOthers kills all processes below this one that were not there before. A process that the kernel does not release
// is left to the end of the session.
func endOthers(before map[tree.ID]bool) {
	self, until := os.Getpid(), time.Now().Add(commandGrace)
	hunt := tree.Killer{Member: func(p tree.Process) bool { return p.PPID == self && !before[p.ID()] }}
	for time.Now().Before(until) {
		if alive, err := hunt.KillOnce(); err != nil || alive == 0 {
			return
		}
		time.Sleep(hunt.Pause)
	}
}

func (r *Reaper) launch(cmd Cmd, p *plumbing) (*Child, error) {
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if cmd.Dir != "" {
		// Some programs trust PWD more than the kernel: opencode worked, and committed, in the directory that our own PWD
		// named.
		cmd.Env = append(slices.DeleteFunc(slices.Clone(cmd.Env), isPWD), "PWD="+cmd.Dir)
	}
	path, err := Lookup(cmd.Argv[0], cmd.Dir, cmd.Env)
	if err != nil {
		return nil, err
	}
	files, err := p.connect(cmd)
	if err != nil {
		return nil, err
	}
	return r.Start(path, cmd.Argv, &syscall.ProcAttr{
		Dir:   cmd.Dir,
		Env:   cmd.Env,
		Files: files,
		// A separate session can be ended as a whole, and has no terminal: a git that asks for a password fails.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func isPWD(entry string) bool {
	return strings.HasPrefix(entry, "PWD=") || strings.HasPrefix(entry, "OLDPWD=")
}

// await waits for the child and ends its process group when the context is done. The last KILL is for members that
// outlive the child. No other group can have reused its number yet: the kernel first uses all others, at least
// 32,768.
func (c *Child) await(ctx context.Context) Exit {
	select {
	case e := <-c.exit:
		return e
	case <-ctx.Done():
	}
	_ = unix.Kill(-c.PID, unix.SIGTERM)
	defer func() { _ = unix.Kill(-c.PID, unix.SIGKILL) }()
	select {
	case e := <-c.exit:
		return e
	case <-time.After(commandGrace):
	}
	_ = unix.Kill(-c.PID, unix.SIGKILL)
	select {
	case e := <-c.exit:
		return e
	case <-time.After(commandGrace): // the kernel does not release it, as on a hung file system
		return Exit{Status: syscall.WaitStatus(unix.SIGKILL)}
	}
}
