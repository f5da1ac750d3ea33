package process

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// limit sets the session's limits in its cgroup. If there is no cgroup, or it lacks a controller, the log's first
// line says so: people must not take that limit for an enforced one. Processes can also be limited by account, which
// is correct only if no other agent has the same account. nproc is that limit, 0 for none.
func (r *run) limit(log io.Writer) (nproc uint64) {
	l := r.job.Limits
	if l.Memory > 0 {
		if r.cgroup.set("memory.max", l.Memory) != nil {
			_, _ = io.WriteString(log, unlimited("limit of memory is", "there is no cgroup for it"))
		} else {
			_ = r.cgroup.set("memory.swap.max", 0) // or swapped-out memory would not count; no such file without swap
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

// unlimited returns the log line about a limit that is not enforced.
func unlimited(what, why string) string {
	return fmt.Sprintf("disinto: the session's %s not enforced: %s; see disinto check\n", what, why)
}

func (c cgroup) set(name string, n int64) error { return c.write(name, strconv.FormatInt(n, 10)) }

// hits counts how often a session reached a limit.
type hits struct {
	Killed int64 // processes that the kernel killed for lack of memory
	Full   int64 // times that the session, not the container or the machine, ran out of memory
	Forks  int64 // processes and threads that were refused
}

// hits returns the cgroup's counts so far.
func (c cgroup) hits() (h hits) {
	if c.ok {
		h.Killed, _ = field(c.file("memory.events"), "oom_kill")
		h.Full, _ = field(c.file("memory.events"), "oom")
		h.Forks, _ = field(c.file("pids.events"), "max")
	}
	return h
}

// explain adds to an outcome's reason that memory or processes ran out. It does not change the outcome of a session
// that was cancelled or still reported success.
func (h hits) explain(o agents.Outcome, l agents.Limits) agents.Outcome {
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

// blame separates the two causes of a SIGKILL: the session's own limit of memory, which makes it a failure, and
// anything else, which says nothing about its work.
func (h hits) blame(o agents.Outcome, l agents.Limits) agents.Outcome {
	own := h.Killed > 0 && h.Full > 0 && l.Memory > 0
	switch {
	case o.Result == agents.Killed && own:
		o.Result = agents.Failed
	case o.Result == agents.Failed && !o.Claimed && o.Signal == "SIGKILL" && !own:
		o.Result = agents.Killed
	}
	return o
}

func processes(n int64) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
