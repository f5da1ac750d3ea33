package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// How many lines of the queue and of ended sessions a status shows where no screen says how many fit.
const queueLines, recentLines = 20, 6

// unqueuedNames is how many issues without the label backlog are named, which with their number still is one line.
const unqueuedNames = 6

// view says how to show a status document.
type view struct {
	now           time.Time
	width, height int // in characters; no height means as long as it gets
	colour        bool
	lost          bool   // nobody answers: the document is the last that was journalled, at now
	repo          string // the one repository of the document, which then is left out everywhere
}

// render shows a status document: what is wrong first, then threads with who works in which slot, then what waits
// and why, then what ended. Where the height is bounded the queue and then the ended sessions are shortened.
func (v view) render(d *control.Document) string {
	v.repo = onlyRepo(d)
	queue, recent := queueLines, recentLines
	if v.height > 0 {
		each, _ := listed(d)
		queue, recent = min(v.height, len(each)), min(v.height, len(d.Recent))
	}
	text := v.renderWith(d, queue, recent)
	// A reason may take several lines, so what fits is found by trying.
	for v.height > 0 && strings.Count(text, "\n") > v.height && queue+recent > 0 {
		if recent > 3 || queue == 0 {
			recent--
		} else {
			queue--
		}
		text = v.renderWith(d, queue, recent)
	}
	return v.crop(text)
}

// crop cuts what still does not fit, such as forty threads on a small screen.
func (v view) crop(text string) string {
	lines := strings.SplitAfter(text, "\n")
	if v.height == 0 || len(lines) <= v.height+1 {
		return text
	}
	return strings.Join(lines[:v.height], "")
}

func (v view) renderWith(d *control.Document, queue, recent int) string {
	p := &page{width: v.width, colour: v.colour}
	v.head(p, d)
	v.threads(p, d)
	v.waiting(p, d)
	v.spent(p, d)
	v.queue(p, d, queue)
	v.recent(p, d, recent)
	return p.text.String()
}

func (v view) head(p *page, d *control.Document) {
	rows := [][]cell{{
		{"disinto", bold},
		{fmt.Sprintf("%s, up %s, pid %d", d.Version, age(v.now.Sub(d.StartedAt)), d.PID), plain},
	}, v.forge(d.Forge)}
	if v.lost {
		rows[0][1] = cell{d.Version + ", not running: this is its last state", held}
	}
	rows = append(rows, config(d.Config)...)
	for _, problem := range d.Problems {
		rows = append(rows, []cell{{"problem", faint}, {problem, wrong}})
	}
	p.table(-1, rows)
}

func (v view) forge(f control.ForgeDocument) []cell {
	scanned := "not scanned yet"
	if !f.LastScan.IsZero() {
		scanned = "scanned " + age(v.now.Sub(f.LastScan)) + " ago"
	}
	state, s := fmt.Sprintf("%s, %s, %s", f.URL, scanned, count(f.Requests, "request")), plain
	switch {
	case f.URL == "":
		state = "none"
	case f.Error != "":
		state, s = fmt.Sprintf("%s, %s: %s", f.URL, scanned, f.Error), wrong
	}
	return []cell{{"forge", faint}, {state, s}}
}

// config is one line, and one more for each mistake in the file.
func config(c control.ConfigDocument) [][]cell {
	state := c.Path
	switch {
	case c.Generation > 1:
		state += fmt.Sprintf(", reloaded %s", count(c.Generation-1, "time"))
	case c.Generation == 0 && c.Error != "":
		state += ", not valid: nothing starts until it is"
	}
	rows := [][]cell{{{"config", faint}, {state, plain}}}
	// Each mistake begins with the file's name.
	for line := range strings.Lines(strings.ReplaceAll(c.Error, "; "+c.Path, "\n"+c.Path)) {
		rows = append(rows, []cell{{"", plain}, {line, wrong}})
	}
	return rows
}

