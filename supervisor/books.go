package supervisor

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// books hold what the supervisor knows: the configuration in force, the forge's facts, the ledger, the running
// sessions and the chores. One mutex guards all of it, so a plan is made on consistent facts, and no two loops take
// the same agent, item or slot. Each method locks; a method named ...Locked needs the lock held. No method does I/O,
// except that append, note and noteThen write the journal before they lock.
//
// The methods about sessions are in table.go, snapshots in snapshot.go, decisions in plan.go, chores in chorelist.go,
// grips in grip.go, and documents in document.go.
type books struct {
	decide     func(threads.Snapshot) threads.Plan
	heard      func() bool // the event feed has readers
	journalled func(error) // takes the result of each write to the journal
	meters     Meters
	caches     map[string]serverCache       // the caches of servers as last observed, by base_url
	model      func(*threads.Thread) string // a thread's server's model, for agents without one; nil or "": unknown
	// outages returns the services that cannot be used; nil means that all can. It may be called under mu.
	outages func(*threads.Config, time.Time) map[string]threads.Outage
	answers *answers.Recorder // its Changes is called under mu, its Write is not
	journal *journal.File     // the source of the ledger; nil before Run. Its lock is taken before mu

	mu         sync.Mutex // guards the fields below
	instance   string
	until      context.Context // done when nothing may start any more
	base       context.Context // the parent of sessions' contexts
	life       life
	cfg        *threads.Config // in force; nil until there is a valid one
	cfgErr     error           // the current error of the file
	generation int
	facts      forge.Facts
	rooms      map[string]threads.Room // the room of threads that run elsewhere, by name
	read       reading
	ledger     *ledger.State
	plan       shared
	changes    int64               // see changedLocked
	sessions   map[string]*session // by run id
	busy       map[forge.Ref]int   // grips on each item
	chores     map[choreKey]*chore
	stood      stood
	closed     bool   // nothing starts: another image takes over
	saves      string // the agent whose workspace is being saved, see gripOver; empty: none
	forgetAt   time.Time
}

// life has the start of this supervisor and of its present image.
type life struct {
	started  time.Time
	upgrades int       // images before this one
	upgraded time.Time // when this image took over
}

// reading is the result of the newest finished scan.
type reading struct {
	began    time.Time // when the scan began
	good     time.Time // when the newest scan without an error began
	err      error
	notReady error // the forge refuses something that the supervisor needs
}

func newBooks(cfg *threads.Config, cfgErr error, decide func(threads.Snapshot) threads.Plan, heard func() bool) *books {
	b := &books{
		decide: decide, heard: heard,
		answers: new(answers.Recorder),
		life:    life{started: time.Now()}, cfg: cfg, cfgErr: cfgErr, ledger: ledger.New(),
		sessions: make(map[string]*session), busy: make(map[forge.Ref]int), chores: make(map[choreKey]*chore),
		stood: make(stood), changes: 1,
	}
	if cfg != nil {
		b.generation = 1
	}
	return b
}

// open sets the fields that Run knows once it has the state directory.
func (b *books) open(instance string, until, base context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instance, b.until, b.base = instance, until, base
}

// config returns the configuration in force; nil until there is a valid one. A configuration is never changed, only
// replaced.
func (b *books) config() *threads.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}

// inForce returns the configuration in force, and the current error of its file.
func (b *books) inForce() (*threads.Config, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg, b.cfgErr
}

func (b *books) setConfigError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfgErr = err
}

// reload puts a configuration in force and calls change under the same lock, so that no decision sees only one of the
// two. It ends the holds that last until a reload.
func (b *books) reload(cfg *threads.Config, change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	b.cfg, b.cfgErr = cfg, nil
	b.generation++
	b.changedLocked()
	for _, a := range b.ledger.Agents {
		if a.HeldUntil.IsZero() {
			a.Hold(time.Time{}, "")
		}
	}
}

// close stops or resumes all starts.
func (b *books) close(closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = closed
}

// land stores the result of a scan that began at a time, and returns the error of the previous scan. After an error,
// any reports whether the scan read at least one repository.
func (b *books) land(began time.Time, facts forge.Facts, err error) (was error, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changedLocked()
	was = b.read.err
	b.read.began, b.read.err = began, err
	if err == nil {
		b.facts, b.read.good = facts, began
		return was, true
	}
	if len(facts.Repos) == 0 {
		facts = b.facts
	}
	b.facts, any = onlyRead(facts, began)
	return was, any
}

