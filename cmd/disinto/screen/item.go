package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// reviewWords limits the text of a review in a life, in columns: two lines on a screen.
const reviewWords = 120

// Item shows the life of an issue or pull request: its state, then its events and its sessions with their usage, oldest
// first.
func (v View) Item(d *control.ItemDocument) string {
	p := v.page()
	v.repo = d.Repo
	ref := forge.Ref{Repo: d.Repo, Number: d.Number}
	p.table(2, [][]cell{{{d.Kind, plain}, {ref.String(), bold}, {d.Title, plain}}})
	stands := held
	if d.State != control.StateOpen {
		stands = good
	}
	p.line(v.relative(v.short(d.Verdict)), stands)
	if d.Mend != "" {
		p.line("to change that: "+v.typed(d.Mend), faint)
	}
	if words := v.waited(d.Waited); words != "" {
		p.line("waited "+words, faint)
	}
	v.related(p, "depends on: ", d.DependsOn)
	v.related(p, "blocks: ", d.Blocks)
	p.headed(-1, append([][]cell{row(faint, "AGO", "WHO", "WHAT")}, v.events(d)...))
	v.sessions(p, d)
	return p.text.String()
}

// waitsShown is the number of things in a line about waiting.
const waitsShown = 5

// waited says what an item waited for: "2h10m for #12, 25m for a free dev agent". It leaves out what took less than a
// minute.
func (v View) waited(all []control.WaitDocument) string {
	var words []string
	for _, w := range all[:min(len(all), waitsShown)] {
		switch took := time.Duration(w.Seconds) * time.Second; {
		case took < time.Minute:
		case w.For == "":
			why := string(w.Code)
			if q := (control.QueueDocument{Code: w.Code}); q.Status() == control.BackingOff {
				why = "backing off"
			}
			words = append(words, fmt.Sprintf("%s (%s)", control.About(took), why))
		default:
			words = append(words, fmt.Sprintf("%s for %s", control.About(took), v.short(w.For)))
		}
	}
	return strings.Join(words, ", ")
}

// related lists issues that the issue depends on or blocks.
func (v View) related(p *page, label string, members []threads.Member) {
	var names []string
	for i := range members {
		names = append(names, v.short(members[i].Ref().String())+" "+string(members[i].State))
	}
	if len(names) > 0 {
		p.line(label+strings.Join(names, ", "), faint)
	}
}

// itemEvent is an event in a life.
type itemEvent struct {
	at        time.Time
	who, what string
}

// events returns the rows for the events of a life without its sessions: filed, opened, reviewed, merged.
func (v View) events(d *control.ItemDocument) [][]cell {
	var all []itemEvent
	if d.Kind == "issue" {
		all = append(all, itemEvent{d.FiledAt, d.Author, "filed it"})
	}
	merged := false
	for i := range d.Pulls {
		all = append(all, v.pullEvents(&d.Pulls[i])...)
		merged = merged || d.Pulls[i].State == control.StateMerged
	}
	if d.Kind == "issue" && !merged {
		all = append(all, itemEvent{d.EndedAt, "", "closed"})
	}
	all = slices.DeleteFunc(all, func(h itemEvent) bool { return h.at.IsZero() })
	slices.SortStableFunc(all, func(a, b itemEvent) int { return a.at.Compare(b.at) })
	rows := make([][]cell, 0, len(all))
	for _, h := range all {
		rows = append(rows, row(plain, v.ago(h.at), h.who, h.what)) // the forge does not report who merged or closed
	}
	return rows
}

func (v View) pullEvents(p *control.PullDocument) []itemEvent {
	number := fmt.Sprintf("#%d", p.Number)
	all := []itemEvent{{p.OpenedAt, p.Author, "opened pull request " + number + " from " + p.Head}}
	for _, r := range p.Reviews {
		did := "commented on "
		switch r.Verdict {
		case "approved":
			did = "approved "
		case "changes":
			did = "requested changes to "
		}
		what := did + number
		if words := strings.TrimSpace(Clean(r.Words)); words != "" {
			what += ": " + v.cut(words, reviewWords)
		}
		all = append(all, itemEvent{r.At, r.Author, what})
	}
	if p.State != control.StateOpen {
		all = append(all, itemEvent{p.EndedAt, "", number + " " + p.State})
	}
	return all
}

