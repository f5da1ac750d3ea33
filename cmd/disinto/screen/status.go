package screen

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

// The numbers of queue lines and ended sessions, unless all are asked for.
const queueLines, recentLines = 20, 6

// unqueuedNames is how many issues without the label backlog the status names. Their numbers fit into a line.
const unqueuedNames = 6

// limits are the largest numbers of rows of the parts of a status.
type limits struct{ host, recent, held, queue, slots, needs int }

// Status shows a status document: whether it is live, items that need a person, slots with their agents, the queue with
// reasons, ended sessions, and last the host. Without All it is bounded, and no higher than the terminal, where what
// needs a person is cut last.
func (v View) Status(d *control.Document) string {
	v.repo = onlyRepo(d)
	const every = 1 << 30
	if v.All {
		return v.status(d, &limits{every, every, every, every, every, every})
	}
	held := 2*len(d.Threads) + len(d.Repos) + len(d.Agents) + 2 // at most so many rows
	n := limits{1, min(recentLines, len(d.Recent)), held, queueLines, len(d.Sessions), needsLines}
	for _, t := range d.Threads {
		n.slots += len(t.Slots)
	}
	text := v.status(d, &n)
	cut := func(rows *int, least int) {
		for v.Height > 0 && *rows > least {
			over := strings.Count(text, "\n") + 1 - v.Height // the prompt of the shell needs a line
			if over <= 0 {
				return
			}
			*rows = max(least, *rows-(over+2)/3) // a row wraps to about three lines on a narrow terminal
			text = v.status(d, &n)
		}
	}
	cut(&n.recent, 2)
	cut(&n.host, 0)
	cut(&n.recent, 0)
	for _, least := range []int{5, 3, 1} {
		cut(&n.held, least)
		cut(&n.queue, least)
		cut(&n.slots, least)
	}
	cut(&n.needs, 1)
	return text
}

func (v View) status(d *control.Document, n *limits) string {
	p := v.page()
	v.head(p, d)
	v.needs(p, d, n.needs)
	v.threads(p, d, n.slots)
	v.services(p, d)
	v.waiting(p, d, n.held)
	v.queue(p, d, n.queue)
	v.recent(p, d, n.recent)
	if n.host > 0 {
		p.text.WriteString(v.foot(d))
	}
	return p.text.String()
}

// most writes the first rows of a table, and counts the others.
func (p *page) most(n, titles int, rows [][]cell) {
	p.table(titles, rows[:min(n, len(rows))])
	p.rest(len(rows) - n)
}

func (p *page) rest(rows int) {
	if rows > 0 {
		p.line(fmt.Sprintf("and %d more: disinto status --all", rows), faint)
	}
}

// foot shows what was spent, the servers of models, the forge, the configuration and the machine.
func (v View) foot(d *control.Document) string {
	p := v.page()
	v.spent(p, d)
	v.servers(p, d)
	var rows [][]cell
	if d.Sandbox != "" {
		rows = append(rows, labelled("sessions", d.Sandboxed(), plain))
	}
	rows = append(rows, v.forge(d.Forge), config(d.Config))
	if d.Disk != (control.DiskDocument{}) {
		rows = append(rows, labelled("disk", disk(d.Disk), plain))
	}
	p.end()
	p.table(-1, rows)
	return p.text.String()
}

func running(sessions int) string {
	if sessions == 0 {
		return "no sessions"
	}
	return control.Count(sessions, "session")
}

// lost says in the first line of a document that it is not live.
func (v View) lost(p *page) {
	if v.Lost {
		p.line("no supervisor runs: last state of "+v.Now.UTC().Format("2006-01-02 15:04:05 UTC"), wrong)
	}
}

