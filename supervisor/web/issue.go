package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// issue shows one issue or pull request: why it waits and what helps, its sessions, its log and its history.
func (s *Site) issue(ctx context.Context, query url.Values) (*board, error) {
	var d control.ItemDocument
	if err := s.API.Get(ctx, "/v1/show?"+url.Values{"ref": {query.Get("ref")}}.Encode(), &d); err != nil {
		return nil, err
	}
	ref := forge.Ref{Repo: d.Repo, Number: d.Number}.String()
	b := &board{Title: fmt.Sprintf("%s %s#%d", d.Title, d.Repo, d.Number)}
	if s.single(d.Repo) {
		b.Title = fmt.Sprintf("%s #%d", d.Title, d.Number)
	}
	var ex threads.Explanation
	if d.State == control.StateOpen {
		_ = s.API.Get(ctx, "/v1/why?"+url.Values{"ref": {ref}}.Encode(), &ex) // without it the rules are left out
	}
	b.Sections = []section{
		reasonOf(&d, &ex, s.forgeURL()), tell(&d, ref), sessions(&d), logs(&d, ref, query.Get("session")), itemEvents(&d),
		details(&d), dependencies("before", "Depends on", d.DependsOn), dependencies("after", "Waits for it", d.Blocks),
	}
	return b, nil
}

// single reports whether a repository is the factory's only one.
func (s *Site) single(repo string) bool { return slices.Equal(s.repos(), []string{repo}) }

// forgeURL returns the forge's address; empty without a valid configuration.
func (s *Site) forgeURL() string {
	if c := s.Config(); c != nil {
		return c.Forge.URL
	}
	return ""
}

// reason says how an item stands, what helps, and which rules were checked.
type reason struct {
	*control.ItemDocument
	Ref     string
	Verdict string
	Pill    pill
	Code    threads.Code
	Buttons []button
	More    []button // other commands
	Hand    string   // what to do by hand, where no button does it
	Rules   []answers
	Failing string // "1 of 28 rules fails"
}

// reasonOf shows the one reason, its remedy first, and the rules folded.
func reasonOf(d *control.ItemDocument, ex *threads.Explanation, forgeURL string) section {
	ref := forge.Ref{Repo: d.Repo, Number: d.Number}.String()
	r := reason{ItemDocument: d, Ref: ref, Code: ex.Code, Pill: standing(d, ex.Code)}
	r.Verdict = verdictOf(d)
	q := control.QueueDocument{Repo: d.Repo, Number: d.Number, Code: ex.Code, Mend: d.Mend}
	r.Buttons = buttonsFor(&q, forgeURL)
	if where := whereDropped(ex.Code); len(remedies(d.Mend)) == 0 || where != "" {
		r.Hand = d.Mend + where
	}
	for i := range r.Buttons {
		if i == 0 && d.State == control.StateOpen && d.Mend != "" {
			r.Buttons[i].Class = "primary"
		} else {
			r.Buttons[i].Class = ""
		}
	}
	if d.State == control.StateOpen {
		r.More = otherCommands(d, ref, r.Buttons)
	}
	failing, checked := 0, len(ex.Steps)
	r.Rules = rulesOf(ex)
	for _, a := range r.Rules {
		if !a.OK {
			failing++
		}
	}
	for _, c := range ex.Candidates {
		checked += len(c.Steps)
	}
	if checked > 0 {
		r.Failing = control.Count(checked, "rule") + " checked"
		if failing > 0 && ex.Code != "" {
			r.Failing = fmt.Sprintf("1 of %s fails", control.Count(checked, "rule"))
		}
	}
	return section{ID: "reason", Class: "reason panel " + r.Pill.Tone, Rows: []row{render("reason", "reason", r)}}
}

// verdictOf returns the one reason of an item.
func verdictOf(d *control.ItemDocument) string { return strings.TrimPrefix(d.Verdict, "waits: ") }

// standing returns the pill of an item.
func standing(d *control.ItemDocument, code threads.Code) pill {
	why := verdictOf(d)
	needs := code.Class() == threads.Failed || code.Ends() == threads.ByPerson
	q := control.QueueDocument{Code: code, Why: why, NeedsPerson: needs}
	switch {
	case d.State == control.StateMerged:
		return pill{"ok", "Merged"}
	case d.State == control.StateClosed:
		return pill{"hold", "Closed"}
	case len(d.Running) > 0:
		return statusPills[control.Running]
	}
	return itemPill(&q)
}