// sessions lists the sessions of a life with their usage.
func (v View) sessions(p *page, d *control.ItemDocument) {
	rows := [][]cell{v.pastHeading()}
	var total, told agents.Usage
	logged, cold := len(d.Running) > 0, ""
	var steps []agents.Step
	var verified *agents.Verified
	var heard []agents.Message
	for i := range d.Sessions {
		s := &d.Sessions[i]
		if len(s.Steps) > 0 {
			steps, verified = s.Steps, s.Verified
		}
		rows = append(rows, v.pastRow(s))
		if s.Usage != nil {
			total.InputTokens += s.Usage.InputTokens + s.Usage.OutputTokens
			total.CostUSD += s.Usage.CostUSD
			if _, known := s.Usage.Hit(); known {
				told = told.Add(*s.Usage)
			}
		}
		if s.Resumed != nil {
			cold = s.Cold
		}
		logged = logged || s.Log != ""
	}
	for i := range d.Running {
		s := &d.Running[i]
		heard = append(heard, s.Told...)
		rows = append(rows, v.columns(row(good, v.age(s.StartedAt)+" ago", s.Agent, v.work(s.Kind, s.Repo, s.Number),
			place(s.Thread, s.Slot), v.duration(*s), "", control.HitOf(&s.Usage), elsewhere(s.Place)+string(s.State))))
	}
	p.headed(-1, rows)
	if total != (agents.Usage{}) {
		line := fmt.Sprintf("%s used %s tokens%s, as far as known", control.Count(len(d.Sessions), "session"),
			control.Tokens(total.InputTokens), strings.TrimSuffix(" and "+control.CostOf(&total), " and -"))
		if _, known := told.Hit(); known {
			line += "; " + control.HitOf(&told) + " cache hits"
		}
		p.line(line, faint)
	}
	if cold != "" {
		p.line("the last session to resume a conversation found a cold cache: "+cold, held)
	}
	for i := range heard {
		p.line(v.toldLine(&heard[i]), faint)
	}
	for i := range steps {
		p.line(stepLine(&steps[i]), faint)
	}
	if verified != nil {
		p.line(Clean(strings.TrimSuffix(fmt.Sprintf("verified: %s, %s", verified.Verdict, verified.Words), ", ")), faint)
	}
	refusedHosts(p, d.Sessions)
	if logged {
		p.line("output: disinto logs "+v.typed(forge.Ref{Repo: d.Repo, Number: d.Number}.String()), faint)
	}
}

// toldLine describes what a session was told: "told by johba 2m ago, delivered 1m ago: use tabs". It does not say
// heard, because a program of the operator's may not read its inbox.
func (v View) toldLine(m *agents.Message) string {
	heard := "not delivered yet"
	if !m.Heard.IsZero() {
		heard = "delivered " + v.age(m.Heard) + " ago"
	}
	return fmt.Sprintf("told by %s %s ago, %s: %s", Clean(m.Author()), v.age(m.At), heard,
		v.cut(strings.TrimSpace(Clean(m.Text)), reviewWords))
}

// refusedHosts shows the hosts that the egress of the last session did not allow. A review that was refused nothing
// does not hide what the session before it was refused.
func refusedHosts(p *page, sessions []control.PastDocument) {
	var refused agents.Refusals
	for i := range sessions {
		if s := &sessions[i]; s.Kind != agents.KindReview || len(s.Refused) > 0 {
			refused = s.Refused
		}
	}
	if len(refused) > 0 {
		p.line(Clean("a session was "+refused.Words()), held)
	}
	if line := refused.Line(); line != "" {
		p.line(Clean("to allow them: "+line), faint)
	}
}

