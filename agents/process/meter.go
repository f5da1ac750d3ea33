package process

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// meterTick is the time between two readings of a session's usage. Each reads one small file, and a turn of a model
// takes longer.
const meterTick = 2 * time.Second

// meter reads the usage from the result that a program writes while it runs. The meter's usage never shrinks.
type meter struct {
	used   agents.Usage
	doing  agents.Doing
	odd    string // the last reading's problem; logged if the next one has it too, because a file can be half-written
	logged bool   // a problem was logged
}

// ticks returns a tick for each reading of the usage; nil if nobody receives it.
func (m *meter) ticks(job agents.Job) <-chan time.Time {
	if job.Spent == nil && job.Doing == nil || job.ResultPath == "" {
		return nil
	}
	return time.Tick(meterTick)
}

// measure reads the result, and reports a usage that has grown, and another phase.
func (r *run) measure() {
	said, doing, err := readProgress(r.job.ResultPath, r.account)
	if doing != r.meter.doing && err == nil && r.job.Doing != nil {
		r.meter.doing = doing
		r.job.Doing(doing)
	}
	grown, odd := r.meter.merge(said, err)
	if odd != "" {
		r.log(odd)
	}
	if grown && r.job.Spent != nil {
		r.job.Spent(r.meter.used)
	}
}

// merge adds the usage of one reading. grown reports whether the usage increased. odd is a log line about a usage that
// does not count, or "". A session gets at most one such line, after two readings with the same problem.
func (m *meter) merge(said agents.Usage, err error) (grown bool, odd string) {
	more := m.used.Max(said)
	grown = more != m.used
	m.used = more
	words := ""
	switch {
	case err != nil:
		words = "its usage does not count: " + err.Error()
	case more != said && said != (agents.Usage{}):
		words = fmt.Sprintf("its usage shrank to %d tokens and $%.2f, %d and $%.2f count",
			said.Tokens(), said.CostUSD, more.Tokens(), more.CostUSD)
	}
	if words != "" && words == m.odd && !m.logged {
		m.logged, odd = true, words
	}
	m.odd = words
	return grown, odd
}

// readProgress reads the usage and the phase of the result at path.
func readProgress(path string, a *account) (u agents.Usage, doing agents.Doing, err error) {
	text, found, err := resultText(path, a)
	if !found || err != nil {
		return u, doing, err
	}
	if u, doing, err = agents.ParseProgress(text); err != nil {
		return agents.Usage{}, agents.Doing{}, err
	}
	return u, doing, nil
}
