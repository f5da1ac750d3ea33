package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// course is a factory with some issues and their pull requests, at one moment. Decide decides and the ledger
// remembers; nothing else is modelled. A course is a value: what follows from it is a copy.
type course struct {
	config  *threads.Config
	now     time.Time
	records []ledger.Record // since the start
	issues  []forge.Issue
	pulls   []forge.Pull
	runs    []threads.Session
	begun   bool
}

// newCourse returns an empty course without scheduled roles.
func newCourse(c *threads.Config) course {
	quiet := *c
	quiet.Roles = slices.DeleteFunc(slices.Clone(c.Roles), func(r agents.Role) bool { return r.On == agents.OnSchedule })
	return course{config: &quiet, now: epoch.Add(time.Hour)}
}

// file opens an issue with the label backlog and others, assigned to accounts.
func (c *course) file(labels []string, logins ...string) {
	labels = append(slices.Clone(labels), forge.LabelBacklog)
	slices.Sort(labels)
	c.issues = append(c.issues, forge.Issue{
		Ref: c.ref(), Labels: slices.Compact(labels), Assignees: logins, Created: c.now, Updated: c.now, AsOf: c.now,
		BlockersKnown: true,
	})
}

func (c *course) ref() forge.Ref {
	return forge.Ref{Repo: c.config.Forge.Repos[0], Number: int64(len(c.issues) + len(c.pulls) + 1)}
}

// open opens a pull request for an issue.
func (c *course) open(login string, issue forge.Ref) {
	c.pulls = append(slices.Clone(c.pulls), forge.Pull{
		Ref: c.ref(), Author: login, Created: c.now, Updated: c.now, AsOf: c.now, Base: "main", MergeBase: "base",
		Mergeable: forge.MergeClean, Closes: []forge.Ref{issue}, Head: fmt.Sprintf("fix/issue-%d", issue.Number),
		HeadSHA: "head",
	})
}

func (c *course) snapshot() threads.Snapshot {
	books := ledger.New()
	for _, r := range c.records {
		books.Apply(r)
	}
	s := threads.Snapshot{Now: c.now, Config: c.config, Sessions: c.runs, History: books.History}
	s.Facts = forge.Facts{Issues: c.issues, Pulls: c.pulls}
	for _, name := range c.config.Forge.Repos {
		s.Facts.Repos = append(s.Facts.Repos, forge.Repo{Name: name, AsOf: c.now, DefaultBranch: "main"})
	}
	return s
}

func (c *course) plan() threads.Plan { return threads.Decide(c.snapshot()) }

func (c *course) record(r ledger.Record) {
	r.At = c.now
	c.records = append(slices.Clip(c.records), r)
}

// starts starts a session of a plan.
func (c *course) starts(s *threads.Start) {
	login := c.config.Agent(s.Agent).Login
	run := fmt.Sprintf("run-%04d", len(c.records))
	c.record(ledger.Record{Start: &ledger.Start{
		Run: run, Thread: s.Thread, Slot: s.Slot, Sticky: !c.config.Thread(s.Thread).Overlap, Agent: s.Agent, Login: login,
		Role: s.Role, Item: ledger.KeyOf(s.Item.Key()), Chain: ledger.Ref(s.Item.Chain), Cause: s.Item.Cause,
		Attempt: s.Attempt, Rung: s.Rung, PassedOver: ledger.KeyOf(s.PassedOver),
	}})
	c.runs = append(slices.Clip(c.runs), threads.Session{
		RunID: run, Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Login: login, Role: s.Role, Item: s.Item,
		State: threads.Running, Attempt: s.Attempt, Rung: s.Rung, Started: c.now,
	})
	c.begun = true
}

