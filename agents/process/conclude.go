package process

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// conclude makes sure that nothing is left of a session whose shim has ended, and says how it ended.
func (s *session) conclude(v verdict, secrets []string) agents.Outcome {
	report := <-s.report
	s.sweep(report == nil)
	h := s.cgroup.hits() // of a shim that was killed; any other has given the cgroup back
	if report != nil {
		h = report.Hits
	}
	said, found, err := readResult(s.job.ResultPath, s.account, secrets)
	if err != nil {
		said = agents.Outcome{}
	}
	o := s.ending(report)
	switch {
	case v.result != "" && (report == nil || report.Ended):
		o = endedBy(v, o, said)
	case found && err == nil:
		o = withResult(o, said)
	case found:
		o = withoutResult(o, err)
	}
	return s.measured(h.tell(o, s.job.Limits), report)
}

// ending is what the exit of the program tells, or that of the shim if the program's is not known.
func (s *session) ending(report *endReport) agents.Outcome {
	if report != nil {
		return exited(s.job.Command[0], report.Status)
	}
	o := exited(s.job.Command[0], s.shimExit.Status)
	o.Result = agents.Failed
	o.Reason = fmt.Sprintf("%s: its session shim was ended from outside, %s (out of memory?)",
		s.job.Command[0], describe(s.shimExit.Status))
	return o
}

// measured adds what the tree used. Without a report that is what the shim had waited for when it was killed.
func (s *session) measured(o agents.Outcome, report *endReport) agents.Outcome {
	u := s.shimExit.Usage
	o.CPU, o.MaxRSS = time.Duration(u.Utime.Nano()+u.Stime.Nano()), u.Maxrss<<10
	if report != nil {
		o.CPU, o.MaxRSS = report.CPU, report.MaxRSS
	}
	return o
}
