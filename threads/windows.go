package threads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Window is a limit of a subscription: what a thread's sessions may use together within any period of that length.
type Window struct {
	Length time.Duration
	agents.Budget
}

// Name returns the length of the window as factory.toml has it, such as 5h or 7d.
func (w Window) Name() string {
	switch d := w.Length; {
	case d%dayLength == 0:
		return fmt.Sprintf("%dd", d/dayLength)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
}

// MaxWindow is the longest window. Older usage is forgotten.
const MaxWindow = 7 * 24 * time.Hour

// useStep is the period whose usage is added up: a week has a thousand of them. The usage of a step counts until the
// whole step has left the window, so that it never counts for less time than at the backend.
const useStep = 10 * time.Minute

// Use adds up the usage of a thread's sessions within one step.
type Use struct {
	At     time.Time `json:"at"` // the start of the step
	Tokens int64     `json:"tokens,omitempty"`
	USD    float64   `json:"usd,omitempty"`
}

// gone returns when the usage no longer counts in a window.
func (u Use) gone(length time.Duration) time.Time { return u.At.Add(useStep + length) }

// Pace is the mean usage of a thread's sessions of one kind; newer ones weigh more.
type Pace struct {
	Kind   agents.Kind `json:"kind"`
	N      int         `json:"n"` // sessions that reported usage
	Tokens float64     `json:"tokens,omitempty"`
	USD    float64     `json:"usd,omitempty"`
}

// Use adds a usage report of a given time. After the clock went back, the newest step continues, so no usage is
// freed.
func (t *ThreadHistory) Use(at time.Time, u agents.Usage) {
	u = u.Bounded() // records of older versions are unbounded
	tokens := u.Tokens()
	t.Uses = t.UsesSince(at)
	if tokens == 0 && u.CostUSD == 0 {
		return
	}
	if n := len(t.Uses); n == 0 || !t.Uses[n-1].At.Add(useStep).After(at) {
		t.Uses = append(t.Uses, Use{At: at.UTC().Truncate(useStep)})
	}
	last := &t.Uses[len(t.Uses)-1]
	last.Tokens, last.USD = min(last.Tokens+tokens, maxSpent), min(last.USD+u.CostUSD, maxSpent)
}

// UsesSince returns the usage that still counts in the longest window; nil without any.
func (t *ThreadHistory) UsesSince(now time.Time) []Use {
	i := slices.IndexFunc(t.Uses, func(u Use) bool { return u.gone(MaxWindow).After(now) })
	if i < 0 {
		return nil
	}
	return t.Uses[i:]
}

// Learn adds the usage of an ended session to the pace of its kind. The first ten sessions weigh the same.
func (t *ThreadHistory) Learn(kind agents.Kind, u agents.Usage) {
	u = u.Bounded()
	i, known := slices.BinarySearchFunc(t.Paces, kind, func(p Pace, k agents.Kind) int {
		return strings.Compare(string(p.Kind), string(k))
	})
	if !known {
		t.Paces = slices.Insert(t.Paces, i, Pace{Kind: kind})
	}
	p := &t.Paces[i]
	p.N++
	weight := max(learnedLeast, 1/float64(p.N))
	p.Tokens += weight * (float64(u.Tokens()) - p.Tokens)
	p.USD += weight * (u.CostUSD - p.USD)
}

// Filled is a window of a thread with its usage.
type Filled struct {
	Window
	Used Use // sum over the window
}

// Fill returns the usage of each window of a thread.
func (t *Thread) Fill(known *ThreadHistory, now time.Time) []Filled {
	list := make([]Filled, len(t.Windows))
	for i, w := range t.Windows {
		list[i].Window = w
		for _, u := range known.Uses {
			if u.gone(w.Length).After(now) {
				list[i].Used.Tokens += u.Tokens
				list[i].Used.USD += u.USD
			}
		}
	}
	return list
}

// measure is a unit in which windows have limits.
type measure struct {
	limit func(agents.Budget) float64 // 0 for none
	used  func(Use) float64
	pace  func(Pace) float64
	words func(used, limit float64) string
}

var measures = []measure{
	{
		func(b agents.Budget) float64 { return float64(b.Tokens) },
		func(u Use) float64 { return float64(u.Tokens) },
		func(p Pace) float64 { return p.Tokens },
		func(used, limit float64) string { return fmt.Sprintf("%.0f of %.0f tokens", used, limit) },
	},
	{
		func(b agents.Budget) float64 { return b.USD },
		func(u Use) float64 { return u.USD },
		func(p Pace) float64 { return p.USD },
		func(used, limit float64) string { return fmt.Sprintf("$%.2f of $%.2f", used, limit) },
	},
}

// gauge is one limit of a thread's window while the plan is made.
type gauge struct {
	measure
	Window
	max    float64
	open   float64 // the rest is kept for review and rework
	used   float64
	coming float64 // the expected further usage of the running sessions
}

// indexGauges measures the windows of a thread. comes adds the thread's sessions afterwards.
func (v *view) indexGauges(t *threadState) {
	for _, w := range t.Fill(v.History.Thread(t.Name), v.Now) {
		for _, m := range measures {
			if limit := m.limit(w.Budget); limit > 0 {
				t.gauges = append(t.gauges, gauge{
					measure: m, Window: w.Window, max: limit, open: limit * (1 - t.Reserve), used: m.used(w.Used),
				})
			}
		}
	}
}

// comes adds the expected further usage of a session that runs on the thread, or is about to.
func (v *view) comes(t *threadState, s *Session) {
	for i := range t.gauges {
		g := &t.gauges[i]
		told := g.measure.used(Use{Tokens: s.Used.Tokens(), USD: s.Used.CostUSD})
		g.coming += max(0, g.of(v.History.Thread(t.Name), s.Item.Kind)-told)
	}
}

// of returns the expected usage of a session; 0 where it is unknown.
func (g *gauge) of(known *ThreadHistory, kind agents.Kind) float64 {
	for _, p := range known.Paces {
		if p.Kind == kind {
			return g.pace(p)
		}
	}
	return 0
}

// weighGauges finds out whether a window of the thread is used up, or its rest is kept. A new issue is expected to
// use as much as earlier ones, but at most half of what is open to issues: otherwise a reserve could hold them for
// ever.
func (v *view) weighGauges(t *threadState) {
	t.usedUp, t.reserved = nil, nil
	known := v.History.Thread(t.Name)
	for i := range t.gauges {
		g := &t.gauges[i]
		if t.usedUp == nil && g.used >= g.max {
			t.usedUp = &Reason{
				Code: OverWindow, Thread: t.Name, Note: g.words(g.used, g.max) + " in " + g.Name(),
				Until: v.below(known, g, g.max),
			}
		}
		need := g.coming + min(g.of(known, agents.KindIssue), g.open/2)
		if t.reserved == nil && t.Reserve > 0 && g.used+need >= g.open {
			t.reserved = &Reason{
				Code: WindowKept, Thread: t.Name, Note: g.Name() + " window for " + g.keptFor(known),
				Until: v.below(known, g, g.open-need),
			}
		}
	}
}

// below returns when the usage of the window falls below a limit if nothing starts; zero for never.
func (v *view) below(known *ThreadHistory, g *gauge, limit float64) time.Time {
	rest := g.used
	for _, u := range known.Uses {
		at := u.gone(g.Length)
		if !at.After(v.Now) {
			continue
		}
		if rest -= g.measure.used(u); rest < limit {
			return at
		}
	}
	return time.Time{}
}

// keptFor says for how many sessions the rest of the window is expected to be enough.
func (g *gauge) keptFor(known *ThreadHistory) string {
	for _, kind := range []agents.Kind{agents.KindReview, agents.KindRework} {
		each := g.of(known, kind)
		if each <= 0 {
			continue
		}
		switch n := int((g.max - g.used - g.coming) / each); {
		case n == 1:
			return "1 " + string(kind)
		case n > 1:
			return fmt.Sprintf("%d %ss", n, kind)
		}
		break
	}
	return "review and rework"
}

// withinWindows holds a thread's sessions while a window of its subscription is used up. Otherwise a session would
// meet the limit half-way, and its cost would be lost.
func withinWindows(v *view, c candidate) *Reason {
	why := c.agent.thread.usedUp
	if why != nil {
		v.wake(why.Until)
	}
	return why
}

// windowReserved keeps the rest of a window from new issues. Reviews and rework may use it: without a reserve the end
// of a window is spent on pull requests that stay unreviewed until the next one.
func windowReserved(v *view, c candidate) *Reason {
	if c.kind != agents.KindIssue {
		return nil
	}
	why := c.agent.thread.reserved
	if why != nil {
		v.wake(why.Until)
	}
	return why
}
