package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// filter chooses the items of the queue that a page shows. It is the query of the page and of GET /v1/state.
type filter struct {
	url.Values
	at  string // the page's path; empty on the page Now
	all bool   // each item that is shown is chosen
}

// filterNames are the parameters of a filter.
var filterNames = []string{"status", "repo", "agent", "kind", "q", "rows", "page"}

// filterOf returns the filter in a page's query, without what is not one.
func filterOf(query url.Values) filter {
	f := filter{Values: url.Values{"rows": {pageRows[0]}}}
	for _, name := range filterNames {
		if said := query.Get(name); said != "" && (name != "rows" || slices.Contains(pageRows, said)) {
			f.Set(name, said)
		}
	}
	return f
}

// with returns the address of the page with another value of one parameter, from its first page on.
func (f filter) with(name, value string) string {
	other := url.Values{}
	for _, known := range filterNames {
		said := f.Get(known)
		if known == name {
			said = value
		} else if known == "page" {
			said = ""
		}
		if said != "" && (known != "rows" || said != pageRows[0]) {
			other.Set(known, said)
		}
	}
	if len(other) == 0 && f.at == "" {
		return "/#queue"
	}
	return cmp.Or(f.at, "/") + "?" + other.Encode() + "#queue"
}

// here returns the query of the page with the same filter and on the same path.
func (f filter) here(path string) string { return path + "?" + f.Encode() }

// narrow reports whether the filter leaves items out.
func (f filter) narrow() bool {
	return f.Get("status")+f.Get("repo")+f.Get("agent")+f.Get("kind")+f.Get("q") != ""
}

// chip is a link to the items of one status.
type chip struct {
	Text, Href string
	Count      int
	Here       bool
}

// chips shows how many items have each status, and the form with the other filters.
func (f filter) chips(d *control.Document, repos []string) section {
	w := d.Waiting
	sec := section{ID: "filters", Title: "Queue", Note: "in the order it starts", Class: "chips", Place: left}
	sec.Tools = template.HTML(execute("to-several", f.here("/several")))
	if w.Queue+w.Unqueued == 0 {
		return section{ID: "filters", Place: left}
	}
	add := func(status control.Status, text string, n int) {
		here := f.Get("status") == string(status)
		if n > 0 || here {
			c := chip{text, f.with("status", string(status)), n, here}
			sec.Rows = append(sec.Rows, render("chip", "chip-"+string(status), c))
		}
	}
	all := 0
	for status, n := range w.Statuses {
		if f.Get("q") != "" || status != control.Running && status != control.Unlabelled {
			all += n
		}
	}
	add("", "All", all)
	for _, status := range control.Statuses {
		if status != control.Running || f.Get("q") != "" {
			add(status, statusPills[status].Text, w.Statuses[status])
		}
	}
	sec.Bar = f.form(d, repos)
	return sec
}

// form is the form with the filters other than the status.
func (f filter) form(d *control.Document, repos []string) template.HTML {
	var names []string
	for i := range d.Agents {
		names = append(names, d.Agents[i].Name)
	}
	kinds := []string{
		string(agents.KindIssue), string(agents.KindReview), string(agents.KindRework), "merge",
		string(agents.KindSchedule),
	}
	choices := []choice{
		{"repo", "Repository", "All repositories", repos, f.Get("repo")},
		{"agent", "Agent", "All agents", names, f.Get("agent")},
		{"kind", "Kind", "All kinds", kinds, f.Get("kind")},
		{"rows", "Rows", "", pageRows, f.Get("rows")},
	}
	if len(repos) < 2 {
		choices = choices[1:]
	}
	return template.HTML(execute("filters", map[string]any{
		"At": cmp.Or(f.at, "/"), "Text": f.Get("q"), "Status": f.Get("status"), "Choices": choices,
	}))
}

// choice is a select of a form.
type choice struct {
	Name, Label, All string
	Options          []string
	Chosen           string
}

// waits is an item of the queue. The start counts from the time of the forecast, so that the row changes only with the
// next one.
type waits struct {
	*control.QueueDocument
	Pill pill
	Text string
	Pick string // its reference, where it can be chosen
	All  bool   // it is chosen
}

// queue shows the items, each with its reason.
func (f filter) queue(d *control.Document) section {
	sec := section{
		ID: "queue", Head: columns("Title", "Status", "Reason", "Waiting#"), Place: left,
	}
	switch {
	case f.narrow():
		sec.Empty = emptyWith("No open issue or pull request fits.", "/#queue", "Show all")
	case d.Waiting.Queue+d.Waiting.Unqueued > 0:
		sec.Empty = emptyWith("Nothing waits: agents take open issues labelled backlog.", "/?status=unlabelled#queue",
			"Show the others")
	}
	for i := range d.Queue {
		w := waits{QueueDocument: &d.Queue[i], Pill: itemPill(&d.Queue[i])}
		w.Text = strings.TrimPrefix(w.Why, "blocked ")
		if start := d.Forecast.StartOf(w.QueueDocument); w.Status() == control.Queued && !start.Low.IsZero() {
			w.Text += ", starts " + start.Words(d.Forecast.At)
		}
		if f.at != "" && w.Number != 0 {
			w.Pick, w.All = refText(w.QueueDocument), f.all
		}
		sec.Rows = append(sec.Rows, render("waits", itemID(w.QueueDocument), w))
	}
	return sec
}

// closed lists the items that fit a text and are closed.
func closed(d *control.Document) section {
	sec := section{ID: "closed", Title: "Closed", Note: "whose sessions are remembered", Class: "feed panel", Place: left}
	for i := range d.Waiting.Closed {
		c := &d.Waiting.Closed[i]
		sec.Rows = append(sec.Rows, render("closed", fmt.Sprintf("%s-%d", c.Repo, c.Number), c))
	}
	return sec
}

// pager says which items of how many the page shows, and links to its neighbours.
func (f filter) pager(d *control.Document) section {
	sec := section{ID: "pager", Class: "pager panel", Place: left}
	page, _ := strconv.Atoi(f.Get("page"))
	rows, _ := strconv.Atoi(f.Get("rows"))
	page = max(page, 1)
	first := (page - 1) * rows
	if d.Waiting.Fits <= rows && page == 1 {
		return sec
	}
	p := map[string]string{"Text": fmt.Sprintf("%d to %d of %d", first+1, first+len(d.Queue), d.Waiting.Fits)}
	if page > 1 {
		p["Before"] = f.with("page", strconv.Itoa(page-1))
	}
	if first+len(d.Queue) < d.Waiting.Fits {
		p["After"] = f.with("page", strconv.Itoa(page+1))
	}
	sec.Rows = []row{render("pager", "pager", p)}
	return sec
}