// stepLine describes a command that ran beside an agent: "setup: npm ci, exit 1, 12.0 s".
func stepLine(s *agents.Step) string {
	return fmt.Sprintf("%s: %s, %.1f s", s.Phase, Clean(s.Words()), s.Seconds)
}

// History shows ended sessions, oldest first. An agent's scheduled runs with the same
// outcome share the line of the newest, except failed ones.
func (v View) History(d *control.HistoryDocument) string {
	p := v.page()
	v.repo = repoOf(d)
	rows := [][]cell{v.pastHeading()}
	type routine struct{ agent, outcome string }
	last := make(map[routine]int) // the row that stands for these scheduled runs
	runs := make(map[routine]int)
	for i := range d.Sessions {
		s := &d.Sessions[i]
		line := v.pastRow(s)
		if isRoutine(s) {
			like := routine{s.Agent, line[len(line)-1].text}
			if runs[like]++; runs[like] > 1 {
				rows[last[like]] = nil
				line[2].text += fmt.Sprintf(" x%d", runs[like])
			}
			last[like] = len(rows)
		}
		rows = append(rows, line)
	}
	rows = slices.DeleteFunc(rows, func(r []cell) bool { return r == nil })
	if len(rows) == 1 {
		p.text.WriteString("no session ended in that time\n")
	} else {
		p.table(-1, rows)
	}
	if forgotten := d.Forgotten(); forgotten != "" {
		fmt.Fprintf(&p.text, "\n%s\n", forgotten)
	}
	return p.text.String()
}

// isRoutine reports whether a session is scheduled work that did not fail.
func isRoutine(s *control.PastDocument) bool {
	return s.Kind == agents.KindSchedule && !s.Outcome.BurnsAttempt()
}

func (v View) pastHeading() []cell {
	return v.columns(row(faint, "STARTED", "AGENT", "WORK", "SLOT", "TOOK", "USED", "CACHE HITS", "OUTCOME"))
}

// slotWidth is the least width of a screen for the columns of slots and caches.
const slotWidth = 100

// columns omits the slot and the cache on a narrow screen.
func (v View) columns(line []cell) []cell {
	if v.Width > 0 && v.Width < slotWidth {
		return append(line[:3:3], line[4], line[5], line[7])
	}
	return line
}

// pastRow returns the row of an ended session. Sessions journalled by a version before 0.2 have no outcome.
func (v View) pastRow(s *control.PastDocument) []cell {
	used := "-"
	if s.Usage != nil {
		used = strings.TrimSuffix(control.Tokens(s.Usage.InputTokens+s.Usage.OutputTokens)+" "+control.CostOf(s.Usage), " -")
	}
	outcome := string(s.Outcome)
	if more := cmp.Or(s.Reason, string(s.Verdict)); more != "" {
		outcome += ": " + v.short(more)
	}
	if s.Heard > 0 {
		outcome += "; was told " + control.Count(s.Heard, "message")
	}
	where := "-"
	if s.Thread != "" {
		where = place(s.Thread, s.Slot)
	}
	line := row(plain, v.age(s.Start)+" ago", s.Agent, v.work(s.Kind, s.Ref.Repo, s.Ref.Number), where,
		control.Age(s.End.Sub(s.Start)), used, control.HitOf(s.Usage), outcome)
	if s.Outcome.BurnsAttempt() || s.Outcome == agents.Lost {
		line[len(line)-1].style = wrong
	}
	return v.columns(line)
}

func place(thread string, slot int) string { return fmt.Sprintf("%s/%d", thread, slot) }

// repoOf returns the repository of all sessions; empty if there are several.
func repoOf(d *control.HistoryDocument) string {
	repo := ""
	for i := range d.Sessions {
		if repo = cmp.Or(repo, d.Sessions[i].Ref.Repo); repo != d.Sessions[i].Ref.Repo {
			return ""
		}
	}
	return repo
}