// head says in the first lines whether the document is live, and how much runs and waits.
func (v View) head(p *page, d *control.Document) {
	v.lost(p)
	slots, free := 0, 0
	for _, t := range d.Threads {
		for _, slot := range t.Slots {
			slots++
			if len(slot.Agents) == 0 {
				free++
			}
		}
	}
	each, _ := listed(d)
	up, had := "", " had"
	if !v.Lost {
		had = ":"
		up = ", up " + control.Age(v.Now.Sub(d.StartedAt))
	}
	p.line(fmt.Sprintf("disinto %s%s%s %s, %d of %d slots free, %s", d.Version, up, had,
		running(len(d.Sessions)), free, slots,
		numbered(len(each)+len(needingPerson(d)), "item waits", "items wait")), bold)
}

func (v View) forge(f control.ForgeDocument) []cell {
	scanned := "not scanned yet"
	if !f.LastScan.IsZero() {
		scanned = "scanned " + control.Age(v.Now.Sub(f.LastScan)) + " ago"
	}
	if next := f.NextScan.Sub(v.Now); next > 0 && f.OK {
		scanned += ", next in " + control.Age(next)
	}
	state, s := fmt.Sprintf("%s, %s, %s", f.URL, scanned, control.Count(f.Requests, "request")), plain
	switch {
	case f.URL == "":
		state = "none"
	case f.Error != "" && !f.OK: // a fault, which needs shows
		state, s = f.URL+": "+v.unread(&f), wrong
	case f.Error != "":
		s = wrong
	}
	return labelled("forge", state, s)
}

// unread says since when a forge is not read, and what ends that.
func (v View) unread(f *control.ForgeDocument) string {
	since := "the forge has not been read yet"
	if !f.LastScan.IsZero() {
		since = "the forge has not been read for " + control.Age(v.Now.Sub(f.LastScan))
	}
	if strings.Contains(f.Error, forge.ErrUnavailable.Error()) {
		since += ", because it does not answer; work goes on by itself when it does"
	}
	return since
}

// disk describes the free space and the kept logs and workspaces of sessions.
func disk(d control.DiskDocument) string {
	text := fmt.Sprintf("%s (%s) and %s are kept", control.Count(d.Logs, "log"), agents.Size(d.LogBytes),
		control.Count(d.Workspaces, "workspace"))
	if d.Free > 0 {
		text = agents.Size(d.Free) + " free, " + text
	}
	if d.Deleted > 0 {
		text += fmt.Sprintf(", %d deleted", d.Deleted)
	}
	return text
}

// config names the file; its mistakes are faults, which needs shows.
func config(c control.ConfigDocument) []cell {
	switch {
	case c.Generation > 1:
		return labelled("config", fmt.Sprintf("%s, reloaded %s", c.Path, control.Count(c.Generation-1, "time")), plain)
	case c.Generation == 0 && c.Error != "":
		return labelled("config", c.Path+", invalid", wrong)
	}
	return labelled("config", c.Path, plain)
}

// threads shows every slot of every thread, with one line for each session in it.
func (v View) threads(p *page, d *control.Document, most int) {
	rows := [][]cell{row(faint, "THREAD", "SLOT", "AGENT", "WORK", v.forWords(), "TITLE")}
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
		p.most(most+1, 5, rows)
	}
}

// forWords heads the column of how long something runs. What the last state shows may not run any more.
func (v View) forWords() string {
	if v.Lost {
		return "HAD RUN"
	}
	return "FOR"
}

func (v View) slot(d *control.Document, t control.ThreadDocument, slot control.SlotDocument) [][]cell {
	var rows [][]cell
	index := fmt.Sprint(slot.Index)
	for _, s := range d.Sessions {
		if s.Thread != t.Name || s.Slot != slot.Index {
			continue
		}
		line := row(plain, "", index, s.Agent, v.work(s.Kind, s.Repo, s.Number), v.duration(s),
			attempt(s.Attempt)+elsewhere(s.Place)+s.Title)
		if !v.Lost {
			line[2].style = good
		}
		rows = append(rows, line)
		index = ""
	}
	if len(rows) > 0 {
		return rows
	}
	free := row(faint, "", index, "free", "", "", "")
	free[1].style = plain
	if slot.Warm != "" {
		free[5].text = "with the context of " + slot.Warm
	}
	return [][]cell{free}
}

