package sim

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Happened returns the report of the newest days of a journal, for comparison with trials of the same days from
// Replay. An issue is done when its pull request is merged. If no merge is known, because a person merged or there
// was nothing to merge, it is done at the end of its last session, if an issue can end with such a session.
func Happened(past []ledger.Past, timeline ledger.Timeline, config *threads.Config, days time.Duration) Report {
	r := Report{Policy: "happened"}
	past, from := recent(past, days)
	if len(past) == 0 {
		return r
	}
	r.Sessions = len(past)
	issues, order := issuesOf(past, timeline.Merges)
	var waits []time.Duration
	for _, ref := range order {
		is := issues[ref]
		filed := latest(is.filed, from)
		waits = append(waits, max(0, is.begun.Sub(filed)))
		if is.over {
			r.Done++
			r.turnarounds = append(r.turnarounds, max(0, is.ended.Sub(filed)))
			r.Makespan = max(r.Makespan, is.ended.Sub(from))
		}
	}
	r.Issues, r.Lost = len(order), len(order)-r.Done
	r.First, r.Turn = spread(waits), spread(r.turnarounds)
	for _, f := range timeline.Free {
		r.Idle += max(0, f.Until.Sub(latest(f.From, from)))
	}
	r.spans(past, from)
	r.Used = r.used(crew(past, config))
	for _, is := range switched(past, config) {
		if is {
			r.Switches++
		}
	}
	return r
}

// lived is an issue in the journal.
type lived struct {
	filed, begun, ended time.Time
	over                bool
}

// issuesOf returns the issues of sessions, which are sorted by start, in the order of their first writing session.
func issuesOf(past []ledger.Past, merges []ledger.Merged) (issues map[ledger.Ref]*lived, order []ledger.Ref) {
	issues = make(map[ledger.Ref]*lived)
	for i := range past {
		s := &past[i]
		is := issues[s.Chain]
		if is == nil && s.Kind.Writes() {
			is = &lived{filed: filed(s), begun: s.Start}
			issues[s.Chain] = is
			order = append(order, s.Chain)
		}
		if is == nil || s.End.Before(is.ended) || s.Kind == agents.KindSchedule {
			continue
		}
		is.ended = s.End
		is.over = s.Outcome == agents.Done && (s.Kind != agents.KindReview || s.Verdict == ledger.Approved)
	}
	for i := range merges {
		m := &merges[i]
		if is := issues[m.Chain]; is != nil && !m.When.Before(is.begun) {
			is.over, is.ended = true, m.When
		}
	}
	return issues, order
}

// spans adds sessions to the report.
func (r *Report) spans(past []ledger.Past, from time.Time) {
	for i := range past {
		s := &past[i]
		r.Spans = append(r.Spans, Span{
			Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Kind: string(s.Kind), Chain: s.Chain.Number,
			From: max(0, s.Start.Sub(from)), To: s.End.Sub(from),
		})
	}
}

// crew counts the agents of the configuration, and those that worked before they left it.
func crew(past []ledger.Past, config *threads.Config) int {
	names := make(map[string]bool)
	for i := range config.Agents {
		names[config.Agents[i].Name] = true
	}
	for i := range past {
		names[past[i].Agent] = true
	}
	return len(names)
}
