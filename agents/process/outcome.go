package process

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// describe says in words how a process ended.
func describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + signalName(ws.Signal())
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// signalName is a name such as SIGKILL; real-time signals have only numbers.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// exited is the outcome that the exit alone tells. What was achieved is not in it: exit status 0 is Done only until
// somebody has asked the forge.
func exited(program string, ws syscall.WaitStatus) agents.Outcome {
	o := agents.Outcome{Result: agents.Failed, ExitCode: ws.ExitStatus(), Reason: program + ": " + describe(ws)}
	switch {
	case ws.Signaled():
		o.ExitCode, o.Signal = -1, signalName(ws.Signal())
	case ws.ExitStatus() == 0:
		o.Result, o.Reason = agents.Done, ""
	case ws.ExitStatus() == 126:
		o.Reason += " (it could not execute a program it needs)"
	case ws.ExitStatus() == 127:
		o.Reason += " (it did not find a program it needs)"
	}
	return o
}

// notStarted is the outcome of a program that never ran, with the exit code a shell would give.
func notStarted(program string, err error) agents.Outcome {
	o := agents.Outcome{Result: agents.Failed, ExitCode: 1, Reason: fmt.Sprintf("cannot start %s: %v", program, err)}
	switch {
	case Exhausted(err): // no fault of the program, nor of the item
		o.Result = agents.NoRoom
	case errors.Is(err, syscall.ENOENT):
		o.ExitCode = 127
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC):
		o.ExitCode = 126
	}
	return o
}

// refusal puts the kernel's refusal to start a program, which lookup had found, into words that say what to do.
func refusal(errno syscall.Errno, job agents.Job) error {
	who := job.User
	if who == "" {
		who = "the supervisor's user"
	}
	switch errno {
	case syscall.ENOENT:
		return &unrunnable{"the interpreter in its first line, or " + job.Dir + ", does not exist", errno}
	case syscall.ENOEXEC:
		return &unrunnable{"it is neither a program nor a script that begins with #!", errno}
	case syscall.EACCES:
		return &unrunnable{who + " may not execute it, or not enter " + job.Dir, errno}
	case syscall.EPERM:
		return &unrunnable{"not permitted to become " + who, errno}
	}
	return errno
}

// withResult puts what the program itself said over what its exit says.
func withResult(o, said agents.Outcome) agents.Outcome {
	said.ExitCode, said.Signal = o.ExitCode, o.Signal
	return said
}

// endedBy is the outcome of a session that we ended. Why we did so stands above what the program says of itself, but
// its usage and its session id are kept: the next session resumes from there.
func endedBy(v verdict, o, said agents.Outcome) agents.Outcome {
	o.Result, o.Reason = v.result, v.reason
	o.SessionID, o.Usage = said.SessionID, said.Usage
	return o
}

// withoutResult is the outcome when what the program left cannot be used. A program that claims something we cannot
// read has still ended the way it has.
func withoutResult(o agents.Outcome, err error) agents.Outcome {
	if o.Reason != "" {
		o.Reason += "; "
	}
	o.Reason += err.Error()
	return o
}