// duration returns how long a session has run, what runs beside its agent and for how long, or its state before it runs
// and while it stops.
func (v View) duration(s control.SessionDocument) string {
	if s.State == threads.Reserved || s.State == threads.Stopping {
		return string(s.State)
	}
	if s.Doing.Phase != "" {
		return fmt.Sprintf("%s, %s", s.Doing.Phase.Verb(), control.Age(v.Now.Sub(s.Doing.Since)))
	}
	return control.Age(v.Now.Sub(s.StartedAt))
}

// attempt returns the number of an attempt; empty for the first.
func attempt(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf("(attempt %d) ", n)
}

// elsewhere returns the place of a session; empty for the supervisor's machine.
func elsewhere(place string) string {
	if place == "" {
		return ""
	}
	return "(on " + place + ") "
}

// waiting shows threads that start nothing, paused repositories, held agents with the remedy, and idle agents in one
// line.
func (v View) waiting(p *page, d *control.Document, most int) {
	var rows [][]cell
	for _, t := range d.Threads {
		if t.Paused && !d.Paused {
			rows = append(rows, labelled("paused", t.Name+v.relative(t.Words()), held))
		}
		if t.ParkedUntil.After(v.Now) {
			left := control.Age(t.ParkedUntil.Sub(v.Now))
			rows = append(rows, labelled(t.Rest(), fmt.Sprintf("%s for %s: %s", t.Name, left, t.ParkedWhy), held))
		}
		if n := sessionsOn(d, t.Name); t.Overlap && n > len(t.Slots) {
			text := fmt.Sprintf("%s: %d sessions share %s", t.Name, n, control.Count(len(t.Slots), "slot"))
			rows = append(rows, labelled("shared", text, plain))
		}
	}
	if d.Drain != nil && !d.Drain.Done { // an alarm says when it is done
		rows = append(rows, labelled("draining", strings.TrimPrefix(d.Drain.Line(), "draining: "), held))
	}
	for _, r := range d.Repos {
		if r.Paused && !d.Paused {
			rows = append(rows, labelled("paused", r.Name+" for "+control.Age(v.Now.Sub(r.PausedAt)), held))
		}
	}
	var idle []string
	for _, a := range d.Agents {
		switch {
		case a.State == control.AgentWorking && a.Paused && !d.Paused:
			rows = append(rows, labelled("paused", a.Name+" after its session: disinto resume "+a.Name, held))
		case a.State == control.AgentIdle:
			idle = append(idle, strings.TrimSpace(a.Name+" "+v.ago(a.IdleSince)))
		case a.State == control.AgentHeld && a.NeedsPerson: // shown under NEEDS YOU
		case a.State == control.AgentHeld && strings.Contains(a.Why, a.Name):
			rows = append(rows, labelled("held", a.Why, held))
		case a.State == control.AgentHeld:
			rows = append(rows, labelled("held", a.Name+": "+a.Why, held))
		}
	}
	if len(idle) > 0 {
		rows = append(rows, labelled("idle", strings.Join(idle, ", "), plain))
	}
	if len(rows) > 0 {
		p.end()
		p.most(most, -1, rows)
	}
}

func sessionsOn(d *control.Document, thread string) (n int) {
	for i := range d.Sessions {
		if d.Sessions[i].Thread == thread {
			n++
		}
	}
	return n
}

