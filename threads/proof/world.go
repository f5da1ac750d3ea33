package proof

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// epoch is the start of every world: an early hour, so that midnight is far.
var epoch = time.Date(2000, 1, 3, 1, 0, 0, 0, time.UTC)

// step is the time that a session takes if its length does not matter.
const step = time.Minute

// branch is the default branch of the repository.
const branch = "main"

// world is a small factory at one moment, with the story of how it got there.
type world struct {
	config *threads.Config
	now    time.Time
	books  *ledger.State
	repo   string
	issues []forge.Issue
	pulls  []forge.Pull
	runs   []threads.Session
	count  int64 // issues and pull requests so far
	begun  int   // sessions so far
	said   *line
}

// line is one step of a story, linked to the step before.
type line struct {
	text   string
	before *line
}

func newWorld(c *threads.Config) *world {
	w := &world{config: c, now: epoch, books: ledger.New(), repo: c.Forge.Repos[0]}
	for i := range c.Agents {
		ledger.Entry(w.books.Agents, c.Agents[i].Name).IdleSince = epoch
	}
	return w
}

// clone returns an independent copy of the world.
func (w *world) clone() *world {
	other := *w
	other.issues, other.pulls, other.runs = slices.Clone(w.issues), slices.Clone(w.pulls), slices.Clone(w.runs)
	books := ledger.New()
	copied(books.Chains, w.books.Chains, func(c *threads.ChainHistory) {
		c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
	})
	copied(books.Items, w.books.Items, func(*threads.ItemHistory) {})
	copied(books.Agents, w.books.Agents, func(*threads.AgentHistory) {})
	copied(books.Threads, w.books.Threads, func(t *threads.ThreadHistory) {
		t.Talks, t.Uses = slices.Clone(t.Talks), slices.Clone(t.Uses)
	})
	copied(books.Authors, w.books.Authors, func(a *threads.AuthorHistory) { a.Reviews = maps.Clone(a.Reviews) })
	maps.Copy(books.Paused, w.books.Paused)
	maps.Copy(books.Slots, w.books.Slots)
	maps.Copy(books.Open, w.books.Open)
	other.books = books
	return &other
}

func copied[K comparable, V any](into, from map[K]*V, own func(*V)) {
	for k, v := range from {
		c := *v
		own(&c)
		into[k] = &c
	}
}

func (w *world) say(format string, args ...any) {
	w.said = &line{fmt.Sprintf(format, args...), w.said}
}

// story returns the steps so far, oldest first.
func (w *world) story() (lines []string) {
	for l := w.said; l != nil; l = l.before {
		lines = append(lines, l.text)
	}
	slices.Reverse(lines)
	return lines
}

func (w *world) next() forge.Ref {
	w.count++
	return forge.Ref{Repo: w.repo, Number: w.count}
}

// file opens an issue with the label backlog and the given labels. It assigns the issue to the agents in names, which
// has the format of join.
func (w *world) file(labels []string, names string) *forge.Issue {
	is := forge.Issue{
		Ref: w.next(), Labels: compact(append([]string{forge.LabelBacklog}, labels...)...), Created: w.now, Updated: w.now,
		BlockersKnown: true, AsOf: w.now,
	}
	for _, name := range listed(names) {
		is.Assignees = append(is.Assignees, w.config.Agent(name).Login)
	}
	w.issues = append(w.issues, is)
	return &w.issues[len(w.issues)-1]
}

// open opens a pull request by an account, for an issue unless that is zero.
func (w *world) open(login string, issue forge.Ref) *forge.Pull {
	p := forge.Pull{
		Ref: w.next(), Author: login, Created: w.now, Updated: w.now, AsOf: w.now, Base: branch, MergeBase: "base",
		Mergeable: forge.MergeClean, Head: "patch",
	}
	p.HeadSHA = "head of " + p.Short()
	if issue != (forge.Ref{}) {
		p.Closes, p.Head = []forge.Ref{issue}, "fix/issue-"+strconv.FormatInt(issue.Number, 10)
	}
	w.pulls = append(w.pulls, p)
	return &w.pulls[len(w.pulls)-1]
}

func (w *world) issue(ref forge.Ref) *forge.Issue {
	i := slices.IndexFunc(w.issues, func(is forge.Issue) bool { return is.Ref == ref })
	if i < 0 {
		return nil
	}
	return &w.issues[i]
}

func (w *world) pull(ref forge.Ref) *forge.Pull {
	i := slices.IndexFunc(w.pulls, func(p forge.Pull) bool { return p.Ref == ref })
	if i < 0 {
		return nil
	}
	return &w.pulls[i]
}

