package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A page shows shownRows rows of a queue, or the number in ?rows=, up to maxRows.
const (
	shownRows = 100
	maxRows   = 1000
)

// now shows what needs a person, what runs, the queue and the sessions that ended.
func (s *Site) now(ctx context.Context, query url.Values) (*board, error) {
	rows := shownRows
	if n, err := strconv.Atoi(query.Get("rows")); err == nil {
		rows = max(1, min(n, maxRows))
	}
	var d control.Document
	if err := s.API.Get(ctx, fmt.Sprintf("/v1/state?rows=%d", rows), &d); err != nil {
		return nil, err
	}
	return &board{Title: "Now", Sections: []section{
		needsYou(&d), running(&d), services(&d), queue(&d, rows), merged(&d), ended(&d), health(&d),
	}}, nil
}

// need is one thing that waits for a person.
type need struct {
	About link
	Text  string
	Mend  string
}

// needsYou shows a pause of the whole factory, its faults, the agents that cannot start anything, and the items
// that wait for a person, oldest first.
func needsYou(d *control.Document) section {
	sec := section{ID: "needs", Title: "Needs you", Urgent: true}
	add := func(id string, n need) { sec.Rows = append(sec.Rows, render("need", id, n)) }
	// The problem of a first start says how to resume.
	says := func(problem string) bool { return strings.Contains(problem, "disinto resume") }
	if d.Paused && !slices.ContainsFunc(d.Problems, says) {
		add("paused", need{Text: "everything is paused", Mend: "resume it"})
	}
	for i, fault := range d.Faults() {
		add("fault-"+strconv.Itoa(i), need{Text: fault})
	}
	for _, a := range d.Agents {
		if a.State == control.AgentHeld && a.NeedsPerson {
			add("agent-"+a.Name, need{About: link{Text: a.Name, Href: "/agents#" + a.Name}, Text: a.Why})
		}
	}
	chosen := func(q control.QueueDocument) bool { return !q.NeedsPerson }
	list := slices.DeleteFunc(slices.Concat(d.Queue, d.Unqueued), chosen)
	slices.SortStableFunc(list, func(a, b control.QueueDocument) int { return a.Since.Compare(b.Since) })
	for _, q := range list {
		add(itemID(&q), need{refOf(q.Repo, q.Number), q.Why, q.Mend})
	}
	sec.Note = control.Count(len(sec.Rows), "thing")
	return sec
}

func itemID(q *control.QueueDocument) string {
	return fmt.Sprintf("%s-%s-%d", q.Kind, q.Repo, q.Number)
}

// slot is one slot of a thread.
type slot struct {
	Thread  *control.ThreadDocument
	Index   int
	Warm    string
	Session *control.SessionDocument // nil if the slot is free
}

// running shows every slot of every thread.
func running(d *control.Document) section {
	sec := section{
		ID: "slots", Title: "Threads", Head: []string{"Thread", "Slot", "Agent", "Work", "Since", "Title"},
		Note: control.Count(len(d.Sessions), "session") + " run", Empty: "No thread is configured.",
	}
	for i := range d.Threads {
		t := &d.Threads[i]
		for _, sl := range t.Slots {
			free := true
			for j := range d.Sessions {
				if x := &d.Sessions[j]; x.Thread == t.Name && x.Slot == sl.Index {
					sec.Rows = append(sec.Rows, render("slot", "run-"+x.RunID, slot{t, sl.Index, sl.Warm, x}))
					free = false
				}
			}
			if free {
				id := fmt.Sprintf("free-%s-%d", t.Name, sl.Index)
				sec.Rows = append(sec.Rows, render("slot", id, slot{t, sl.Index, sl.Warm, nil}))
			}
		}
	}
	if len(d.Sessions) == 1 {
		sec.Note = "1 session runs"
	}
	return sec
}