// threads shows every slot of every thread, and in it the sessions that run there: one line each.
func (v view) threads(p *page, d *control.Document) {
	rows := [][]cell{heads("THREAD", "SLOT", "AGENT", "WORK", "FOR", "TITLE")}
	for _, t := range d.Threads {
		first := len(rows)
		for _, slot := range t.Slots {
			rows = append(rows, v.slot(d, t, slot)...)
		}
		if first < len(rows) {
			rows[first][0] = cell{t.Name, bold}
		}
	}
	if len(rows) > 1 {
		p.end()
		p.table(5, rows)
	}
}

func (v view) slot(d *control.Document, t control.ThreadDocument, slot control.SlotDocument) [][]cell {
	var rows [][]cell
	index := cell{fmt.Sprint(slot.Index), plain}
	for _, s := range d.Sessions {
		if s.Thread != t.Name || s.Slot != slot.Index {
			continue
		}
		rows = append(rows, []cell{
			{},
			index,
			{s.Agent, good},
			{v.work(s.Kind, s.Repo, s.Number), plain},
			{v.lasting(s), plain},
			{attempt(s.Attempt) + s.Title, plain},
		})
		index = cell{}
	}
	if len(rows) == 0 {
		warm := ""
		if slot.Warm != "" {
			warm = "warm for " + slot.Warm
		}
		rows = append(rows, []cell{{}, index, {"free", faint}, {}, {}, {warm, faint}})
	}
	return rows
}

// lasting is how long a session has run, or what it does while it does not.
func (v view) lasting(s control.SessionDocument) string {
	if s.State == threads.Reserved || s.State == threads.Stopping {
		return string(s.State)
	}
	return age(v.now.Sub(s.StartedAt))
}

// attempt is shown from the second on.
func attempt(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("(attempt %d) ", n)
}

// waiting names what does not work: threads that start nothing, agents that cannot and what to do about it, and on
// one line the agents that are free.
func (v view) waiting(p *page, d *control.Document) {
	var rows [][]cell
	if d.Paused {
		rows = append(rows, []cell{{"paused", faint}, {"everything, until disinto resume", held}})
	}
	for _, t := range d.Threads {
		if t.Paused && !d.Paused {
			rows = append(rows, []cell{{"paused", faint}, {t.Name, held}})
		}
		if t.ParkedUntil.After(v.now) {
			text := fmt.Sprintf("%s for %s: %s", t.Name, age(t.ParkedUntil.Sub(v.now)), t.ParkedWhy)
			rows = append(rows, []cell{{"parked", faint}, {text, held}})
		}
	}
	var idle []string
	for _, a := range d.Agents {
		switch {
		case a.State == control.AgentHeld && strings.Contains(a.Why, a.Name):
			rows = append(rows, []cell{{"held", faint}, {a.Why, held}})
		case a.State == control.AgentHeld:
			rows = append(rows, []cell{{"held", faint}, {a.Name + ": " + a.Why, held}})
		case a.State == control.AgentIdle:
			idle = append(idle, strings.TrimSpace(a.Name+" "+v.since(a.IdleSince)))
		}
	}
	if len(idle) > 0 {
		rows = append(rows, []cell{{"idle", faint}, {strings.Join(idle, ", "), plain}})
	}
	if len(rows) > 0 {
		p.end()
		p.table(-1, rows)
	}
}

func (v view) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(v.now.Sub(t))
}

// queue shows what waits line by line, then convoys. Issues that are not put up for work all have the same reason: they are
// one line, however many there are.
func (v view) queue(p *page, d *control.Document, limit int) {
	each, backlog := listed(d)
	if len(each)+len(backlog) == 0 {
		return
	}
	p.end()
	shown := each[:min(limit, len(each))]
	rows := [][]cell{heads("WAITS", "TITLE", "WHY")}
	for _, q := range shown {
		rows = append(rows, []cell{{v.work(q.Kind, q.Repo, q.Number), plain}, {q.Title, plain}, {v.countdown(v.short(q.Why)), plain}})
	}
	if len(shown) > 0 {
		p.table(1, rows)
	}
	if more := len(each) - len(shown); more > 0 {
		p.line(fmt.Sprintf("and %d more", more), faint)
	}
	if len(backlog) > 0 {
		p.line(backlog[0].Why+": "+v.some(backlog), faint)
	}
}