// ends returns the course after the only session, which started before: it did what it was started for, or not. A
// review that did not requests changes.
func (c course) ends(well bool) course {
	x := c.runs[0]
	c.now, c.runs = c.now.Add(time.Minute), nil
	end := &ledger.End{Run: x.RunID, Result: agents.Done}
	c.issues, c.pulls = slices.Clone(c.issues), slices.Clone(c.pulls)
	i := slices.IndexFunc(c.pulls, func(p forge.Pull) bool { return p.Ref == x.Item.Ref })
	switch {
	case x.Item.Kind == agents.KindReview:
		p, verdict := &c.pulls[i], forge.ChangesRequested
		if well {
			verdict = forge.Approved
			end.Approved = &threads.Approval{Head: p.HeadSHA, Base: p.Base, MergeBase: p.MergeBase}
		}
		end.Verdict = ledger.VerdictOf(verdict)
		p.Reviews = append(slices.Clip(p.Reviews), forge.Review{
			ID: int64(len(p.Reviews) + 1), Author: x.Login, Verdict: verdict, CommitSHA: p.HeadSHA, Official: true,
			Submitted: c.now,
		})
	case !well:
		end.Result, end.Reason = agents.Failed, "it failed"
	case x.Item.Kind == agents.KindIssue:
		c.open(x.Login, x.Item.Ref)
	default:
		c.pulls[i].HeadSHA += "'"
	}
	c.record(ledger.Record{End: end})
	c.record(ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
	if i < 0 {
		c.issues[0].Assignees = nil // a release removes the assignment
	}
	return c
}

// stall is the end of a course: why its issue waits for ever, nil if it does not, and whether a session has started.
type stall struct {
	why   *threads.Reason
	begun bool
}

func (s stall) code() threads.Code {
	if s.why == nil {
		return ""
	}
	return s.why.Code
}

// journey follows an issue through every course: each session succeeds or fails, each review approves or requests
// changes, and the agent of a rework may be paused, so that another takes over. It returns the first stall.
func journey(config *threads.Config, labels []string, logins ...string) stall {
	first := newCourse(config)
	first.file(labels, logins...)
	seen := make(map[string]bool)
	for queue := []course{first}; len(queue) > 0; queue = queue[1:] {
		c := queue[0]
		start, why := c.settle()
		if why != nil {
			return stall{why, c.begun}
		}
		if start == nil {
			continue
		}
		next := []course{c, c}
		next[0].starts(start)
		next[1].starts(start)
		next[0], next[1] = next[0].ends(true), next[1].ends(false)
		if start.Item.Kind == agents.KindRework && len(c.snapshot().History.Paused) == 0 {
			c.record(ledger.Record{Pause: &ledger.Pause{Pause: threads.Pause{Agent: start.Agent}}})
			next = append(next, c)
		}
		for _, n := range next {
			if key := n.state(); !seen[key] {
				seen[key] = true
				queue = append(queue, n)
			}
		}
	}
	return stall{}
}

// state has what decides how a course continues. Failures and requested changes count only on a ladder.
func (c *course) state() string {
	history := c.snapshot().History
	chain := history.Chain(c.issues[0].Ref)
	key := fmt.Sprint(len(c.pulls), c.issues[0].Assignees, chain.Writers, len(history.Paused))
	objections := 0
	for _, p := range c.pulls {
		for _, r := range p.Reviews {
			if r.Verdict == forge.ChangesRequested {
				objections++
			}
			if r.CommitSHA == p.HeadSHA {
				key += fmt.Sprint(r.Verdict)
			}
		}
	}
	for _, name := range chain.Writers {
		if rungs, _ := c.config.Ladder(name); len(rungs) > 0 {
			key += fmt.Sprint(chain.Rung, chain.Failures, objections)
			break
		}
	}
	return key
}

// settle advances time until the issue, or its pull request once that is open, starts or waits for ever. It returns
// neither if it is merged, waits for a person, or for an agent that is paused.
func (c *course) settle() (*threads.Start, *threads.Reason) {
	for range 50 {
		plan := c.plan()
		ref := c.issues[0].Ref
		if len(c.pulls) > 0 {
			ref = c.pulls[0].Ref
		}
		for i := range plan.Starts {
			if plan.Starts[i].Item.Ref == ref {
				return &plan.Starts[i], nil
			}
		}
		i := slices.IndexFunc(plan.Holds, func(h *threads.Hold) bool { return h.Item.Ref == ref })
		route := slices.IndexFunc(plan.Marks, func(m threads.Mark) bool { return m.Action == threads.ActRoute })
		switch {
		case route >= 0:
			c.issues = slices.Clone(c.issues)
			c.issues[0].Assignees = []string{c.config.Agent(plan.Marks[route].Agent).Login}
		case len(plan.Merges) > 0 || i < 0 || plan.Holds[i].Reason.Code == threads.Paused:
			return nil, nil
		case !plan.NextWake.IsZero():
			c.now = plan.NextWake
		case slices.Contains([]threads.Class{threads.Unfit, threads.Busy, threads.Ready}, plan.Holds[i].Reason.Code.Class()):
			return nil, plan.Holds[i].Reason
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// jam starts as many sessions as can be that wait for a review, lets each open its pull request, and reports whether
// no review starts although some agent may give one.
func jam(config *threads.Config) string {
	c := newCourse(config)
	for i := range config.Agents {
		for _, name := range config.Agents[i].Roles {
			if r := config.Role(name); r.WaitsForReview {
				c.file(slices.DeleteFunc([]string{r.Label}, func(l string) bool { return l == "" }), config.Agents[i].Login)
				break
			}
		}
	}
	plan := c.plan()
	for i := range plan.Starts {
		s := &plan.Starts[i]
		if r := config.Role(s.Role); !r.WaitsForReview {
			return "" // this session ends, and frees its slot
		}
		c.starts(s)
	}
	for _, x := range c.runs {
		c.open(x.Login, x.Item.Ref)
	}
	c.now = c.now.Add(time.Minute)
	plan = c.plan()
	if slices.ContainsFunc(plan.Starts, func(s threads.Start) bool { return s.Item.Kind == agents.KindReview }) {
		return ""
	}
	for _, h := range plan.Holds {
		if h.Item.Kind == agents.KindReview && h.Reason.Code.Class() == threads.Busy {
			return "jam: " + h.Reason.Text()
		}
	}
	return ""
}