// startedSince reports whether a session of the thread was reserved at this time or later.
func (b *books) startedSince(thread string, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.sessions {
		if x.Thread == thread && !x.reserved.Before(at) {
			return true
		}
	}
	return false
}

// onlyRead marks as unread every repository that the scan did not read. Nothing is started, stopped or written there
// on facts that the forge has not confirmed.
func onlyRead(facts forge.Facts, began time.Time) (masked forge.Facts, any bool) {
	facts.Repos = slices.Clone(facts.Repos)
	for i := range facts.Repos {
		if facts.Repos[i].AsOf.Before(began) {
			facts.Repos[i].AsOf = time.Time{}
		} else {
			any = true
		}
	}
	return facts, any
}

// off returns one line for each repository in which nothing can be done, with the reason.
func (b *books) off() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.facts.Repos {
		if r.Off != "" {
			lines = append(lines, r.Off)
		}
	}
	return lines
}

// prepared stores the forge's refusal of its preparation, and returns the previous refusal.
func (b *books) prepared(refused error) (was error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.read.notReady = b.read.notReady, refused
	return was
}

// scanned returns the result of the newest finished scan.
func (b *books) scanned() reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// append journals an action and then applies the record. After an error the action must not be done.
func (b *books) append(r ledger.Record) error {
	err := b.journal.Append(r, func() { b.apply(r, nil) })
	b.journalled(err)
	return err
}

// note journals and applies an event. The event is applied even if the journal cannot be written.
func (b *books) note(r ledger.Record) { b.noteThen(r, nil) }

// noteThen is note. It calls the function then under the same lock.
func (b *books) noteThen(r ledger.Record, then func(*books)) {
	b.journalled(b.journal.Note(r, func() { b.apply(r, then) }))
}

// rewrite replaces the journal by the shortest one with the same meaning.
func (b *books) rewrite() error {
	return b.journal.Rewrite(func() iter.Seq[ledger.Record] { return slices.Values(b.compact(time.Now())) })
}

// apply folds a record into the ledger. It calls the function then, if any, under the same lock.
func (b *books) apply(r ledger.Record, then func(*books)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applyLocked(r)
	if then != nil {
		then(b)
	}
}

// applyLocked folds a record into the ledger. It passes an ended session to the meters first, because the ledger then
// drops most of it. Usage is reported every few seconds, and mostly changes no plan: see useLocked.
func (b *books) applyLocked(r ledger.Record) {
	if r.End != nil && b.meters.Ended != nil {
		if x, known := b.ledger.Open[r.End.Run]; known {
			b.meters.Ended(x, r.End, r.At)
		}
	}
	b.ledger.Apply(r)
	if r.Used == nil {
		b.changedLocked()
	}
}

// compact returns the shortest journal with the ledger's meaning.
func (b *books) compact(now time.Time) []ledger.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Compact(now)
}

// endedUnder is the reason of a lost session.
const endedUnder = "the supervisor ended under it"

// replay installs the ledger of a journal, and ends the open sessions as lost, except for those that continue in this
// image or elsewhere.
func (b *books) replay(
	past *ledger.State, now time.Time, goesOn func(*ledger.Open) bool, receipts map[string]*ledger.Receipt,
) (news []notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger = past
	b.changedLocked()
	for _, run := range slices.Sorted(maps.Keys(b.ledger.Open)) {
		o := b.ledger.Open[run]
		if goesOn(&o) {
			continue
		}
		b.applyLocked(ledger.Record{At: now, End: &ledger.End{
			Run: run, Result: agents.Lost, Reason: endedUnder, Receipt: receipts[run],
		}})
		news = append(news, notice{bad: true, words: tag(b.cfg, o.Agent, forge.Ref(o.Item.Ref)) + " lost: " + endedUnder})
	}
	return news
}

// chain returns the history of an issue or pull request.
func (b *books) chain(item forge.Ref) threads.ChainHistory {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := *b.ledger.Chain(item)
	c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
	return c
}

// past returns the sessions that ran and ended, oldest first.
func (b *books) past() []ledger.Past {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ledger.Past)
}

// tried returns a chain's failed sessions, and the reviews that rejected it, since a person last retried it.
func (b *books) tried(chain forge.Ref) (list []agents.Tried) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.ledger.Chain(chain).Retried
	for i := range b.ledger.Past {
		p := &b.ledger.Past[i]
		rejected := p.Verdict == ledger.ChangesRequested
		failed := p.Kind.Writes() && p.Outcome.BurnsAttempt()
		if forge.Ref(p.Chain) != chain || !p.End.After(since) || !rejected && !failed {
			continue
		}
		t := agents.Tried{Agent: p.Agent, Kind: p.Kind, Outcome: p.Outcome, Reason: p.Reason}
		if rejected {
			t.Reason = string(threads.CauseChanges)
		}
		list = append(list, t)
	}
	return list
}

