package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/pid1"
)

// conclude ensures that no process of a session is left, and returns the session's outcome.
func (r *run) conclude(how ending, secrets []string) agents.Outcome {
	r.sweep(how == shimGone)
	why, h := r.state.Verdict, r.state.Hits
	var o agents.Outcome
	switch {
	case how == shimGone:
		h = r.cgroup.hits()
		o = r.orphaned()
		if why == (verdict{}) {
			why = r.verdict
		}
	case r.state.Errno != 0:
		return notStarted(r.program0(), r.unstarted(r.state))
	default:
		o = exited(r.program0(), r.state.Status)
		o.CPU, o.MaxRSS = r.state.CPU, r.state.MaxRSS
	}
	said, found, err := readResult(r.job.ResultPath, r.account, secrets)
	digest := said.Digest
	if err != nil {
		said = agents.Outcome{}
	}
	switch {
	case why != (verdict{}):
		o = endedBy(why, o, said)
	case found && err == nil: // the program's own result counts more than its exit status
		said.ExitCode, said.Signal, said.CPU, said.MaxRSS = o.ExitCode, o.Signal, o.CPU, o.MaxRSS
		o = said
	case found: // the result is unreadable: the exit status counts
		if o.Reason != "" {
			o.Reason += "; "
		}
		o.Reason += err.Error()
		if free := freeDisk(filepath.Dir(r.job.ResultPath)); free < nearlyFull {
			o.Reason += fmt.Sprintf(" (the disk is full: %s free)", agents.Size(free))
		}
	}
	o.Usage, o.Digest, o.Heard = said.Usage.Max(r.meter.used), digest, max(said.Heard, r.meter.doing.Heard)
	if o.Result == agents.Failed && (!found || err != nil) && full(r.job.ResultPath) {
		o.Result, o.Reason = agents.NoRoom, "no room on the disk for its result; "+o.Reason
	}
	o = h.blame(h.explain(o, r.job.Limits), r.job.Limits)
	o.Refused = r.state.Refused
	if words := o.Refused.Telling().Words(); words != "" && o.Result.Fails() {
		o.Reason = strings.TrimPrefix(o.Reason+"; ", "; ") + "it was " + words + " (egress)"
	}
	return o
}

// orphaned is the outcome of a session whose shim was ended from outside. See also blame.
func (r *run) orphaned() agents.Outcome {
	o := agents.Outcome{Result: agents.Lost, Reason: r.program0() + ": its session shim was ended from outside"}
	select {
	case exit, ok := <-r.exit:
		if !ok {
			break
		}
		if killed := exited("", exit.Status); killed.Signal == "SIGKILL" {
			o.Result, o.ExitCode, o.Signal = killed.Result, killed.ExitCode, killed.Signal
		}
		o.Reason += ", " + pid1.Describe(exit.Status)
		o.CPU = time.Duration(exit.Usage.Utime.Nano() + exit.Usage.Stime.Nano())
		o.MaxRSS = exit.Usage.Maxrss << 10
	case <-time.After(exitPatience): // nobody tells
	}
	return o
}

// exitPatience is how long the report of a shim's status may take. Another process may have to reap it.
const exitPatience = 2 * time.Second

// program0 is the name of the session's program. It is unknown if an earlier supervisor left no memo.
func (r *run) program0() string {
	if len(r.job.Command) == 0 {
		return "its program"
	}
	return r.job.Command[0]
}

// nearlyFull is the free disk below which half a result is probably due to a full disk. A process that failed for lack
// of room has often freed some since.
const nearlyFull = 16 << 20

// full reports whether the disk has no room beside a result. Then a missing result proves nothing about the work.
func full(path string) bool { return path != "" && freeDisk(filepath.Dir(path)) < 4<<10 }

// endedBy is the outcome of a session that we ended. Our reason counts more than the program's own. The program's
// session id is kept, so that the next session can resume from it.
func endedBy(v verdict, o, said agents.Outcome) agents.Outcome {
	o.Result, o.Reason = v.Result, v.Reason
	o.SessionID = said.SessionID
	return o
}

// exited is the outcome by the exit status alone. The exit status does not show the result of the work: 0 is Done
// until the supervisor has queried the forge.
func exited(program string, ws syscall.WaitStatus) agents.Outcome {
	o := agents.Outcome{Result: agents.Failed, ExitCode: ws.ExitStatus(), Reason: program + ": " + pid1.Describe(ws)}
	switch {
	case ws.Signaled():
		o.ExitCode, o.Signal = -1, pid1.SignalName(ws.Signal())
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
