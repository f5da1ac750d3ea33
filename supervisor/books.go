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
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/supervisor/shadow"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// books hold what the supervisor knows: the configuration in force, the forge's facts, the ledger, and the sessions
// and chores under way. One mutex guards all of it, so a plan is made on facts that belong together, and no two loops
// take the same agent, item or slot. Methods lock, and those named ...Locked are called by them. No method
// does I/O, except that append, note and noteThen write the journal before they lock.
//
// The methods about sessions are in table.go, snapshots in snapshot.go, decisions in plan.go, chores in chorelist.go,
// grips in grip.go, and documents in document.go.
type books struct {
	decide     func(threads.Snapshot) threads.Plan
	heard      func() bool // the event feed has readers
	journalled func(error) // tells people when the journal begins to fail, and when that is over
	meters     Meters
	caches     map[string]serverCache       // as servers were seen to have them, by base_url
	model      func(*threads.Thread) string // of a thread's server, for agents without one; nil or "": unknown
	// outages are the services that cannot be used; nil: all can. It may be called under mu.
	outages func(*threads.Config, time.Time) map[string]threads.Outage
	shadow  *shadow.Shadow // is asked what it would decide; nil: none
	// record takes in a decision of a time, for which it may call frozen, and is called under mu. frozen copies the
	// decision.
	record  func(now time.Time, frozen func() *threads.FrozenDecision)
	journal *journal.File // the ledger is folded from it; nil before Run. Its lock is taken before mu

	mu         sync.Mutex // guards what follows
	instance   string
	until      context.Context // done when nothing may begin any more
	base       context.Context // of sessions
	life       life
	cfg        *threads.Config // in force; nil until there is a valid one
	cfgErr     error           // of the file as it is now
	generation int
	facts      forge.Facts
	rooms      map[string]threads.Room // of threads that run elsewhere, by name
	read       reading
	ledger     *ledger.State
	plan       threads.Plan        // the newest
	sessions   map[string]*session // by run id
	busy       map[forge.Ref]int   // grips on each item
	chores     map[choreKey]*chore
	stood      stood
	closed     bool   // nothing begins: another image takes over
	saves      string // the agent whose work is saved, see gripOver; empty: none
	forgetAt   time.Time
	frozen     *threads.Frozen // of the last decision that was copied; nil when a chain or an item may have changed since
}

// life is when this supervisor began, over all its images.
type life struct {
	started  time.Time
	upgrades int       // images before this one
	upgraded time.Time // when this one took over
}

// reading is how the newest finished scan went.
type reading struct {
	began    time.Time // when it began
	good     time.Time // when the newest scan without an error began
	err      error
	notReady error // the forge refuses something that we need
}

func newBooks(cfg *threads.Config, cfgErr error, decide func(threads.Snapshot) threads.Plan, heard func() bool) *books {
	b := &books{
		decide: decide, record: func(time.Time, func() *threads.FrozenDecision) {}, heard: heard,
		life: life{started: time.Now()}, cfg: cfg, cfgErr: cfgErr, ledger: ledger.New(),
		sessions: make(map[string]*session), busy: make(map[forge.Ref]int), chores: make(map[choreKey]*chore),
		stood: make(stood),
	}
	if cfg != nil {
		b.generation = 1
	}
	return b
}

// open sets what is known once Run has the state directory.
func (b *books) open(instance string, until, base context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instance, b.until, b.base = instance, until, base
}

// config returns the configuration in force; nil until there is a valid one. It is never changed, only replaced.
func (b *books) config() *threads.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg
}

// inForce returns the configuration in force, and what is wrong with its file as that is now.
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

// reload puts a configuration in force, and with it what also changes: no decision sees only one of them. Holds that
// were to last until then are over. It returns the configuration before; nil for none.
func (b *books) reload(cfg *threads.Config, also func()) (was *threads.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	also()
	was, b.cfg, b.cfgErr = b.cfg, cfg, nil
	b.generation++
	for _, a := range b.ledger.Agents {
		if a.HeldUntil.IsZero() {
			a.Hold(time.Time{}, "")
		}
	}
	return was
}

// close keeps everything from beginning until closed is false again.
func (b *books) close(closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = closed
}