// timeline returns the events other than sessions since a time, including times beside work that have not ended.
func (b *books) timeline(since, now time.Time) ledger.Timeline {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.ledger.Since(since)
	t.Free = append(t.Free, b.stood.stand(now)...)
	return t
}

// stand returns the times beside work that have not ended, sorted by slot.
func (b *books) stand(now time.Time) []ledger.Free {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stood.stand(now)
}

// rests reports whether an issue or pull request cools down, or its merge does.
func (b *books) rests(item forge.Ref, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(ledger.Keys(item), func(k threads.Key) bool { return b.ledger.Item(k).CoolDown.After(now) })
}

// issue returns an issue as the newest scan shows it, and whether the supervisor has written to it since. The issue is
// nil if the scan does not show it.
func (b *books) issue(item forge.Ref) (is *forge.Issue, stale bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	repo, _ := b.facts.Repo(item.Repo)
	return b.facts.Issue(item), !repo.AsOf.After(b.ledger.Touched[item])
}

// pull returns a pull request as the newest scan shows it; nil if the scan does not show it.
func (b *books) pull(item forge.Ref) *forge.Pull {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.facts.Pull(item)
}

// paused returns the pauses that people have set, sorted.
func (b *books) paused() []threads.Pause {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.ledger.Paused), ledger.ComparePauses)
}

// knownOpen reports whether an issue or pull request is open, as far as the books know without asking the forge.
func (b *books) knownOpen(item forge.Ref) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessionOnLocked(item) != nil {
		return true
	}
	if is := b.facts.Issue(item); is != nil {
		return !is.Closed
	}
	p := b.facts.Pull(item)
	return p != nil && !p.Closed
}

// forgetLocked drops write times that no decision needs any more. It returns the issues and pull requests whose
// history the journal can drop: the newest scan of their repository no longer shows them.
func (b *books) forgetLocked() []forge.Ref {
	for r, touched := range b.ledger.Touched {
		if repo, known := b.facts.Repo(r.Repo); known && repo.AsOf.After(touched) && b.busy[r] == 0 {
			delete(b.ledger.Touched, r)
		}
	}
	var gone []forge.Ref
	for _, r := range b.ledger.Remembered() {
		repo, known := b.facts.Repo(r.Repo)
		read := known && !repo.AsOf.IsZero() && !b.facts.More
		unused := b.ledger.Chain(r).Claimed == "" && b.busy[r] == 0 && !b.hasChainLocked(r)
		if read && unused && r.Number > 0 && b.facts.Issue(r) == nil && b.facts.Pull(r) == nil {
			gone = append(gone, r)
		}
	}
	return gone
}

// dropClaimsLocked drops claims that the journal remembers and the forge does not show, such as one that never reached
// the forge. If they stayed in the books, another host's claim on the same item would count as ours.
func (b *books) dropClaimsLocked() []forge.Ref {
	var dropped []forge.Ref
	for _, r := range b.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		repo, known := b.facts.Repo(r.Repo)
		fresh := known && b.busy[r] == 0 && repo.AsOf.After(b.ledger.Touched[r])
		if fresh && !b.claimShownLocked(r) && b.sessionOnLocked(r) == nil {
			b.ledger.Drop(r)
			b.changedLocked()
			dropped = append(dropped, r)
		}
	}
	return dropped
}

// claimShownLocked reports whether the forge shows a claim on an open item that may be ours: the label in-progress,
// and no other host's agent assigned.
func (b *books) claimShownLocked(r forge.Ref) bool {
	var labelled, closed bool
	var assignees []string
	if is := b.facts.Issue(r); is != nil {
		labelled, closed, assignees = is.Has(forge.LabelInProgress), is.Closed, is.Assignees
	} else if p := b.facts.Pull(r); p != nil {
		labelled, closed, assignees = p.Has(forge.LabelInProgress), p.Closed, p.Assignees
	}
	foreign := slices.ContainsFunc(assignees, func(login string) bool {
		return isBot(b.cfg, login) && b.cfg.AgentByLogin(login) == nil
	})
	return labelled && !closed && !foreign
}

// isBot reports whether an account is an agent of another host.
func isBot(cfg *threads.Config, login string) bool {
	_, bot := slices.BinarySearch(cfg.Forge.Bots, login)
	return bot
}
