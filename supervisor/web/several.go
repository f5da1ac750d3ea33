package web

import (
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// A command that reaches far is shown before it runs. The page /several chooses items of the queue. The page /confirm
// lists what a command does to which items, and has the button that runs it on exactly these. Neither is kept up to
// date while it is open: what a person chose or read must not change under the hand.
var stills = []page{
	{path: "/several", show: (*Site).several},
	{path: "/confirm", show: (*Site).confirm},
}

// mostAtOnce is how many items one confirmation is about: a page of at most 40 kB.
const mostAtOnce = 50

// several shows the queue with a box for each item, and the commands for the chosen ones.
func (s *Site) several(ctx context.Context, query url.Values) (*board, error) {
	f := filterOf(query)
	f.at, f.all = "/several", query.Has("all")
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?"+f.Encode(), &d); err != nil {
		return nil, err
	}
	var agents []string
	for i := range d.Agents {
		agents = append(agents, d.Agents[i].Name)
	}
	failed := section{ID: "failed", Title: "Retry what failed", Note: "shown before it runs", Class: "panel"}
	failed.Rows = []row{render("choose-failed", "failed", map[string][]string{"Agents": agents, "Repos": s.repos()})}
	chips := f.chips(&d, s.repos())
	chips.Title = "Choose items"
	chips.Tools = template.HTML(execute("choose", map[string]any{"All": f.all, "None": f.here("/several")}))
	return &board{Title: "Retry or cancel several", Sections: []section{failed, chips, f.queue(&d), f.pager(&d)}}, nil
}

// confirmation is a command that waits for its button.
type confirmation struct {
	Refs    []string // of the items
	Ask     bool     // for words for others
	Buttons []button
	Back    string // the page without it
}

// affected is an item that a command is about, and what the command does to it.
type affected struct {
	Repo   string
	Number int64
	Title  string
	Pill   pill
	What   string
}

// confirm shows what a command will do.
func (s *Site) confirm(ctx context.Context, query url.Values) (*board, error) {
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state", &d); err != nil {
		return nil, err
	}
	switch do := query.Get("do"); do {
	case "drain":
		return s.confirmDrain(ctx, &d)
	case "pause":
		return confirmPause(&d, query.Get("name"))
	case "retry", "cancel":
		return confirmMany(&d, do, query)
	default:
		return nil, control.NotFound("cannot confirm %q: it is none of drain, pause, retry and cancel", do)
	}
}

// confirmDrain asks the supervisor what a drain would wait for.
func (s *Site) confirmDrain(ctx context.Context, d *control.Document) (*board, error) {
	var would control.Report
	if err := s.API.Post(ctx, "/v1/drain", control.DrainRequest{DryRun: true}, &would); err != nil {
		return nil, err
	}
	c := confirmation{Back: "/", Ask: true, Buttons: []button{
		{Label: "Drain", Class: "primary", Command: "drain"},
		{Label: "Drain, then stop disinto", Command: "drain", Field: "then", Value: "stop"},
	}}
	says := append(would.Did, "Sessions, reviews, rework and merges go on. Issues on which nobody has begun, and "+
		"scheduled roles, wait until someone resumes.")
	if would.Note != "" {
		says = append(says, would.Note)
	}
	return confirmBoard("Drain", says, sessionsOf(d, "", "goes on"), c), nil
}

// confirmPause shows what goes on in a repository, and what waits, once it is paused.
func confirmPause(d *control.Document, repo string) (*board, error) {
	if !slices.ContainsFunc(d.Repos, func(r control.RepoDocument) bool { return r.Name == repo }) {
		return nil, control.NotFound("no repository is called %q", repo)
	}
	list := sessionsOf(d, repo, "goes on")
	says := []string{fmt.Sprintf("The sessions that run in %s finish: %d. Merges go on.", repo, len(list))}
	waiting := 0
	for i := range d.Queue {
		q := &d.Queue[i]
		if q.Repo == repo && slices.Contains(startsByItself, q.Status()) {
			waiting++
			list = append(list, affectedBy(q, "waits until someone resumes it"))
		}
	}
	says = append(says, fmt.Sprintf("What would start there by itself waits: %s.", control.Count(waiting, "item")))
	return confirmBoard("Pause "+repo, says, list, confirmation{Back: "/", Ask: true, Buttons: []button{
		{Label: "Pause " + repo, Class: "primary", Command: "pause", Field: "name", Value: repo},
	}}), nil
}

