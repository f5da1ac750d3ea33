package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// conclude ensures that no process of a session is left after its shim's exit, and returns the session's outcome.
func (r *run) conclude(shim Exit, secrets []string) agents.Outcome {
	report := r.link.last()
	r.sweep(report == nil)
	h := r.cgroup.hits() // used only if the shim was killed: otherwise it has removed the cgroup
	o, used := exited(r.job.Command[0], shim.Status), shim.Usage
	o.CPU, o.MaxRSS = time.Duration(used.Utime.Nano()+used.Stime.Nano()), used.Maxrss<<10
	if report != nil {
		h, o = report.Hits, exited(r.job.Command[0], report.Status)
		o.CPU, o.MaxRSS = report.CPU, report.MaxRSS
	} else {
		o.Result = agents.Failed
		o.Reason = fmt.Sprintf("%s: its session shim was ended from outside, %s (out of memory?)",
			r.job.Command[0], describe(shim.Status))
	}
	said, found, err := readResult(r.job.ResultPath, r.account, secrets)
	digest := said.Digest
	if err != nil {
		said = agents.Outcome{}
	}
	switch {
	case r.verdict.result != "" && (report == nil || report.Ended):
		o = endedBy(r.verdict, o, said)
	case found && err == nil: // the program's own result counts more than its exit status
		said.ExitCode, said.Signal, said.CPU, said.MaxRSS = o.ExitCode, o.Signal, o.CPU, o.MaxRSS
		o = said
	case found: // the result is unreadable: the exit status counts
		if o.Reason != "" {
			o.Reason += "; "
		}
		o.Reason += err.Error()
	}
	o.Usage, o.Digest = said.Usage.Max(r.meter.used), digest
	if o.Result == agents.Failed && (!found || err != nil) && full(r.job.ResultPath) {
		o.Result, o.Reason = agents.NoRoom, "no room on the disk for its result; "+o.Reason
	}
	return h.blame(h.explain(o, r.job.Limits), r.job.Limits)
}

// full reports whether the disk has no room beside a result. Then a missing result proves nothing about the work.
func full(path string) bool { return path != "" && freeDisk(filepath.Dir(path)) < 4<<10 }

// endedBy is the outcome of a session that we ended. Our reason counts more than the program's own. The program's
// session id is kept, so that the next session can resume from it.
func endedBy(v verdict, o, said agents.Outcome) agents.Outcome {
	o.Result, o.Reason = v.result, v.reason
	o.SessionID = said.SessionID
	return o
}

// describe describes how a process ended.
func describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + signalName(ws.Signal())
	}
	return fmt.Sprintf("exit status %d", ws.ExitStatus())
}

// signalName returns a name such as SIGKILL, or the number of a real-time signal.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", int(s))
}

// exited is the outcome by the exit status alone. The exit status does not show the result of the work: 0 is Done
// until the supervisor has queried the forge.
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

// notStarted is the outcome of a program that did not start, with a shell's exit code.
func notStarted(program string, err error) agents.Outcome {
	o := agents.Outcome{Result: agents.Failed, ExitCode: 1, Reason: fmt.Sprintf("cannot start %s: %v", program, err)}
	switch {
	case Exhausted(err), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		// Neither the program nor the item is at fault.
		o.Result = agents.NoRoom
	case errors.Is(err, syscall.ENOENT):
		o.ExitCode = 127
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC):
		o.ExitCode = 126
	}
	return o
}

// refusal explains why the kernel refuses to start the program at path, which Lookup had found.
func (r *run) refusal(errno syscall.Errno, path string) error {
	if why := r.account.cannotStart(path, r.job.Dir); why != nil {
		return why
	}
	switch errno {
	case syscall.ENOENT:
		return &unrunnable{"its interpreter, or " + r.job.Dir + ", does not exist", errno}
	case syscall.ENOEXEC:
		return &unrunnable{"it is not a program for this machine", errno}
	case syscall.EACCES:
		return &unrunnable{r.account.words() + " may not execute it, or not enter " + r.job.Dir, errno}
	case syscall.EPERM:
		return &unrunnable{"not permitted to become " + r.account.words(), errno}
	}
	return errno
}

// stopSignal returns the signal of that name, one of agents.StopSignals; 0 for the empty name.
func stopSignal(name string) syscall.Signal { return unix.SignalNum("SIG" + name) }
