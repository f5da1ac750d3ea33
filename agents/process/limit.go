package process

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// limit sets what the session may use. Where there is no cgroup, or none with that controller, the log says so in its first
// line: a limit that is none must not look like one. Processes have a second means, the kernel's limit for an account, which
// is right only where no other agent has the same account. The answer is that number; 0 for none.
func (r *run) limit(log io.Writer) (nproc uint64) {
	l := r.job.Limits
	if l.Memory > 0 && r.cgroup.set("memory.max", l.Memory) != nil {
		_, _ = io.WriteString(log, unlimited("limit of memory is", "there is no cgroup for it"))
	} else if l.Memory > 0 {
		_ = r.cgroup.set("memory.swap.max", 0) // or it would be a limit of what is not swapped out; missing without swap
	}
	if l.PIDs == 0 || r.cgroup.set("pids.max", l.PIDs) == nil {
		return 0
	}
	if r.job.OwnUser && r.account != nil {
		return uint64(l.PIDs)
	}
	_, _ = io.WriteString(log, unlimited("limit of processes is", "there is no cgroup for it, nor a system account of the agent's own"))
	return 0
}

// unlimited is the line of a log that says what is not enforced.
func unlimited(what, why string) string {
	return fmt.Sprintf("disinto: the session's %s not enforced: %s; see disinto check\n", what, why)
}

// set sets a limit of the cgroup.
func (c cgroup) set(name string, n int64) error {
	if !c.ok {
		return os.ErrNotExist
	}
	return c.write(name, strconv.FormatInt(n, 10))
}

// hits count how often a session ran into a limit.
type hits struct {
	Killed int64 // processes that the kernel killed for want of memory
	Full   int64 // times that this was for want of the session's own; otherwise it is the container's or the machine's
	Forks  int64 // processes and threads that were refused
}

// hits are those of the cgroup so far.
func (c cgroup) hits() (h hits) {
	if !c.ok {
		return h
	}
	h.Killed, h.Full = c.count("memory.events", "oom_kill"), c.count("memory.events", "oom")
	h.Forks = c.count("pids.events", "max")
	return h
}

// count is the number behind a name in a file of the cgroup; 0 without the file.
func (c cgroup) count(file, name string) (n int64) {
	text, _ := c.read(file)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return n
}

// tell adds to the reason of an outcome that something was missing. A session that has reached its aim all the same is
// left alone, as is one that was cancelled.
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
		reasons = append(reasons, fmt.Sprintf("at its limit of %s: another one refused, times %d", processes(l.PIDs), h.Forks))
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