// snapshot returns the world's snapshot, with every fact read just now.
func (w *world) snapshot() threads.Snapshot {
	s := threads.Snapshot{Now: w.now, Config: w.config, Sessions: w.runs, History: w.books.History}
	s.Facts = forge.Facts{Issues: w.issues, Pulls: w.pulls}
	for _, name := range w.config.Forge.Repos {
		s.Facts.Repos = append(s.Facts.Repos, forge.Repo{Name: name, AsOf: w.now, DefaultBranch: branch})
	}
	return s
}

func (w *world) plan() threads.Plan { return threads.Decide(w.snapshot()) }

// starts starts a plan's session, and returns its run.
func (w *world) starts(s *threads.Start) string {
	a, t := w.config.Agent(s.Agent), w.config.Thread(s.Thread)
	w.begun++
	x := threads.Session{
		RunID: fmt.Sprintf("run-%04d", w.begun), Thread: s.Thread, Slot: s.Slot, Agent: s.Agent, Login: a.Login,
		Role: s.Role, Item: s.Item, State: threads.Running, Attempt: s.Attempt, Rung: s.Rung, Started: w.now,
	}
	w.books.Apply(ledger.Record{At: w.now, Start: &ledger.Start{
		Run: x.RunID, Thread: s.Thread, Slot: s.Slot, Sticky: !t.Overlap, Agent: s.Agent, Login: a.Login, Role: s.Role,
		Item: ledger.KeyOf(s.Item.Key()), Chain: ledger.Ref(s.Item.Chain), Cause: s.Item.Cause, Attempt: s.Attempt,
		Rung: s.Rung, PassedOver: ledger.KeyOf(s.PassedOver), Author: s.Item.Author,
	}})
	w.claim(s.Item.Ref, a.Login, true)
	w.runs = append(w.runs, x)
	return x.RunID
}

// claim writes an agent's claim to the forge, or removes it.
func (w *world) claim(ref forge.Ref, login string, on bool) {
	change := func(labels, assignees *[]string) {
		*labels = slices.DeleteFunc(slices.Clone(*labels), func(l string) bool { return l == forge.LabelInProgress })
		*assignees = nil
		if on {
			*labels, *assignees = compact(append(*labels, forge.LabelInProgress)...), []string{login}
		}
	}
	if is := w.issue(ref); is != nil {
		change(&is.Labels, &is.Assignees)
	}
	if p := w.pull(ref); p != nil {
		change(&p.Labels, &p.Assignees)
	}
}

// ends ends a session. The verdict counts for a review only.
func (w *world) ends(run string, result agents.Result, verdict forge.Verdict) threads.Session {
	i := slices.IndexFunc(w.runs, func(x threads.Session) bool { return x.RunID == run })
	x := w.runs[i]
	w.runs = slices.Delete(slices.Clone(w.runs), i, i+1)
	end := &ledger.End{Run: run, Result: result}
	if result != agents.Done {
		end.Reason = "it failed"
	}
	if p := w.pull(x.Item.Ref); p != nil && x.Item.Kind == agents.KindReview && result == agents.Done {
		end.Verdict = ledger.VerdictOf(verdict)
		if verdict == forge.Approved {
			end.Approved = &threads.Approval{Head: p.HeadSHA, Base: p.Base, MergeBase: p.MergeBase}
		}
		p.Reviews = append(slices.Clone(p.Reviews), forge.Review{
			ID: int64(len(p.Reviews) + 1), Author: x.Login, Verdict: verdict, CommitSHA: p.HeadSHA, Official: true,
			Submitted: w.now,
		})
	}
	w.books.Apply(ledger.Record{At: w.now, End: end})
	if x.Item.Kind != agents.KindSchedule {
		w.books.Apply(ledger.Record{At: w.now, Released: &ledger.Released{Ref: ledger.Ref(x.Item.Ref)}})
		w.claim(x.Item.Ref, "", false)
	}
	return x
}

// pushes gives a pull request a new head.
func (w *world) pushes(ref forge.Ref) {
	p := w.pull(ref)
	p.HeadSHA, p.Updated = p.HeadSHA+"'", w.now
}

// occupied gives an agent a session that never ends.
func (w *world) occupied(a *agents.Agent) {
	w.begun++
	at := forge.Ref{Repo: "elsewhere"}
	w.runs = append(w.runs, threads.Session{
		RunID: fmt.Sprintf("run-%04d", w.begun), Thread: a.Thread, Agent: a.Name, Login: a.Login, State: threads.Running,
		Started: w.now, Item: threads.Item{Kind: agents.KindSchedule, Ref: at, Chain: at, Role: a.Name},
	})
}

// held returns the reason why an item waits, or nil if it does not.
func held(plan *threads.Plan, ref forge.Ref) *threads.Reason {
	for _, h := range plan.Holds {
		if h.Item.Ref == ref {
			return h.Reason
		}
	}
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
