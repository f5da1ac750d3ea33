package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// subject is the issue or pull request that a page is about, for the commands beside it.
type subject struct {
	Ref      string
	Commands []string // the names of its commands, in the order of their buttons
	Log      string   // the address of its log; empty if it has none
	Forge    string   // the address of its page on the forge; empty if unknown
}

// issue shows the life of one issue or pull request, and the reason for its state.
func (s *Site) issue(ctx context.Context, query url.Values) (*board, error) {
	var d control.ItemDocument
	if err := s.API.Get(ctx, "/v1/show?"+url.Values{"ref": {query.Get("ref")}}.Encode(), &d); err != nil {
		return nil, err
	}
	b := &board{Title: fmt.Sprintf("%s#%d %s", d.Repo, d.Number, d.Title), Item: s.subjectOf(&d)}
	b.Sections = append(b.Sections, currentState(&d), dependencyGraph(&d))
	var ex threads.Explanation
	if d.State == control.StateOpen && s.API.Get(ctx, "/v1/why?"+url.Values{"ref": {b.Item.Ref}}.Encode(), &ex) == nil {
		b.Sections = append(b.Sections, rules(&ex))
	}
	b.Sections = append(b.Sections, itemEvents(&d), sessions(&d))
	return b, nil
}

func (s *Site) subjectOf(d *control.ItemDocument) *subject {
	sub := &subject{Ref: fmt.Sprintf("%s#%d", d.Repo, d.Number)}
	if len(d.Sessions)+len(d.Running) > 0 {
		sub.Log = "/log?" + url.Values{"ref": {sub.Ref}}.Encode()
	}
	if c := s.Config(); c != nil && c.Forge.URL != "" {
		sub.Forge = fmt.Sprintf("%s/%s/issues/%d", c.Forge.URL, d.Repo, d.Number)
	}
	if d.State == control.StateOpen {
		sub.Commands = []string{"retry", "sling", "release", "cancel"}
		if d.Kind == "pull" {
			sub.Commands = []string{"retry", "release", "cancel"}
		}
		if slices.Contains(d.Labels, forge.LabelPlanFirst) && !slices.Contains(d.Labels, forge.LabelPlanApproved) {
			sub.Commands = append([]string{"approve"}, sub.Commands...)
		}
	}
	return sub
}

// currentState shows the item's state in a sentence, and what would change it.
func currentState(d *control.ItemDocument) section {
	sec := section{ID: "stands", Title: "Stands"}
	sec.Rows = append(sec.Rows, render("stands", "verdict", d))
	return sec
}

// dependencyGraph draws the issue between its dependencies and the issues that depend on it.
func dependencyGraph(d *control.ItemDocument) section {
	sec := section{ID: "place", Title: "Depends on, and is waited for"}
	is := threads.Member{Repo: d.Repo, Number: d.Number, Title: d.Title, State: threads.MemberState(d.State)}
	if g := neighbours(is, d.DependsOn, d.Blocks); g != nil {
		sec.Note = fmt.Sprintf("%d before it, %d after it", len(d.DependsOn), len(d.Blocks))
		sec.Rows = []row{render("graph", "place", g)}
	}
	return sec
}

// answers are the scheduler's rules for one agent, or for the item itself, in one row.
type answers struct {
	Who   string // the agent; empty for the item
	About string
	Steps []threads.Step
	OK    bool
}

// rules shows every rule that was checked, agents that passed the most rules first.
func rules(ex *threads.Explanation) section {
	sec := section{ID: "rules", Title: "Why", Note: "every rule that was checked", Empty: "No rule was checked."}
	allowed := func(steps []threads.Step) bool { return passed(steps) == len(steps) }
	if len(ex.Steps) > 0 {
		sec.Rows = append(sec.Rows, render("answers", "item", answers{"", "the item", ex.Steps, allowed(ex.Steps)}))
	}
	slices.SortStableFunc(ex.Candidates, func(a, b threads.CandidateSteps) int {
		return cmp.Compare(passed(b.Steps), passed(a.Steps))
	})
	for _, c := range ex.Candidates {
		about := fmt.Sprintf("%s on %s", c.Role, c.Thread)
		of := answers{c.Agent, about, c.Steps, allowed(c.Steps)}
		sec.Rows = append(sec.Rows, render("answers", "agent-"+c.Agent+"-"+c.Role, of))
	}
	return sec
}

// passed counts the rules before the first that refused.
func passed(steps []threads.Step) int {
	if i := slices.IndexFunc(steps, func(st threads.Step) bool { return !st.OK }); i >= 0 {
		return i
	}
	return len(steps)
}

// event is one entry of an item's life.
type event struct {
	At    time.Time
	Who   string
	What  string
	Words string
}

// itemEvents lists the events of an item other than its sessions, oldest first.
func itemEvents(d *control.ItemDocument) section {
	sec := section{ID: "life", Title: "Life", Head: []string{"When", "Who", "What"}}
	var all []event
	if d.Kind == "issue" {
		all = append(all, event{At: d.FiledAt, Who: d.Author, What: "filed it"})
	}
	for _, p := range d.Pulls {
		name := fmt.Sprintf("pull request #%d", p.Number)
		all = append(all, event{At: p.OpenedAt, Who: p.Author, What: "opened " + name + " from " + p.Head})
		for _, r := range p.Reviews {
			all = append(all, event{r.At, r.Author, verdicts[r.Verdict] + name, r.Words})
		}
		if p.State != control.StateOpen {
			all = append(all, event{At: p.EndedAt, What: name + " " + p.State})
		}
	}
	if d.Kind == "issue" && d.State == control.StateClosed { // a merged issue ends with its pull request's row
		all = append(all, event{At: d.EndedAt, What: "closed"})
	}
	all = slices.DeleteFunc(all, func(e event) bool { return e.At.IsZero() })
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	for i, e := range all {
		sec.Rows = append(sec.Rows, render("event", fmt.Sprintf("event-%d", i), e))
	}
	return sec
}

var verdicts = map[string]string{
	"approved": "approved ", "changes": "asked for changes of ", "comment": "commented on ",
}

// sessions lists the item's sessions with their usage.
func sessions(d *control.ItemDocument) section {
	sec := section{
		ID: "sessions", Title: "Sessions", Empty: "No session has worked on it.",
		Head: []string{"When", "Agent", "Work", "Thread", "Took", "Tokens", "Cached", "Cost", "Outcome"},
	}
	var tokens int64
	var cost float64
	for i := range d.Sessions {
		p := &d.Sessions[i]
		if p.Usage != nil {
			tokens += p.Usage.InputTokens + p.Usage.OutputTokens
			cost += p.Usage.CostUSD
		}
		sec.Rows = append(sec.Rows, render("past", fmt.Sprintf("past-%d", i), p))
	}
	for i := range d.Running {
		x := &d.Running[i]
		sec.Rows = append(sec.Rows, render("runs", "run-"+x.RunID, x))
	}
	if tokens > 0 || cost > 0 {
		sec.Note = fmt.Sprintf("%s tokens and %s, as far as known", control.Tokens(tokens), usd(cost))
	}
	return sec
}