// startsByItself are the statuses of items that start without a person.
var startsByItself = []control.Status{control.Queued, control.BackingOff, control.Scheduled, control.Limited}

// confirmMany lists the items to retry or to cancel: those that the query names, or, to retry, those that it chooses.
func confirmMany(d *control.Document, do string, query url.Values) (*board, error) {
	refs := query["ref"]
	if len(refs) == 0 && do == "retry" {
		of := query.Get("of")
		choice := control.RetryChoice{
			Blocked: of == "blocked", All: of == "all", Agent: query.Get("agent"), Repo: query.Get("repo"),
		}
		if err := choice.Check(d); err != nil {
			return nil, err
		}
		for _, q := range choice.From(d) {
			refs = append(refs, refText(&q))
		}
	}
	says := []string{"Failed attempts, back-off, refusals, review rounds and rejected pull requests are forgotten, and " +
		"the labels blocked, needs-human, needs-answer and cancelled are removed."}
	if do == "cancel" {
		says = []string{"Each stays open and is labelled cancelled, as are the agents' open pull requests for it. What " +
			"depends on it stays blocked. Retry undoes it."}
	}
	if all := len(refs); all > mostAtOnce {
		refs = refs[:mostAtOnce]
		says = append(says, fmt.Sprintf("These are the first %d of %d: come back for the rest.", mostAtOnce, all))
	}
	var list []affected
	for _, ref := range refs {
		list = append(list, affectedItem(d, do, ref))
	}
	label := title(do) + " " + control.Count(len(refs), "item")
	class := map[string]string{"retry": "primary", "cancel": "danger"}[do]
	c := confirmation{Refs: refs, Back: "/several", Buttons: []button{{Label: label, Class: class, Command: do}}}
	if len(refs) == 0 {
		says, c.Buttons = []string{"Nothing fits: there is nothing to " + do + "."}, nil
	}
	return confirmBoard(label, says, list, c), nil
}

// affectedItem says what a command does to an item.
func affectedItem(d *control.Document, do, said string) affected {
	ref, err := forge.ParseRef(said, "")
	if err != nil {
		return affected{Title: said, Pill: pill{"bad", "Not understood"}}
	}
	does, session := "is tried again", "goes on"
	if do == "cancel" {
		does, session = "gets the label cancelled", "ends, and its work is pushed"
	}
	for _, a := range sessionsOf(d, ref.Repo, session) {
		if a.Number == ref.Number {
			return a
		}
	}
	for _, list := range [][]control.QueueDocument{d.Queue, d.Unqueued} {
		for i := range list {
			if q := &list[i]; q.Number == ref.Number && q.Repo == ref.Repo {
				return affectedBy(q, does+"; now: "+q.Why)
			}
		}
	}
	return affected{Repo: ref.Repo, Number: ref.Number, Pill: pill{"wait", "Not in the queue"}, What: does}
}

func affectedBy(q *control.QueueDocument, what string) affected {
	return affected{Repo: q.Repo, Number: q.Number, Title: q.Title, Pill: itemPill(q), What: what}
}

// sessionsOf returns the running sessions in a repository, or in all, each with what the command does to it.
func sessionsOf(d *control.Document, repo, what string) (list []affected) {
	for i := range d.Sessions {
		x := &d.Sessions[i]
		if repo == "" || x.Repo == repo {
			list = append(list, affected{
				Repo: x.Repo, Number: x.Number, Title: x.Title, Pill: statusPills[control.Running],
				What: "the session of " + x.Agent + " " + what,
			})
		}
	}
	return list
}

// confirmBoard lays a preview out: what will happen, the button, and the items.
func confirmBoard(title string, says []string, list []affected, c confirmation) *board {
	what := section{ID: "will", Title: "What will happen", Class: "panel"}
	for i, line := range says {
		what.Rows = append(what.Rows, render("says", fmt.Sprint("says-", i), line))
	}
	what.Rows = append(what.Rows, render("confirm", "confirm", c))
	items := section{ID: "items", Title: "Items", Head: columns("Title", "Status", "What happens")}
	items.Note = fmt.Sprint(len(list))
	for i := range list[:min(len(list), mostAtOnce)] {
		items.Rows = append(items.Rows, render("affected", fmt.Sprint("item-", i), &list[i]))
	}
	if len(list) > mostAtOnce {
		items.Note = fmt.Sprintf("the first %d of %d", mostAtOnce, len(list))
	}
	return &board{Title: title, Sections: []section{what, items}}
}
