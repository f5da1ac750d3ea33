package process

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// meterTick is the time between two looks at a session's usage. A look reads one small file, and a turn of a model
// takes longer.
const meterTick = 2 * time.Second

// meter reads the usage from the result that a program writes while it runs. The meter's usage never shrinks.
type meter struct {
	used   agents.Usage
	odd    string // the last look's problem; logged if the next look has it too, because a file can be half-written
	logged bool   // a problem was logged
}

// ticks is nil for a session whose usage has no receiver.
func (m *meter) ticks(job agents.Job) <-chan time.Time {
	if job.Spent == nil || job.ResultPath == "" {
		return nil
	}
	return time.Tick(meterTick)
}

// measure reads the result, and reports a usage that has grown.
func (r *run) measure() {
	said, err := readUsage(r.job.ResultPath, r.account)
	grown, odd := r.meter.merge(said, err)
	if odd != "" {
		r.log(odd)
	}
	if grown && r.job.Spent != nil {
		r.job.Spent(r.meter.used)
	}
}

// merge merges the usage of one look. grown reports whether the usage increased. odd is a log line about a usage that
// does not count, or "". A session gets at most one such line, after two looks with the same problem.
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

// readUsage reads the usage of the result at path.
func readUsage(path string, a *account) (u agents.Usage, err error) {
	text, found, err := resultText(path, a)
	if !found || err != nil {
		return u, err
	}
	u, err = agents.ParseUsage(text)
	if err != nil {
		return agents.Usage{}, err
	}
	return u, nil
}