// otherCommands returns the commands that are not among the buttons.
func otherCommands(d *control.ItemDocument, ref string, shown []button) (list []button) {
	add := func(command, label, class string) {
		if !slices.ContainsFunc(shown, func(b button) bool { return b.Command == command }) {
			list = append(list, button{Label: label, Command: command, Field: "ref", Value: ref, Class: class})
		}
	}
	if slices.Contains(d.Labels, forge.LabelPlanFirst) && !slices.Contains(d.Labels, forge.LabelPlanApproved) {
		add("approve", "Approve plan", "")
	}
	if d.Kind == "issue" {
		add("sling", "Start now", "")
	}
	add("retry", "Retry", "")
	add("release", "Release the claim", "")
	add("cancel", "Cancel", "danger")
	return list
}

// answers are the scheduler's rules for one agent, or for the item itself.
type answers struct {
	About string
	Steps []threads.Step
	OK    bool
}

// rulesOf returns every rule that was checked, agents that passed the most rules first.
func rulesOf(ex *threads.Explanation) (list []answers) {
	allowed := func(steps []threads.Step) bool { return passed(steps) == len(steps) }
	if len(ex.Steps) > 0 {
		list = append(list, answers{"The item", ex.Steps, allowed(ex.Steps)})
	}
	slices.SortStableFunc(ex.Candidates, func(a, b threads.CandidateSteps) int {
		return cmp.Compare(passed(b.Steps), passed(a.Steps))
	})
	for _, c := range ex.Candidates {
		list = append(list, answers{fmt.Sprintf("%s, %s on %s", c.Agent, c.Role, c.Thread), c.Steps, allowed(c.Steps)})
	}
	return list
}

// passed counts the rules before the first that refused.
func passed(steps []threads.Step) int {
	if i := slices.IndexFunc(steps, func(st threads.Step) bool { return !st.OK }); i >= 0 {
		return i
	}
	return len(steps)
}

// event is one entry of an item's history.
type event struct {
	At    time.Time
	Tone  string
	Who   string
	Repo  string
	What  string
	Words string
}

// itemEvents lists the events of an item other than its sessions, newest first.
func itemEvents(d *control.ItemDocument) section {
	sec := section{ID: "history", Title: "History", Class: "feed panel", Place: left}
	var all []event
	add := func(at time.Time, tone, who, what, words string) {
		if !at.IsZero() {
			all = append(all, event{at, tone, who, d.Repo, what, words})
		}
	}
	if d.Kind == "issue" {
		add(d.FiledAt, "wait", d.Author, "filed it", "")
	}
	for _, p := range d.Pulls {
		name := fmt.Sprintf("#%d", p.Number)
		add(p.OpenedAt, "run", p.Author, "opened "+name+" from "+p.Head, "")
		for _, r := range p.Reviews {
			v := verdicts[r.Verdict]
			add(r.At, v.Tone, r.Author, v.Text+name, r.Words)
		}
		if p.State == control.StateMerged {
			add(p.EndedAt, "ok", "", name+" merged", "")
		} else if p.State == control.StateClosed {
			add(p.EndedAt, "hold", "", name+" closed", "")
		}
	}
	if d.Kind == "issue" && d.State == control.StateClosed { // a merged issue ends with its pull request's row
		add(d.EndedAt, "hold", "", "closed", "")
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.At.Compare(b.At) })
	slices.Reverse(all)
	for i, e := range all {
		sec.Rows = append(sec.Rows, render("event", fmt.Sprintf("event-%d", len(all)-i), e))
	}
	return sec
}

var verdicts = map[string]pill{
	"approved": {"ok", "approved "}, "changes": {"warn", "asked for changes of "}, "comment": {"wait", "commented on "},
}

// sessions lists the item's sessions with their usage, newest first.
func sessions(d *control.ItemDocument) section {
	sec := section{
		ID: "sessions", Title: "Sessions", Empty: "No session has worked on it.", Place: left,
		Head: columns("Work", "Agent", "Slot", "Started#", "Took#", "Tokens#", "Cost#", "Result"),
	}
	for i := range d.Running {
		sec.Rows = append(sec.Rows, render("runs", "run-"+d.Running[i].RunID, &d.Running[i]))
	}
	var tokens int64
	var cost float64
	for i, p := range slices.Backward(d.Sessions) {
		if p.Usage != nil {
			tokens += p.Usage.InputTokens + p.Usage.OutputTokens
			cost += p.Usage.CostUSD
		}
		sec.Rows = append(sec.Rows, render("past", fmt.Sprintf("past-%d", i), &p))
	}
	if tokens > 0 || cost > 0 {
		sec.Note = fmt.Sprintf("%s tokens and %s, as far as known", control.Tokens(tokens), spentUSD(cost))
	}
	return sec
}

