package proof

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// order proves that no issue waits for ever while others of its class start, and that scheduled work of a more urgent
// class leaves time for issues. Issues of a more urgent class always go first, by design.
func (p *prover) order() string {
	passed, tried := 0, false
	for i := range p.quiet.Threads {
		t := &p.quiet.Threads[i]
		for _, set := range p.inUse() {
			r := race{set: set, thread: t.Name, config: oneSlot(p.quiet, t.Name)}
			if set.config && r.able() {
				tried = true
				if end := r.run(); end != nil {
					text := fmt.Sprintf("threads.%s: an issue with %s can wait for ever behind younger ones of its class", t.Name,
						set.words())
					p.tell("order", Wrong, text, end)
				}
				passed = max(passed, r.passed)
			}
		}
	}
	p.crowded()
	if !tried {
		return ""
	}
	return fmt.Sprintf("at most %s of its class go before an issue; a more urgent class goes first",
		plural(passed, "later item"))
}

// oneSlot returns the configuration with one slot on a thread. More slots would only give an issue more chances.
func oneSlot(c *threads.Config, thread string) *threads.Config {
	one := *c
	one.Threads = slices.Clone(c.Threads)
	t := one.Thread(thread)
	t.Slots, t.MaxSessions = 1, 1
	return &one
}

// race is an issue on a thread with one slot. Each time that the slot becomes free, one rival item has come, of a
// kind that the scheduler might prefer: it is closer to its merge, or the slot is warm for it.
type race struct {
	set    labelSet
	thread string
	config *threads.Config
	passed int // how often the issue was passed over, at most
}

// begin files the issue while all agents of other threads are busy for ever. If resident is not empty, that agent has
// just finished an issue on the thread; nil means that it takes none.
func (r *race) begin(resident string) *lap {
	l := &lap{world: newWorld(r.config), resident: resident}
	for i := range r.config.Agents {
		if a := &r.config.Agents[i]; a.Thread != r.thread {
			l.occupied(a)
		}
	}
	if resident != "" {
		l.file(r.set.labels, resident)
		plan := l.plan()
		if len(plan.Starts) == 0 {
			return nil
		}
		l.last = plan.Starts[0].Item.Chain
		l.ends(l.starts(&plan.Starts[0]), agents.Done, 0)
		l.say("%s ends its session on %s", resident, l.last.Short())
		l.issues = nil
	}
	l.filed(l.file(r.set.labels, ""), "")
	l.now = l.now.Add(step)
	return l
}

// able reports whether an agent of the thread may start the issue.
func (r *race) able() bool {
	w := r.begin("")
	plan := w.plan()
	for w.routed(&plan) {
		plan = w.plan()
	}
	return slices.ContainsFunc(plan.Starts, func(s threads.Start) bool { return s.Item.Ref == w.issues[0].Ref })
}

