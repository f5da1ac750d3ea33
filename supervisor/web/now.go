package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// pageRows are the sizes of a page of the queue; the first is the default.
var pageRows = []string{"20", "50", "100"}

// now shows what needs a person, what runs, the queue and the sessions that ended.
func (s *Site) now(ctx context.Context, query url.Values) (*board, error) {
	f := filterOf(query)
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?"+f.Encode(), &d); err != nil {
		return nil, err
	}
	if d.Waiting == nil { // asked for rows, so it is there
		d.Waiting = new(control.WaitingDocument)
	}
	return &board{Title: "Now", State: &d, Sections: []section{
		paused(&d), totals(&d), firstSteps(&d), needsYou(&d), running(&d),
		f.chips(&d, s.repos()), f.queue(&d), f.pager(&d), closed(&d),
		recent(&d), repositories(&d), system(&d),
	}}, nil
}

// repos returns the factory's repositories; nil without a valid configuration.
func (s *Site) repos() []string {
	if c := s.Config(); c != nil {
		return c.Forge.Repos
	}
	return nil
}

// paused is the banner of a factory that starts nothing, or nothing new.
func paused(d *control.Document) section {
	sec := section{ID: "paused", Class: "banners"}
	if pausedWithoutProblem(d) {
		sec.Rows = []row{render("paused", "paused", d)}
	} else if d.Drain != nil && !d.Drain.Done {
		sec.Rows = []row{render("draining", "draining", d.Drain)}
	}
	return sec
}

// pausedWithoutProblem reports whether everything is paused, and no problem says so: that of a first start does.
func pausedWithoutProblem(d *control.Document) bool {
	says := func(problem string) bool { return strings.Contains(problem, "disinto resume") }
	return d.Paused && !slices.ContainsFunc(d.Problems, says)
}

// total is a number at the top of the page, which links to its list.
type total struct{ Name, Value, Of, Note, Href, Tone string }

// totals shows the numbers of the day.
func totals(d *control.Document) section {
	sec := section{ID: "totals", Class: "totals panel"}
	add := func(t total) { sec.Rows = append(sec.Rows, render("total", strings.ReplaceAll(t.Name, " ", "-"), t)) }
	statuses := d.Waiting.Statuses
	n := needs(d)
	need := total{Name: "Needs you", Value: strconv.Itoa(n), Href: "#needs"}
	if n > 0 {
		need.Tone = "warn"
	} else {
		need.Href = "#queue"
	}
	if pausedWithoutProblem(d) {
		need.Href = "#paused"
	}
	add(need)
	slots := 0
	for i := range d.Threads {
		slots += len(d.Threads[i].Slots)
	}
	add(total{
		Name: "Running", Value: strconv.Itoa(len(d.Sessions)), Of: "of " + control.Count(slots, "slot"), Href: "#threads",
	})
	add(total{Name: "Queued", Value: strconv.Itoa(statuses[control.Queued]), Href: "/?status=queued#queue"})
	add(total{
		Name: "Waiting", Value: strconv.Itoa(d.Waiting.Queue - statuses[control.Queued]), Href: "/#queue",
		Note: fmt.Sprintf("%d blocked", statuses[control.Blocked]),
	})
	add(total{Name: "Merged today", Value: strconv.Itoa(d.Today.Merged), Href: "#recent"})
	failed := total{Name: "Failed today", Value: strconv.Itoa(d.Today.Failed), Href: "#recent"}
	failed.Note = "of " + control.Count(d.Today.Sessions, "session")
	if d.Today.Failed > 0 {
		failed.Tone = "bad"
	}
	add(failed)
	var spent, budget float64
	for i := range d.Threads {
		spent, budget = spent+d.Threads[i].Spent.USD, budget+d.Threads[i].Spent.USDPerDay
	}
	money := total{Name: "Spent today", Value: spentUSD(spent), Href: "/money"}
	if budget > 0 {
		money.Of = "of " + usd(budget)
	}
	add(money)
	return sec
}

// firstSteps leads a factory in which nothing has happened yet to its first merge.
func firstSteps(d *control.Document) section {
	sec := section{ID: "start", Title: "Get the first merge", Class: "panel"}
	if len(d.Queue)+len(d.Sessions)+len(d.Recent) > 0 || d.Waiting.Queue > 0 || !d.Forge.OK {
		return sec
	}
	sec.Rows = []row{render("first-steps", "steps", d)}
	for i := range d.Unqueued[:min(len(d.Unqueued), 5)] {
		sec.Rows = append(sec.Rows, render("startable", itemID(&d.Unqueued[i]), &d.Unqueued[i]))
	}
	return sec
}

// lineup is a thread with its sessions.
type lineup struct {
	*control.ThreadDocument
	Sessions []control.SessionDocument
	Pill     *pill // nil while it starts work
	Why      string
	Idle     int      // slots without a session
	Warm     []string // the agents whose contexts they hold
	More     int      // sessions that are not shown
}

// shownSessions is how many sessions the page shows, as far as each thread has two of them.
const shownSessions = 9

