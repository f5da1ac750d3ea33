package threads

import (
	"fmt"
	"math"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// leastRoom is room for an issue, the files that a model reads for it and its answers, in tokens.
const leastRoom = 8_000

// defaultRAM is the default of a llama-server's --cache-ram, in bytes. No server reports its setting.
const defaultRAM = 8 << 30

// ServerProblems returns the ways in which a local server does not fit the threads that use it, each with the flag to
// set.
func (c *Config) ServerProblems(t *Thread, s *agents.Server) (lines []string) {
	if slots, who := c.slotsWanted(t); s.Slots > 0 && s.Slots < slots {
		lines = append(lines, fmt.Sprintf("the server has %s, and max_concurrent of %s wants %d: requests wait for each "+
			"other; start it with -np %d, or set max_concurrent to %d", count(s.Slots, "slot"), who, slots, slots, s.Slots))
	}
	if cli, need := c.contextWanted(t); s.Context > 0 && s.Context < need {
		lines = append(lines, fmt.Sprintf("the server's context has %d tokens for each slot, and %s needs %d at its start: "+
			"start it with -c %d", s.Context, cli, need, need*max(s.Slots, 1)))
	}
	return lines
}

// ServerNotes returns what a local server may cost, each with the flag to set. It is not a fault as long as
// conversations continue from the server's memory.
func (c *Config) ServerNotes(t *Thread, s *agents.Server) (lines []string) {
	if !t.Overlap && s.Emptied() {
		lines = append(lines, "the server's slots share one cache and idle ones are emptied: a conversation continues from "+
			"--cache-ram only; --no-kv-unified gives each slot its own cache, and divides -c by their number")
	}
	n := len(t.Agents)
	if need := float64(n) * float64(s.PerToken) * float64(s.Context); need > defaultRAM {
		lines = append(lines, fmt.Sprintf("conversations of %s take up to %.1f GiB, and the server keeps 8 GiB by default: "+
			"start it with --cache-ram %.0f", count(n, "agent"), need/(1<<30), math.Ceil(need/(1<<20))))
	}
	if s.Forgets {
		lines = append(lines, "the server's model has state that is not kept token by token: a conversation whose prompt "+
			"changed is computed again from a saved point or from its start, and no file brings it back")
	}
	return lines
}

// slotsWanted returns the slots of all threads that use a thread's server, and the names of these threads.
func (c *Config) slotsWanted(t *Thread) (slots int, who string) {
	var names []string
	for i := range c.Threads {
		if o := &c.Threads[i]; o.BaseURL == t.BaseURL {
			slots += o.Slots
			names = append(names, o.Name)
		}
	}
	return slots, sentence(names)
}

// contextWanted returns the largest context that a CLI of a thread's agents needs at its start, and that CLI.
func (c *Config) contextWanted(t *Thread) (cli string, tokens int) {
	for i := range c.Agents {
		if c.Agents[i].Thread != t.Name {
			continue
		}
		for _, name := range c.Agents[i].Roles {
			r := c.Role(name)
			if r == nil {
				continue
			}
			if known := agents.FindCLI(r.CLI); known != nil && known.Opening > 0 && known.Opening+leastRoom > tokens {
				cli, tokens = r.CLI, known.Opening+leastRoom
			}
		}
	}
	return cli, tokens
}

// Speed is how fast a slot of a server reads prompts and writes answers, in tokens per second of reading or writing.
// 0 means unknown.
type Speed struct{ Read, Written float64 }

// ServerPast is the work of a server in the last hour, from one look a minute. The zero value has none.
type ServerPast struct {
	looks []serverSample // oldest first, none from before a restart
	last  []agents.ServerSlot
	slots map[int]Speed // since the last look
	// Restarted is when its counters or its request numbers were found to start again; zero if never.
	Restarted time.Time
}

// serverSample has the sums of one look.
type serverSample struct {
	at   time.Time
	task int64
	work agents.ServerWork
	told bool // whether the server reports work
}

const (
	serverHour   = time.Hour
	serverRecent = 5 * time.Minute // the time whose speed is compared with the hour's
	// A slowdown is reported only with so many tokens both in the hour before and in the last minutes.
	steadyRead, steadyWritten = 2000, 200
)

// Add adds a look.
func (p *ServerPast) Add(at time.Time, s *agents.Server) {
	now := serverSample{at: at, task: -1}
	for _, slot := range s.At {
		now.task = max(now.task, slot.Task)
	}
	if s.Work != nil {
		now.work, now.told = *s.Work, true
	}
	if n := len(p.looks); n > 0 {
		was := &p.looks[n-1]
		fewer := now.told && was.told && (now.work.Read < was.work.Read || now.work.Written < was.work.Written)
		if fewer || len(s.At) > 0 && now.task < was.task {
			p.Restarted, p.looks, p.last = at, nil, nil
		}
	}
	p.slots = p.since(at, s.At)
	p.last = s.At
	p.looks = append(p.looks, now)
	p.looks = slices.DeleteFunc(p.looks, func(l serverSample) bool { return at.Sub(l.at) > serverHour })
}

// since returns the speeds of the slots that are busy with the same request as at the last look. A request that both
// read and wrote between the two looks gives no speed.
func (p *ServerPast) since(at time.Time, slots []agents.ServerSlot) map[int]Speed {
	if len(p.looks) == 0 {
		return nil
	}
	seconds := at.Sub(p.looks[len(p.looks)-1].at).Seconds()
	speeds := make(map[int]Speed)
	for _, now := range slots {
		i := slices.IndexFunc(p.last, func(was agents.ServerSlot) bool { return was.ID == now.ID })
		if i < 0 || !now.Busy || !p.last[i].Busy || p.last[i].Task != now.Task || seconds <= 0 {
			continue
		}
		read, written := now.Read-p.last[i].Read, now.Written-p.last[i].Written
		switch {
		case read > 0 && now.Written == 0:
			speeds[now.ID] = Speed{Read: float64(read) / seconds}
		case written > 0 && read == 0:
			speeds[now.ID] = Speed{Written: float64(written) / seconds}
		}
	}
	return speeds
}

// Slot returns the speed of one slot in the last minute.
func (p *ServerPast) Slot(id int) Speed { return p.slots[id] }

// Now returns the speed of a slot in the last minutes.
func (p *ServerPast) Now() Speed {
	speed, _ := p.between(p.recent(), len(p.looks)-1)
	return speed
}

// Hour returns the speed of a slot in the last hour.
func (p *ServerPast) Hour() Speed {
	speed, _ := p.between(0, len(p.looks)-1)
	return speed
}

// recent returns the index of the first look of the last minutes.
func (p *ServerPast) recent() int {
	n := len(p.looks) - 1
	return max(0, slices.IndexFunc(p.looks, func(l serverSample) bool { return p.looks[n].at.Sub(l.at) <= serverRecent }))
}

// between returns the speed of a slot from one look to a later one, and the work done meanwhile.
func (p *ServerPast) between(from, to int) (Speed, agents.ServerWork) {
	if from < 0 || to <= from || !p.looks[from].told || !p.looks[to].told {
		return Speed{}, agents.ServerWork{}
	}
	a, b := &p.looks[from].work, &p.looks[to].work
	done := agents.ServerWork{
		Read: b.Read - a.Read, ReadSeconds: b.ReadSeconds - a.ReadSeconds,
		Written: b.Written - a.Written, WrittenSeconds: b.WrittenSeconds - a.WrittenSeconds,
	}
	return Speed{rate(done.Read, done.ReadSeconds), rate(done.Written, done.WrittenSeconds)}, done
}

func rate(tokens int64, seconds float64) float64 {
	if tokens <= 0 || seconds <= 0 {
		return 0
	}
	return float64(tokens) / seconds
}

// Slowed says that the server has half of its former speed, or less; empty while it has more.
func (p *ServerPast) Slowed() string {
	if len(p.looks) == 0 {
		return ""
	}
	cut := p.recent()
	was, before := p.between(0, cut)
	is, now := p.between(cut, len(p.looks)-1)
	switch {
	case before.Written >= steadyWritten && now.Written >= steadyWritten && is.Written <= was.Written/2:
		return fmt.Sprintf("it writes %s tokens/s in a slot, and wrote %s in the hour before", perSecond(is.Written),
			perSecond(was.Written))
	case before.Read >= steadyRead && now.Read >= steadyRead && is.Read <= was.Read/2:
		return fmt.Sprintf("it reads %s tokens/s in a slot, and read %s in the hour before", perSecond(is.Read),
			perSecond(was.Read))
	}
	return ""
}

// perSecond formats a speed with as many digits as matter.
func perSecond(tokens float64) string {
	if tokens < 10 {
		return fmt.Sprintf("%.1f", tokens)
	}
	return fmt.Sprintf("%.0f", tokens)
}