// run follows all rivals until no new state is left. It returns the shortest sequence that comes back to an earlier
// state before the issue starts: that can repeat for ever.
func (r *race) run() (story []string) {
	seen := make(map[string]bool)
	var queue []*lap
	for _, name := range append([]string{""}, r.config.Thread(r.thread).Agents...) {
		if l := r.begin(name); l != nil {
			queue = append(queue, l)
		}
	}
	for ; len(queue) > 0 && len(seen) < most; queue = queue[1:] {
		l := queue[0]
		for _, rival := range rivals {
			next := &lap{world: l.clone(), last: l.last, resident: l.resident, behind: append(l.behind, l.state())}
			if !rival.comes(next) || !next.goes() {
				continue
			}
			over := next.books.Item(threads.Key{Kind: agents.KindIssue, Ref: next.issues[0].Ref}).PassedOver
			r.passed = max(r.passed, over)
			key := next.state()
			if slices.Contains(next.behind, key) {
				next.say("and so on: %s never starts", next.issues[0].Short())
				return next.story()
			}
			if !seen[key] {
				seen[key] = true
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// lap is a moment of a race at which the slot is free.
type lap struct {
	*world
	resident string    // agent of the last session
	last     forge.Ref // its chain, if it wrote
	behind   []string  // earlier states
}

func (l *lap) state() string {
	over := l.books.Item(threads.Key{Kind: agents.KindIssue, Ref: l.issues[0].Ref}).PassedOver
	return fmt.Sprint(l.resident, over)
}

// rivals are the items that may come before the issue. Each reports whether the lap allows one.
var rivals = []struct {
	name  string
	comes func(*lap) bool
}{
	{"a younger issue", func(l *lap) bool {
		l.file(l.issues[0].Labels, "")
		return true
	}},
	{"an issue that is assigned to the last agent", func(l *lap) bool {
		if l.resident == "" {
			return false
		}
		l.file(l.issues[0].Labels, l.resident)
		return true
	}},
	{"an issue whose blocker the last agent finished", func(l *lap) bool {
		if l.resident == "" {
			return false
		}
		done := *l.file(nil, "")
		ledger.Entry(l.books.Chains, done.Ref).Writers = []string{l.resident}
		l.issues[len(l.issues)-1].Closed, l.issues[len(l.issues)-1].Ended = true, l.now
		l.file(l.issues[0].Labels, "").Blockers = []forge.Blocker{{Ref: done.Ref, State: forge.BlockerClosed}}
		return true
	}},
	{"rework of the last agent's pull request", func(l *lap) bool {
		if l.last == (forge.Ref{}) {
			return false
		}
		made := l.open(l.config.Agent(l.resident).Login, l.last)
		made.Reviews = []forge.Review{{
			ID: 1, Author: "ada", Verdict: forge.ChangesRequested, CommitSHA: made.HeadSHA, Official: true, Submitted: l.now,
		}}
		return true
	}},
	{"a person's pull request", func(l *lap) bool {
		l.open(fmt.Sprintf("person-%d", l.begun), forge.Ref{})
		return true
	}},
}

// goes gives the slot to the rival, and frees it again. It returns false if the issue starts, or nothing does.
func (l *lap) goes() bool {
	const waits = 10
	for range waits {
		plan := l.plan()
		if len(plan.Starts) == 0 {
			if !l.routed(&plan) {
				if plan.NextWake.IsZero() {
					return false
				}
				l.now = plan.NextWake
			}
			continue
		}
		s := &plan.Starts[0]
		if s.Item.Ref == l.issues[0].Ref {
			return false
		}
		run := l.starts(s)
		l.say("%s starts %s %s, which came later", s.Agent, s.Item.Kind, s.Item.Ref.Short())
		l.now = l.now.Add(step)
		x := l.ends(run, agents.Done, forge.Approved)
		l.resident, l.last = s.Agent, forge.Ref{}
		if x.Item.Kind.Writes() {
			l.last = x.Item.Chain
		}
		l.issues, l.pulls = l.issues[:1], nil
		l.now = l.now.Add(step)
		return true
	}
	return false
}

// lengths are the lengths of sessions that crowded tries.
var lengths = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
}

// crowded reports whether scheduled work alone can keep issues waiting for ever. Longer sessions leave less time, so
// it first tries the longest.
func (p *prover) crowded() {
	for _, class := range p.classes() {
		for _, set := range p.inUse() {
			if !set.config {
				continue
			}
			if p.crowd(set, class, lengths[len(lengths)-1]) == nil {
				continue
			}
			for _, length := range lengths {
				if story := p.crowd(set, class, length); story != nil {
					text := fmt.Sprintf("an issue of priority %d with %s never starts while sessions of scheduled roles take "+
						"%s or longer: raise their every, or set their priority to %d or more", class, set.words(), short(length), class)
					p.tell("order", Hint, text, story)
					break
				}
			}
			return
		}
	}
}

// classes returns the priorities in use, the default first.
func (p *prover) classes() []int {
	list := []int{forge.DefaultPriority}
	for i := range p.open {
		if c := forge.Priority(p.open[i].Labels); !p.open[i].Closed && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	slices.Sort(list[1:])
	return list
}

// crowd plays a factory with one issue and its scheduled work. Each session takes the given length, or less if its
// role has a shorter timeout. It returns the story if the world comes back to an earlier state before the issue
// starts.
func (p *prover) crowd(set labelSet, class int, length time.Duration) []string {
	w := newWorld(p.config)
	w.filed(w.file(append([]string{fmt.Sprintf("priority/%d", class)}, set.labels...), ""), "")
	const starts = 300
	seen := make(map[string]bool)
	for w.begun < starts {
		plan := w.plan()
		for i := range plan.Starts {
			s := &plan.Starts[i]
			if s.Item.Kind != agents.KindSchedule {
				return nil
			}
			w.starts(s)
			w.say("%s: %s runs %s", short(w.now.Sub(epoch)), s.Agent, s.Role)
		}
		if w.routed(&plan) || len(plan.Starts) > 0 {
			continue
		}
		if why := held(&plan, w.issues[0].Ref); len(w.runs) == 0 || why == nil || why.Code.Class() != threads.Busy {
			return nil
		}
		key := w.rhythm(length)
		if seen[key] {
			w.say("and so on: #1 never starts")
			return w.story()
		}
		seen[key] = true
		w.passes(length)
	}
	return nil
}

// ending returns when a session of a length ends.
func (w *world) ending(x *threads.Session, length time.Duration) time.Time {
	if r := w.config.Role(x.Role); r != nil && r.Timeout > 0 {
		length = min(length, r.Timeout)
	}
	return x.Started.Add(length)
}

// passes advances time until the next session ends, or the next work falls due.
func (w *world) passes(length time.Duration) {
	first := 0
	for i := range w.runs {
		if w.ending(&w.runs[i], length).Before(w.ending(&w.runs[first], length)) {
			first = i
		}
	}
	end := w.ending(&w.runs[first], length)
	if wake := w.plan().NextWake; !wake.IsZero() && wake.Before(end) {
		w.now = wake
		return
	}
	w.now = end
	w.ends(w.runs[first].RunID, agents.Done, 0)
}

// rhythm returns what decides how scheduled work continues: the time left of each session, and until each role is
// due.
func (w *world) rhythm(length time.Duration) string {
	var parts []string
	for i := range w.runs {
		x := &w.runs[i]
		parts = append(parts, fmt.Sprint(x.Agent, x.Role, x.Item.Ref, w.ending(x, length).Sub(w.now)))
	}
	for i := range w.config.Roles {
		r := &w.config.Roles[i]
		for _, repo := range w.config.Forge.Repos {
			key := threads.Key{Kind: agents.KindSchedule, Ref: forge.Ref{Repo: repo}, Role: r.Name}
			if last := w.books.Item(key).LastRun; r.On == agents.OnSchedule && !last.IsZero() {
				parts = append(parts, fmt.Sprint(r.Name, repo, max(0, last.Add(r.Every).Sub(w.now))))
			}
		}
	}
	slices.Sort(parts)
	return fmt.Sprint(parts, w.books.Item(threads.Key{Kind: agents.KindIssue, Ref: w.issues[0].Ref}).PassedOver)
}

// short formats a duration without zero parts, such as 1h or 20m.
func short(d time.Duration) string {
	words := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if len(words) > len(zero) && words[len(words)-len(zero):] == zero {
			words = words[:len(words)-2]
		}
	}
	return words
}