// listed are the items that get a line each, and those issues that only lack the label backlog.
func listed(d *control.Document) (each, backlog []control.QueueDocument) {
	each = slices.Clone(d.Queue)
	for _, q := range d.Unqueued {
		if q.Code == threads.NotBacklog {
			backlog = append(backlog, q)
		} else {
			each = append(each, q)
		}
	}
	return each, backlog
}

// some names the first issues, and counts the others.
func (v view) some(issues []control.QueueDocument) string {
	named := issues[:min(unqueuedNames, len(issues))]
	words := make([]string, len(named))
	for i, q := range named {
		words[i] = v.short(forge.Ref{Repo: q.Repo, Number: q.Number}.String())
	}
	text := strings.Join(words, ", ")
	if more := len(issues) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (v view) recent(p *page, d *control.Document, limit int) {
	if limit = min(limit, len(d.Recent)); limit <= 0 {
		return
	}
	rows := [][]cell{heads("ENDED", "AGENT", "WORK", "TOOK", "OUTCOME")}
	for _, r := range d.Recent[:limit] {
		outcome := cell{string(r.Outcome), plain}
		if r.Outcome.BurnsAttempt() || r.Outcome == agents.Lost {
			outcome.style = wrong
		}
		for _, why := range []string{r.Reason, r.LastLine} {
			if why != "" {
				outcome.text += ": " + v.short(why)
			}
		}
		rows = append(rows, []cell{
			{age(v.now.Sub(r.EndedAt)) + " ago", plain},
			{r.Agent, plain},
			{v.work(r.Kind, r.Repo, r.Number), plain},
			{age(r.EndedAt.Sub(r.StartedAt)), plain},
			outcome,
		})
	}
	p.end()
	p.table(-1, rows)
	failed := func(r control.RecentDocument) bool { return r.Outcome.BurnsAttempt() && r.Log != "" }
	if i := slices.IndexFunc(d.Recent[:limit], failed); i >= 0 {
		p.line("log of "+d.Recent[i].Agent+": "+d.Recent[i].Log, faint)
	}
}

func heads(names ...string) []cell {
	row := make([]cell, len(names))
	for i, n := range names {
		row[i] = cell{n, faint}
	}
	return row
}

// work is "issue #12", with the repository where there are several. Scheduled work has no number.
func (v view) work(kind agents.Kind, repo string, number int64) string {
	ref := forge.Ref{Repo: repo, Number: number}
	switch {
	case v.repo == "":
		return string(kind) + " " + ref.String()
	case number == 0:
		return string(kind)
	}
	return string(kind) + " " + ref.Short()
}

// short leaves the repository out of the references in a reason where there is only one.
func (v view) short(why string) string {
	if v.repo == "" {
		return why
	}
	return strings.ReplaceAll(why, v.repo+"#", "#")
}

// next finds the times in reasons that are about a next time.
var next = regexp.MustCompile(`(next (?:run|try)) (\d{4}-\d\d-\d\dT\S+)`)

// countdown says when something is next as the time that is left, which is what a person would work out.
func (v view) countdown(why string) string {
	return next.ReplaceAllStringFunc(why, func(s string) string {
		words := next.FindStringSubmatch(s)
		at, err := time.Parse(time.RFC3339, words[2])
		if err != nil {
			return s
		}
		return words[1] + " in " + age(at.Sub(v.now))
	})
}

// onlyRepo is the repository that everything in the document is in; empty when there are several.
func onlyRepo(d *control.Document) string {
	var repos []string
	for _, s := range d.Sessions {
		repos = append(repos, s.Repo)
	}
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		repos = append(repos, q.Repo)
	}
	for _, r := range d.Recent {
		repos = append(repos, r.Repo)
	}
	slices.Sort(repos)
	repos = slices.Compact(repos)
	if len(repos) != 1 {
		return ""
	}
	return repos[0]
}

// count is "1 request", "2 requests".
func count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
