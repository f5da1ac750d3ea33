package web

import (
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// pill is a status in one or two words, with its tone: run, ok, wait, warn (needs you), bad or hold (paused, held).
type pill struct{ Tone, Text string }

// statusPills has the pill of each status.
var statusPills = map[control.Status]pill{
	control.NeedsYou: {"warn", "Needs you"}, control.Running: {"run", "Running"}, control.Queued: {"next", "Queued"},
	control.InReview: {"run", "In review"}, control.Merging: {"run", "CI and merge"}, control.Blocked: {"wait", "Blocked"},
	control.BackingOff: {"wait", "Backing off"}, control.Limited: {"hold", "Rate limited"},
	control.Paused: {"hold", "Paused"}, control.Held: {"hold", "On hold"}, control.Scheduled: {"wait", "Scheduled"},
	control.Unlabelled: {"wait", "Not queued"},
}

// codePills names more exactly what waits for a person.
var codePills = map[threads.Code]string{
	threads.NeedsAnswer: "Question", threads.PlanWaits: "Plan review", threads.NoPlan: "Plan review",
	threads.SplitRefused: "Split refused", threads.GaveUp: "Gave up",
	threads.Refused: "Refused", threads.PullRejected: "PR rejected", threads.PushRefused: "Push refused",
	threads.OverLimit: "Over its limit", threads.TooBigToReview: "Too big to review",
	threads.BlockerCycle: "Dependency cycle",
	threads.BlocksItself: "Dependency cycle", threads.BlockerMissing: "No such issue",
	threads.BlockerUnreadable: "No access", threads.BlockerCancelled: "Cancelled blocker",
	threads.BlockerUnmerged: "Unmerged blocker", threads.MergeManual: "Ready to merge",
	threads.MergeRefused: "Merge refused", threads.HumanObjects: "Changes requested", threads.PeopleReview: "Review",
	threads.Uninvited: "Review", threads.Unasked: "Review", threads.NoRole: "No agent", threads.NoSkill: "No agent",
	threads.NoReviewer: "No reviewer", threads.LocalPair: "No reviewer", threads.OwnWork: "No reviewer",
	threads.NoToken: "No token", threads.TokenRejected: "Token rejected", threads.NoProgram: "No program",
	threads.NoAnswer: "No answer", threads.AgentHeld: "Cannot start",
}

// itemPill returns the pill of an open item.
func itemPill(q *control.QueueDocument) pill {
	p := statusPills[q.Status()]
	switch {
	case q.NeedsPerson:
		p = needPill(q.Code)
		if q.Code == threads.TooManyRounds {
			p.Text = limitOf(q.Why)
		}
	case q.Code == threads.OverBudget:
		p.Text = "Over budget"
	}
	return p
}

// limitOf names the limit that a reason of threads.TooManyRounds is about, by its first words.
func limitOf(why string) string {
	for start, limit := range map[string]string{
		string(threads.CauseCI): "CI-fix limit", string(threads.CauseChanges): "Review limit", "sent back": "Review limit",
		"reviewed": "Review limit",
	} {
		if strings.HasPrefix(why, start) {
			return limit
		}
	}
	return "Round limit"
}

// needPill returns the pill of something that waits for a person.
func needPill(code threads.Code) pill {
	p := statusPills[control.NeedsYou]
	if text := codePills[code]; text != "" {
		p.Text = text
	}
	if code.Class() == threads.Failed || code == threads.BlockerCycle || code == threads.TokenRejected {
		p.Tone = "bad"
	}
	return p
}

// agentPill returns the pill of an agent's state.
func agentPill(a *control.AgentDocument) pill {
	switch {
	case a.State == control.AgentWorking:
		return pill{"run", "Running"}
	case a.State == control.AgentIdle:
		return pill{"wait", "Idle"}
	case a.Paused:
		return statusPills[control.Paused]
	case a.NeedsPerson:
		return needPill(a.Code)
	}
	return pill{"hold", "Held"}
}

// outcomePill returns the pill of a session that ended.
func outcomePill(r agents.Result) pill {
	text := strings.ReplaceAll(string(r), "-", " ")
	p := pill{"hold", title(text)}
	switch {
	case r == agents.Done || r == agents.Planned:
		p.Tone = "ok"
	case r == agents.TimedOut:
		p = pill{"bad", "Timed out"}
	case r.Fails():
		p.Tone = "bad"
	case r == agents.Refused || r == agents.Question || r == agents.TooBig:
		p.Tone = "warn"
	}
	return p
}

// statusPill returns the pill of a status, or of an answer of a rule, by name.
func statusPill(name string) pill {
	switch name {
	case "passed":
		return pill{"ok", "passes"}
	case "refused":
		return pill{"bad", "fails"}
	}
	return statusPills[control.Status(name)]
}

// legend explains the colours of a timeline: the class of a bar, and what it is.
func legend() []pill {
	return []pill{
		{"issue", "coding"},
		{"rework", "rework"},
		{"review", "review"},
		{"schedule", "scheduled"},
		{"failed", "failed"},
		{"parked", "rate limited or backing off"},
		{"beside", "idle while work waits"},
	}
}