// land takes in what a scan that began at a time has read, and returns the error of the scan before it. After an
// error any reports whether at least one repository was read.
func (b *books) land(began time.Time, facts forge.Facts, err error) (was error, any bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// startedSince reports whether a session of the thread has been begun at this time or later.
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

// onlyRead marks every repository that the scan did not read as not read, so that nothing is started, stopped or
// written in it on facts that the forge has not confirmed.
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

// off says of each repository in which nothing can be done why.
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

// prepared notes what the forge refused when it was prepared, and returns what it refused before.
func (b *books) prepared(refused error) (was error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.read.notReady = b.read.notReady, refused
	return was
}

// scanned returns how the newest finished scan went.
func (b *books) scanned() reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

// append journals what is about to be done, and makes it true. After an error it must not be done.
func (b *books) append(r ledger.Record) error {
	err := b.journal.Append(r, func() { b.apply(r, nil) })
	b.journalled(err)
	return err
}

// note journals what has happened. It is true whether or not it could be written.
func (b *books) note(r ledger.Record) { b.noteThen(r, nil) }

// noteThen is note with something that becomes true in the same moment, while the books are locked.
func (b *books) noteThen(r ledger.Record, then func(*books)) {
	b.journalled(b.journal.Note(r, func() { b.apply(r, then) }))
}

// rewrite replaces the journal by the shortest one with the same meaning.
func (b *books) rewrite() error {
	return b.journal.Rewrite(func() iter.Seq[ledger.Record] { return slices.Values(b.compact(time.Now())) })
}

// apply makes a record true, and what has to become true in the same moment.
func (b *books) apply(r ledger.Record, then func(*books)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applyLocked(r)
	if then != nil {
		then(b)
	}
}

// applyLocked folds a record into the ledger. Of a session that ends the ledger keeps nothing that says all of it.
func (b *books) applyLocked(r ledger.Record) {
	if r.End != nil && b.meters.Ended != nil {
		if x, known := b.ledger.Open[r.End.Run]; known {
			b.meters.Ended(x, r.End, r.At)
		}
	}
	b.ledger.Apply(r)
	b.frozen = nil
}

// compact returns the shortest journal that has the ledger's meaning.
func (b *books) compact(now time.Time) []ledger.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Compact(now)
}

// endedUnder is the reason of a session that was lost.
const endedUnder = "the supervisor ended under it"

// replay makes true what a journal adds up to, and then that the sessions left open in it are lost, except for those
// that go on in this image or elsewhere.
func (b *books) replay(
	past *ledger.State, now time.Time, goesOn func(*ledger.Open) bool, receipts map[string]*ledger.Receipt,
) (news []notice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger, b.frozen = past, nil
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

// chain returns what is known of an issue or pull request.
func (b *books) chain(item forge.Ref) threads.ChainHistory {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := *b.ledger.Chain(item)
	c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
	return c
}

// past are the sessions that ran and ended, oldest first.
func (b *books) past() []ledger.Past {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ledger.Past)
}

// tried returns the sessions on a chain that failed, and the reviews that rejected it, since a person last said retry.
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

// timeline tells what happened besides sessions since a time, with the times beside work that have not ended.
func (b *books) timeline(since, now time.Time) ledger.Timeline {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.ledger.Since(since)
	t.Free = append(t.Free, b.stood.stand(now)...)
	return t
}

// stand are the times beside work that have not ended, sorted by slot.
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

// issue returns an issue as the newest scan shows it, and whether we have written to it since. Nil when the scan does
// not show it.
func (b *books) issue(item forge.Ref) (is *forge.Issue, stale bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	repo, _ := b.facts.Repo(item.Repo)
	return b.facts.Issue(item), !repo.AsOf.After(b.ledger.Touched[item])
}

// pull returns a pull request as the newest scan shows it; nil when it does not.
func (b *books) pull(item forge.Ref) *forge.Pull {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.facts.Pull(item)
}

// paused returns what people have paused, sorted.
func (b *books) paused() []threads.Pause {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.ledger.Paused), ledger.ComparePauses)
}

// knownOpen reports whether an issue or pull request is open for all that we know without asking the forge.
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

// forgetLocked drops what no decision asks for again, and returns the issues and pull requests of which the journal
// can forget everything: their repository was read, and they are no longer in it.
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

// dropClaimsLocked forgets claims that the journal remembers and the forge does not show, such as one that never got
// there. If they stayed in the books, the claim of another host on the same item would be taken for ours.
func (b *books) dropClaimsLocked() []forge.Ref {
	var dropped []forge.Ref
	for _, r := range b.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		repo, known := b.facts.Repo(r.Repo)
		fresh := known && b.busy[r] == 0 && repo.AsOf.After(b.ledger.Touched[r])
		if fresh && !b.claimShownLocked(r) && b.sessionOnLocked(r) == nil {
			b.ledger.Drop(r)
			b.frozen = nil
			dropped = append(dropped, r)
		}
	}
	return dropped
}

// claimShownLocked reports whether the forge shows a claim on an open item that may be ours: in-progress, and no other
// host's agent assigned.
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
