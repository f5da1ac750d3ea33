package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// whyLines limits the agents and the items in an explanation: with the verdict they fill a screen of 24 lines.
const whyLines = 14

// Why shows the verdict, its remedy, and for each agent the rule that refused it. Agents with the same refusal share a
// line.
func (v View) Why(ex *threads.Explanation) string {
	p := v.page()
	v.repo = repoIn(ex) // the heading shows it
	v.verdict(p, ex)
	var rows [][]cell
	for _, g := range grouped(ex.Candidates) {
		rows = append(rows, []cell{{g.agents(), plain}, {g.no.Rule, wrong}, {v.relative(v.short(g.no.Why)), plain}})
	}
	v.list(p, row(faint, "AGENT", "RULE", "WHY NOT"), rows)
	rows = nil
	for _, it := range ex.Items {
		rows = append(rows, row(plain, v.work(it.Kind, it.Repo, it.Number), it.Title, v.relative(v.short(it.Why))))
	}
	v.list(p, row(faint, "WAITS", "TITLE", "WHY"), rows)
	if len(ex.Steps)+len(ex.Candidates) > 0 && !v.Lost {
		p.end()
		p.line("every rule and its result: disinto why "+v.typed(subject(ex))+" --all", faint)
	}
	return p.text.String()
}

// subject names the item, agent or thread that the explanation is about.
func subject(ex *threads.Explanation) string {
	if ex.Name != "" {
		return ex.Name
	}
	return forge.Ref{Repo: ex.Repo, Number: ex.Number}.String()
}

// repoIn returns the repository of an item, or of all items that wait for an agent; empty if there are several.
func repoIn(ex *threads.Explanation) string {
	repo := ex.Repo
	for _, it := range ex.Items {
		if repo = cmp.Or(repo, it.Repo); repo != it.Repo {
			return ""
		}
	}
	return repo
}

// verdict writes the heading of an explanation: its subject, the verdict and the remedy.
func (v View) verdict(p *page, ex *threads.Explanation) {
	v.lost(p)
	heading := []cell{{string(ex.Kind), plain}, {subject(ex), bold}, {ex.Title, plain}}
	if ex.Kind == "" { // an answer that an older version kept about an agent or a thread
		heading = heading[1:]
	}
	p.table(len(heading)-1, [][]cell{heading})
	past := !ex.Since.IsZero()
	if past {
		p.line("since "+ex.Since.UTC().Format(time.RFC3339), faint)
		v.Now = ex.Since // times in the verdict are relative to it
	}
	verdict := v.relative(v.short(ex.Verdict))
	if ex.Position > 0 {
		verdict += fmt.Sprintf(" (place %d in the queue)", ex.Position)
	}
	switch {
	case ex.Code == "" || ex.Code == threads.Closed:
		p.line(verdict, good)
	case past:
		p.line(verdict, held)
	case ex.Mend == "":
		p.line(verdict, held)
		if ends := ex.Code.Ends(); !v.Lost && (ends == threads.ByItself || ends == threads.ByScan) {
			p.line("nothing to do: it continues by itself", faint)
		}
	default:
		p.line(verdict, held)
		p.line("to change that: "+v.typed(ex.Mend), faint)
	}
}

// list writes the first rows of a table and the number of further rows.
func (v View) list(p *page, heading []cell, rows [][]cell) {
	if len(rows) == 0 {
		return
	}
	shown := rows[:min(len(rows), whyLines)]
	p.headed(1, append([][]cell{heading}, shown...))
	if more := len(rows) - len(shown); more > 0 {
		p.line(fmt.Sprintf("and %d more", more), faint)
	}
}

// refusals are agents that the same rule refuses for the same reason.
type refusals struct {
	names []string
	no    threads.Step
}

// agents names the agents, or the first three and the number of others.
func (g *refusals) agents() string {
	if more := len(g.names) - 3; more > 0 {
		return strings.Join(g.names[:3], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(g.names, ", ")
}

// grouped returns the first refusal of each candidate, grouped. It removes the agent's name from the reason, because
// the table shows it in another column.
func grouped(candidates []threads.CandidateSteps) []refusals {
	var groups []refusals
	for i := range candidates {
		c := &candidates[i]
		at := slices.IndexFunc(c.Steps, func(s threads.Step) bool { return !s.OK })
		if at < 0 {
			continue
		}
		no := c.Steps[at]
		no.Why = strings.TrimPrefix(no.Why, c.Agent+" ")
		if same := slices.IndexFunc(groups, func(g refusals) bool { return g.no == no }); same >= 0 {
			groups[same].names = append(groups[same].names, c.Agent)
			continue
		}
		groups = append(groups, refusals{[]string{c.Agent}, no})
	}
	return groups
}

// WhyAll shows every rule in order with its result: first the rules about the item and, if all of them pass, the rules
// about each agent that could take it.
func (v View) WhyAll(ex *threads.Explanation) string {
	p := v.page()
	v.repo = ex.Repo
	v.verdict(p, ex)
	if len(ex.Steps) > 0 { // only items have steps
		p.end()
	}
	v.steps(p, ex.Steps)
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		p.end()
		p.line(fmt.Sprintf("%s as %s on %s", c.Agent, c.Role, c.Thread), bold)
		v.steps(p, c.Steps)
	}
	return p.text.String()
}

// steps shows rules and their results.
func (v View) steps(p *page, steps []threads.Step) {
	rows := make([][]cell, 0, len(steps))
	for _, s := range steps {
		if s.OK {
			rows = append(rows, row(faint, "  ok", s.Rule, ""))
			continue
		}
		rows = append(rows, []cell{{"  not ok", wrong}, {s.Rule, plain}, {v.short(s.Why), wrong}})
	}
	if len(rows) > 0 {
		p.table(-1, rows)
	}
}