// running shows the threads with their sessions.
func running(d *control.Document) section {
	sec := section{
		ID: "threads", Title: "Running", Class: "threads", Note: "no sessions",
		Empty: "No thread is configured. factory.toml names them: see disinto check.",
	}
	if n := len(d.Sessions); n > 0 {
		sec.Note = control.Count(n, "session") + " on " + control.Count(len(d.Threads), "thread")
	}
	for i := range d.Threads {
		l := lineup{ThreadDocument: &d.Threads[i]}
		for _, sl := range l.Slots {
			if len(sl.Agents) > 0 {
				continue
			}
			if l.Idle++; sl.Warm != "" {
				l.Warm = append(l.Warm, sl.Warm)
			}
		}
		for _, x := range d.Sessions {
			if x.Thread == l.Name {
				l.Sessions = append(l.Sessions, x)
			}
		}
		if most := max(2, shownSessions/len(d.Threads)); len(l.Sessions) > most {
			l.Sessions, l.More = l.Sessions[:most], len(l.Sessions)-most
		}
		switch {
		case l.Paused:
			l.Pill = &pill{"hold", "Paused"}
			if words := l.PauseNote.Words(); words != "" && !d.Paused {
				l.Why = "paused" + words
			}
		case !l.ParkedUntil.IsZero():
			l.Pill, l.Why = &pill{"hold", title(l.Rest())}, l.ParkedWhy+", until "+at(l.ParkedUntil).Machine
		}
		sec.Rows = append(sec.Rows, render("lineup", l.Name, &l))
	}
	return sec
}

// Busy returns "API · 3 of 4 busy".
func (l *lineup) Busy() string {
	kind := "API"
	if l.Backend.Server() {
		kind = "local"
	}
	return fmt.Sprintf("%s · %d of %d busy", kind, len(l.Slots)-l.Idle, len(l.Slots))
}

// verbs says what a session of each kind does.
var verbs = map[agents.Kind]string{
	agents.KindIssue: "Coding", agents.KindRework: "Rework", agents.KindReview: "Reviewing",
	agents.KindSchedule: "Scheduled",
}

// verb says what a session does.
func verb(x control.SessionDocument) string {
	if x.State == threads.Reserved {
		return "Starting"
	}
	return kindVerb(x.Kind)
}

func kindVerb(k agents.Kind) string { return verbs[k] }

// usual writes how long sessions like this one usually take.
func usual(x control.SessionDocument) string {
	if x.UsualSeconds < 60 {
		return fmt.Sprintf("%ds", x.UsualSeconds)
	}
	return control.About(time.Duration(x.UsualSeconds) * time.Second)
}

// recent shows the sessions that ended last.
func recent(d *control.Document) section {
	sec := section{ID: "recent", Title: "Recent", Class: "feed panel", Place: right}
	if d.Waiting.Queue+len(d.Sessions) > 0 {
		sec.Empty = "No session has ended yet."
	}
	for i := range d.Recent[:min(len(d.Recent), 6)] {
		sec.Rows = append(sec.Rows, render("ended", "ended-"+d.Recent[i].RunID, &d.Recent[i]))
	}
	return sec
}

// repositories shows each repository with its sessions and its pause; nothing where there is only one.
func repositories(d *control.Document) section {
	sec := section{ID: "repos", Title: "Repositories", Class: "facts panel", Place: right}
	for i := range d.Repos {
		if len(d.Repos) > 1 {
			sec.Rows = append(sec.Rows, render("repo", "repo-"+d.Repos[i].Name, &d.Repos[i]))
		}
	}
	return sec
}

// fact is a line about the factory itself.
type fact struct {
	Name, Text string
	Href       string
	Pill       pill
}

// system shows the state of the forge, the configuration, the sandbox, the disk, the services and the servers.
func system(d *control.Document) section {
	sec := section{ID: "system", Title: "System", Class: "facts panel", Place: right}
	state := func(ok bool, good, bad string) pill {
		if ok {
			return pill{"ok", good}
		}
		return pill{"bad", bad}
	}
	file := d.Config.Path[strings.LastIndexByte(d.Config.Path, '/')+1:]
	facts := []fact{
		{Name: "Forgejo", Pill: state(d.Forge.OK, "answers", "no answer"), Href: d.Forge.URL, Text: d.Forge.Error},
		{Name: "Config", Pill: state(d.Config.Error == "", "valid", "mistakes"), Text: file},
		{Name: "Sandbox", Pill: state(d.Sandbox != "", "on", "none"), Text: d.Sandboxed()},
	}
	if free := d.Disk.Free; free > 0 {
		facts = append(facts, fact{Name: "Disk", Pill: pill{"ok", fmt.Sprintf("%d GB free", free>>30)}})
	}
	for i := range d.Services {
		x := &d.Services[i]
		facts = append(facts, fact{
			Name: x.Name, Pill: state(x.Usable(), x.State, x.State), Text: cmp.Or(x.Why, x.LastLine), Href: logOf(x.Name, ""),
		})
	}
	for _, t := range d.Threads {
		if t.Cold != "" {
			facts = append(facts, fact{Name: "Cache of " + t.Name, Pill: pill{"warn", "cold"}, Text: t.Cold})
		}
		if t.Server != nil {
			facts = append(facts, fact{
				Name: "Server of " + t.Name, Pill: state(len(t.Server.Problems) == 0, "ready", "problem"), Text: t.Server.Line(),
			})
		}
	}
	facts = append(facts, fact{Name: "Program", Text: d.Version})
	for _, f := range facts {
		sec.Rows = append(sec.Rows, render("fact", "fact-"+f.Name, f))
	}
	return sec
}

// emptyWith returns a sentence and a link as what an empty section shows.
func emptyWith(sentence, href, label string) template.HTML {
	return template.HTML(execute("empty", map[string]string{"Text": sentence, "Href": href, "Label": label}))
}
