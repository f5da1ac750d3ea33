package process

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// limit sets the session's limits in its cgroup. Where there is no cgroup, or none with that controller, the first line
// of the log says so: a limit that is not enforced must not look like one. Processes can also be limited by account,
// which is right only where no other agent has the same account: nproc is that limit, 0 for none.
func (r *run) limit(log io.Writer) (nproc uint64) {
	l := r.job.Limits
	if l.Memory > 0 {
		if r.cgroup.set("memory.max", l.Memory) != nil {
			_, _ = io.WriteString(log, unlimited("limit of memory is", "there is no cgroup for it"))
		} else {
			_ = r.cgroup.set("memory.swap.max", 0) // or only memory that is not swapped out would count; missing without swap
		}
	}
	if l.PIDs == 0 || r.cgroup.set("pids.max", l.PIDs) == nil {
		return 0
	}
	if r.job.OwnUser && r.account != nil {
		return uint64(l.PIDs)
	}
	const why = "there is no cgroup for it, nor a system account of the agent's own"
	_, _ = io.WriteString(log, unlimited("limit of processes is", why))
	return 0
}

// unlimited is the line of a log about a limit that is not enforced.
func unlimited(what, why string) string {
	return fmt.Sprintf("disinto: the session's %s not enforced: %s; see disinto check\n", what, why)
}

func (c cgroup) set(name string, n int64) error { return c.write(name, strconv.FormatInt(n, 10)) }

// hits count how often a session ran into a limit.
type hits struct {
	Killed int64 // processes that the kernel killed for want of memory
	Full   int64 // times that this was for want of the session's own memory, not the container's or the machine's
	Forks  int64 // processes and threads that were refused
}

// hits are those of the cgroup so far.
func (c cgroup) hits() (h hits) {
	if c.ok {
		h.Killed, _ = field(c.file("memory.events"), "oom_kill")
		h.Full, _ = field(c.file("memory.events"), "oom")
		h.Forks, _ = field(c.file("pids.events"), "max")
	}
	return h
}

// tell adds to the reason of an outcome that memory or processes ran out. A session that has reached its aim all the
// same is left alone, as is one that was cancelled.
func (h hits) tell(o agents.Outcome, l agents.Limits) agents.Outcome {
	if o.Result == agents.Cancelled || o.Result == agents.Done && o.Claimed {
		return o
	}
	var reasons []string
	if o.Reason != "" {
		reasons = append(reasons, o.Reason)
	}
	if h.Killed > 0 {
		whose := "the machine or the container has no more"
		if h.Full > 0 && l.Memory > 0 {
			whose = "its limit is " + agents.Size(l.Memory)
		}
		reasons = append(reasons, fmt.Sprintf("out of memory, %s: %s killed", whose, processes(h.Killed)))
	}
	if h.Forks > 0 && l.PIDs > 0 {
		reasons = append(reasons, fmt.Sprintf("at its limit of %s: %d more refused", processes(l.PIDs), h.Forks))
	}
	o.Reason = strings.Join(reasons, "; ")
	return o
}

func processes(n int64) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