// services shows the programs beside the agents.
func services(d *control.Document) section {
	sec := section{
		ID: "services", Title: "Services", Head: []string{"Service", "State", "Since", "Process", "Restarts", "Says"},
		Note: control.Count(len(d.Services), "service"),
	}
	for i := range d.Services {
		sec.Rows = append(sec.Rows, render("service", "service-"+d.Services[i].Name, &d.Services[i]))
	}
	return sec
}

// waits is an item in the queue with its forecast start. The start counts from the time of the forecast, so that the
// row changes only with the next forecast.
type waits struct {
	*control.QueueDocument
	Starts string
}

// queue shows the queue in the order of starts, each item with its reason.
func queue(d *control.Document, rows int) section {
	sec := section{
		ID: "queue", Title: "Waits", Head: []string{"Work", "Kind", "Priority", "Starts", "Why", "Title"},
		Empty: "Nothing waits.",
	}
	for i := range d.Queue[:min(rows, len(d.Queue))] {
		w := waits{QueueDocument: &d.Queue[i], Starts: "-"}
		if e := d.Forecast.Find(w.Repo, w.Number); e != nil {
			w.Starts = e.Start.Words(d.Forecast.At)
		}
		sec.Rows = append(sec.Rows, render("waits", itemID(w.QueueDocument), w))
	}
	total := len(d.Queue)
	if d.Waiting != nil {
		total = d.Waiting.Queue
	}
	if sec.Note = control.Count(total, "item"); total > len(sec.Rows) {
		sec.Note = fmt.Sprintf("the first %d of %d items", len(sec.Rows), total)
	}
	return sec
}

// merged shows the merges of the last 24 hours, newest first.
func merged(d *control.Document) section {
	sec := section{ID: "merged", Title: "Merged", Note: control.Count(len(d.Merges), "merge") + " in 24 hours"}
	for _, m := range d.Merges {
		sec.Rows = append(sec.Rows, render("merged", fmt.Sprintf("%s-%d", m.Ref.Repo, m.Ref.Number), m))
	}
	return sec
}

// ended shows the most recent sessions that ended.
func ended(d *control.Document) section {
	sec := section{
		ID: "ended", Title: "Ended", Head: []string{"When", "Agent", "Work", "Kind", "Outcome", "Took", "Words"},
	}
	for i := range d.Recent {
		r := &d.Recent[i]
		sec.Rows = append(sec.Rows, render("ended", "ended-"+r.RunID, r))
	}
	return sec
}

// fact is a line about the factory itself.
type fact struct {
	Name, Text string
	Bad        bool
}

// health shows the state of the forge, the configuration, the sandbox and the threads.
func health(d *control.Document) section {
	sec := section{ID: "health", Title: "Factory", Head: []string{"What", "How"}}
	forge := fact{"forge", d.Forge.URL, !d.Forge.OK}
	if d.Forge.Error != "" {
		forge.Text += ": " + d.Forge.Error
	}
	config := fact{"config", d.Config.Path, d.Config.Error != ""}
	if config.Bad {
		config.Text = d.Config.Error
	}
	sandbox := fact{"sessions", cmp.Or(d.Sandbox, "without a sandbox"), d.Sandbox == ""}
	facts := []fact{forge, config, sandbox, {"program", d.Version, false}}
	for _, t := range d.Threads {
		if !t.ParkedUntil.IsZero() {
			facts = append(facts, fact{t.Name, "parked until " + at(t.ParkedUntil).Machine + ": " + t.ParkedWhy, true})
		}
		if t.Cold != "" {
			facts = append(facts, fact{"cache of " + t.Name, t.Cold, true})
		}
		if t.Server != nil {
			facts = append(facts, fact{"server of " + t.Name, t.Server.Line(), len(t.Server.Problems) > 0})
		}
	}
	for _, f := range facts {
		sec.Rows = append(sec.Rows, render("fact", "fact-"+f.Name, f))
	}
	return sec
}