// queue shows each waiting item on a line. Issues without the label backlog share one line, because they have the same
// reason.
func (v View) queue(p *page, d *control.Document, most int) {
	each, backlog := listed(d)
	if len(each)+len(backlog) == 0 {
		if d.Forge.OK && len(d.Sessions)+len(needingPerson(d)) == 0 {
			p.end()
			p.line("nothing waits: "+onlyBacklog, faint)
		}
		return
	}
	p.end()
	shown := each[:min(most, len(each))]
	rows := [][]cell{row(faint, "WAITS", "TITLE", "WHY")}
	for _, q := range shown {
		rows = append(rows, row(plain, v.work(q.Kind, q.Repo, q.Number), q.Title, v.relative(v.short(q.Why))))
	}
	if d.Forecast != nil && len(d.Forecast.Items) > 0 {
		v.starts(rows, shown, d.Forecast)
	}
	if len(shown) > 0 {
		p.table(1, rows)
	}
	p.rest(len(each) - len(shown))
	if len(backlog) > 0 {
		line := backlog[0].Why + ": " + v.firstNames(backlog, unqueuedNames)
		if len(each) == 0 {
			line += "; " + onlyBacklog
		}
		p.line(line, faint)
	}
}

// onlyBacklog says what to do where nothing else waits.
const onlyBacklog = "agents take the issues that you give the label backlog"

// listed returns the items with their own line in the queue, those with a skip label last, and the issues that only
// lack the label backlog. It omits items that need a person: the section NEEDS YOU has them.
func listed(d *control.Document) (each, backlog []control.QueueDocument) {
	var labelled []control.QueueDocument
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		switch {
		case q.NeedsPerson:
		case q.Code == threads.NotBacklog:
			backlog = append(backlog, q)
		case q.Code == threads.SkipLabel:
			labelled = append(labelled, q)
		default:
			each = append(each, q)
		}
	}
	return append(each, labelled...), backlog
}

// firstNames names the first limit items, or with All each one, and counts the others.
func (v View) firstNames(items []control.QueueDocument, limit int) string {
	named := items
	if !v.All {
		named = items[:min(limit, len(items))]
	}
	words := make([]string, len(named))
	for i := range named {
		if words[i] = v.short(refOf(&named[i])); named[i].Number == 0 { // scheduled work has the role as its title
			words[i] = named[i].Title
		}
	}
	text := strings.Join(words, ", ")
	if more := len(items) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (v View) recent(p *page, d *control.Document, limit int) {
	if limit = min(limit, len(d.Recent)); limit == 0 {
		return
	}
	rows := [][]cell{row(faint, "ENDED", "AGENT", "WORK", "TOOK", "OUTCOME")}
	for _, r := range d.Recent[:limit] {
		line := row(plain, control.Age(v.Now.Sub(r.EndedAt))+" ago", r.Agent, v.work(r.Kind, r.Repo, r.Number),
			control.Age(r.EndedAt.Sub(r.StartedAt)), "")
		line[4].text, line[4].style = v.ended(r)
		rows = append(rows, line)
	}
	p.end()
	p.table(-1, rows)
	failed := func(r control.RecentDocument) bool { return r.Outcome.BurnsAttempt() && r.Log != "" }
	if i := slices.IndexFunc(d.Recent[:limit], failed); i >= 0 {
		p.line("log of "+d.Recent[i].Agent+": "+d.Recent[i].Log, faint)
	}
}

// moment matches a time in a reason.
var moment = regexp.MustCompile(
	`(next run|next try|free about|until|at|since) (\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+))`,
)

// relative replaces the times in a reason by times relative to now.
func (v View) relative(why string) string {
	return moment.ReplaceAllStringFunc(why, func(s string) string {
		words := moment.FindStringSubmatch(s)
		at, err := time.Parse(time.RFC3339, words[2])
		if err != nil {
			return s
		}
		switch words[1] {
		case "at":
			return control.Age(v.Now.Sub(at)) + " ago"
		case "since":
			return "for " + control.Age(v.Now.Sub(at))
		case "until":
			return "for " + control.Age(at.Sub(v.Now))
		case "free about":
			if !at.After(v.Now) {
				return "free soon" // its session takes longer than usual
			}
			return "free in about " + control.Age(at.Sub(v.Now))
		}
		return words[1] + " in " + control.Age(at.Sub(v.Now))
	})
}

// onlyRepo returns the only repository in the document; empty if there are several or none.
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