// tell shows what the session that writes was told, and a field that tells it more; nothing without such a session.
func tell(d *control.ItemDocument, ref string) section {
	sec := section{ID: "tell", Title: "Tell", Class: "feed panel", Place: left}
	for i := range d.Running {
		x := &d.Running[i]
		if !x.Kind.Writes() {
			continue
		}
		for k := range x.Told {
			sec.Rows = append(sec.Rows, render("told", fmt.Sprintf("told-%d", k), &x.Told[k]))
		}
		field := button{Label: "Tell " + x.Agent, Command: forge.Tell, Field: "ref", Value: ref}
		sec.Rows = append(sec.Rows, render("tell", "tell-"+x.RunID, field))
		sec.Note = x.Agent + " hears it after its next finished tool call"
		return sec
	}
	return sec
}

// logs shows the log of a session, or of the newest one that has a log, whether it was on the item or on a pull request
// for it.
func logs(d *control.ItemDocument, ref, run string) section {
	sec := section{ID: "log", Title: "Log", Note: "of the newest session", Class: "panel", Place: left}
	asked := run
	for i := range d.Sessions {
		if p := &d.Sessions[i]; asked == "" && p.Log != "" || asked != "" && p.Run == asked {
			ref, run = forge.Ref(p.Ref).String(), p.Run
			sec.Note = "of " + p.Agent + ", " + at(p.Start).Human + " (" + strings.ToLower(kindVerb(p.Kind)) + ")"
		}
	}
	for i := range d.Running {
		if x := &d.Running[i]; asked == "" || x.RunID == asked {
			ref, run = forge.Ref{Repo: x.Repo, Number: x.Number}.String(), x.RunID
			sec.Note = "of " + x.Agent + ", which works now"
		}
	}
	if len(d.Sessions)+len(d.Running) > 0 {
		sec.Rows = []row{render("log", "log", logOf(ref, run))}
	}
	return sec
}

// logHere returns the address of the page with a session's log.
func logHere(repo string, number int64, run string) string {
	return refOf(repo, number).Href + "&" + url.Values{"session": {run}}.Encode() + "#log"
}

// details shows what else is known about the item, and links to its pull requests.
func details(d *control.ItemDocument) section {
	sec := section{ID: "details", Title: "Details", Class: "facts panel", Place: right}
	add := func(name, text string, p pill) {
		sec.Rows = append(sec.Rows, render("fact", "fact-"+name, fact{Name: name, Text: text, Pill: p}))
	}
	add("Author", d.Author, pill{})
	for _, p := range d.Pulls {
		tone := map[string]string{control.StateMerged: "ok", control.StateClosed: "hold"}[p.State]
		if d.Kind == "issue" {
			add(fmt.Sprintf("PR #%d", p.Number), fmt.Sprintf("%s#%d of %s", d.Repo, p.Number, p.Author),
				pill{cmp.Or(tone, "run"), title(p.State)})
		}
		add("Branch", p.Head, pill{})
	}
	for i, w := range d.Waited[:min(len(d.Waited), 3)] {
		what := ": " + w.Code.Means()
		if w.For != "" {
			what = " for " + w.For
		}
		add([]string{"Waited", "", " "}[i], control.Age(time.Duration(w.Seconds)*time.Second)+what, pill{})
	}
	return sec
}

// dependencies lists the issues on one side of an item.
func dependencies(id, title string, members []threads.Member) section {
	sec := section{ID: id, Title: title, Class: "feed panel", Place: right}
	for i := range members {
		sec.Rows = append(sec.Rows, render("neighbour", members[i].Ref().String(), &members[i]))
	}
	return sec
}

// memberPill returns the pill of an issue among the dependencies of another, or in a convoy.
func memberPill(state threads.MemberState) pill {
	tones := map[threads.MemberState]string{
		threads.MemberDone: "ok", threads.MemberRunning: "run", threads.MemberReady: "next", threads.MemberFailed: "bad",
		threads.MemberCancelled: "hold",
	}
	return pill{cmp.Or(tones[state], "wait"), title(string(state))}
}
