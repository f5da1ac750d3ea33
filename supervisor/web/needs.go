package web

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// button runs a command, or leads to the place where a person can act.
type button struct {
	Label   string
	Class   string // soft for the remedy
	Command string // of commands; empty for a link
	Field   string // ref or name
	Value   string
	Href    string
}

// remedy matches the commands in a remedy, such as `disinto retry o/r#6`.
var remedy = regexp.MustCompile("`disinto (retry|approve|release|resume|batch start)(?: ([^`]+))?`")

// remedies returns the buttons for the commands in a remedy. The words of a code are the only place that knows what
// helps, so a new code has its button at once.
func remedies(mend string) (list []button) {
	for _, m := range remedy.FindAllStringSubmatch(mend, -1) {
		b := button{Command: m[1], Class: "soft", Field: "ref", Value: m[2]}
		switch b.Label = title(m[1]); b.Command {
		case "resume":
			b.Field = "name"
		case "approve":
			b.Label = "Approve plan"
		case "batch start":
			b.Command, b.Label = "convoy-start", "Start the batch"
		}
		if !slices.ContainsFunc(list, func(x button) bool { return x.Command == b.Command && x.Value == b.Value }) {
			list = append(list, b)
		}
	}
	return list
}

// buttonsFor returns what a person can do about an item: the remedy first, then its page on the forge.
func buttonsFor(q *control.QueueDocument, forgeURL string) []button {
	list := remedies(q.Mend)
	if forgeURL == "" || q.Number == 0 {
		return list
	}
	page := button{Label: "Forgejo", Href: control.ItemPage(forgeURL, q.Repo, q.Number)}
	switch q.Code {
	case threads.NeedsAnswer:
		page.Label, page.Class, page.Href = "Answer", "soft", page.Href+"#comment-form"
		goOn := button{Label: "Go on without", Command: "retry", Field: "ref", Value: refText(q)}
		return []button{page, goOn}
	case threads.PlanWaits:
		page.Label = "Read plan"
	case threads.PeopleReview, threads.Uninvited, threads.Unasked, threads.TooBigToReview, threads.MergeManual:
		page.Label = fmt.Sprintf("PR #%d", q.Number)
	}
	if len(list) == 0 {
		page.Class = "soft"
	}
	return append(list, page)
}

// whereDropped says where a person drops the dependency that holds an item; empty for other reasons. No button drops
// it: it stands in a person's text, in the forge's list, or in both, and the forge takes an edited text without a check
// that nobody has edited it since.
func whereDropped(code threads.Code) string {
	switch code {
	case threads.BlocksItself, threads.BlockerCycle, threads.BlockerMissing, threads.BlockerCancelled,
		threads.BlockerUnmerged:
		return ` (on Forgejo: edit the line "Depends on" of its text, or its list of dependencies)`
	}
	return ""
}

func refText(q *control.QueueDocument) string {
	return forge.Ref{Repo: q.Repo, Number: q.Number}.String()
}

// need is one thing that waits for a person.
type need struct {
	Pill    pill
	Since   time.Time // zero if unknown
	About   link
	Title   string
	Repo    string // of references in Text
	Text    string
	Mend    string // what to do by hand, where no button does it
	Buttons []button
	Renew   string // the agent whose token has to be renewed
	Phone   bool   // shown on a phone only, in place of what follows
}

// A page shows at most mostNeeds items that need a person, and a phone at most phoneNeeds entries.
const mostNeeds, phoneNeeds = 8, 5

// needsYou shows the faults of the factory, the agents that cannot start anything, and the items that wait for a
// person, oldest first. A pause of everything counts as one of them, and has the banner above.
func needsYou(d *control.Document) section {
	sec := section{ID: "needs", Title: "Needs you", Class: "needs panel"}
	add := func(id string, n need) { sec.Rows = append(sec.Rows, render("need", id, n)) }
	for i, fault := range d.Faults() {
		add("fault-"+strconv.Itoa(i), faultNeed(d, fault))
	}
	for i := range d.Agents {
		a := &d.Agents[i]
		if a.State != control.AgentHeld || !a.NeedsPerson {
			continue
		}
		n := need{Pill: needPill(a.Code), Title: a.Name + " cannot start", Text: a.Why}
		n.About = link{Text: a.Name, Href: "/agents#" + a.Name}
		if a.Code == threads.TokenRejected || a.Code == threads.NoToken {
			n.Renew = a.Name
		}
		add("agent-"+a.Name, n)
	}
	if d.Waiting == nil {
		return sec
	}
	shown := d.Waiting.Needs[:min(len(d.Waiting.Needs), mostNeeds)]
	showAll := []button{{Label: "Show all", Href: "/?status=" + string(control.NeedsYou) + "#queue"}}
	for i := range shown {
		q := &shown[i]
		if hidden := d.Waiting.NeedYou - i; len(sec.Rows) == phoneNeeds && hidden > 1 {
			add("phone", need{Text: fmt.Sprintf("and %d more", hidden), Buttons: showAll, Phone: true})
		}
		n := need{
			Pill: itemPill(q), Since: q.Since, About: refOf(q.Repo, q.Number), Title: q.Title, Repo: q.Repo, Text: q.Why,
			Buttons: buttonsFor(q, d.Forge.URL),
		}
		if len(remedies(q.Mend)) == 0 && q.Code != threads.NeedsAnswer {
			n.Mend = q.Mend
		}
		add(itemID(q), n)
	}
	if more := d.Waiting.NeedYou - len(shown); more > 0 {
		add("more", need{Text: fmt.Sprintf("and %d more", more), Buttons: showAll})
	}
	n := needs(d)
	if pausedWithoutProblem(d) {
		n-- // it is in the banner
	}
	sec.Note = strconv.Itoa(n)
	return sec
}

// faultNeed names the part of the factory that a fault is about, and what helps.
func faultNeed(d *control.Document, fault string) need {
	n := need{Pill: pill{"bad", "Factory"}, Text: fault, Buttons: remedies(fault)}
	for i := range d.Alarms {
		if a := &d.Alarms[i]; a.Words == fault {
			n.Pill, n.Since = needPill(a.Code), a.Since
		}
	}
	switch {
	case slices.Contains(d.Config.Mistakes(), fault):
		n.Pill.Text = "Configuration"
	case fault == d.Forge.Error:
		n.Pill.Text = "Forgejo"
		n.Buttons = append(n.Buttons, button{Label: "Forgejo", Class: "soft", Href: d.Forge.URL})
	case len(n.Buttons) == 0 && strings.Contains(fault, "disinto resume"): // at a first start
		n.Pill = statusPills[control.Paused]
		n.Buttons = []button{{Label: "Resume all", Class: "soft", Command: "resume", Field: "name"}}
	}
	return n
}

// needs counts what waits for a person: faults, agents and items.
func needs(d *control.Document) int {
	n := len(d.Faults())
	if pausedWithoutProblem(d) {
		n++
	}
	if d.Waiting != nil {
		n += d.Waiting.NeedYou
	}
	for i := range d.Agents {
		if d.Agents[i].State == control.AgentHeld && d.Agents[i].NeedsPerson {
			n++
		}
	}
	return n
}

func itemID(q *control.QueueDocument) string {
	return fmt.Sprintf("%s-%s-%d", q.Kind, q.Repo, q.Number)
}
