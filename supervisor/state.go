package supervisor

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// state holds what the supervisor knows: the configuration in force, the forge's facts, the ledger, the running
// sessions and the chores. One mutex guards all of it, so a plan is made on consistent facts, and no two loops take
// the same agent, item or slot. Each method locks; a method named ...Locked needs the lock held. No method does I/O,
// except that append, record and recordThen write the journal before they lock.
//
// It has some 130 methods, because each question and each change is one method under the one mutex: parts with a mutex
// each could let two loops take the same slot, and parts without would only forward. Nobody calls a method while
// holding another lock, except the journal's.
//
// The methods about sessions are in table.go, snapshots in snapshot.go, decisions in plan.go, chores in chorelist.go,
// writes to items in itemwrite.go, and documents in document.go.
type state struct {
	decide     func(threads.Snapshot) threads.Plan
	heard      func() bool // the event feed has readers
	journalled func(error) // takes the result of each write to the journal
	meters     Meters
	environ    []string                     // the supervisor's own
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
	twin       forge.Peer // another supervisor with our identity; zero if none was seen
	known      known
	reminders  []control.QueueDocument // what waited before the start, where nothing has been read since
	ledger     *ledger.State
	plan       shared
	seen       shared              // the plan that status shows where plan does not hold, see presentLocked
	changes    int64               // see lockToChange
	sessions   map[string]*session // by run id
	busy       map[forge.Ref]int   // writes under way to each item
	chores     map[choreKey]*chore
	idle       idleSlots
	drained    time.Time // when the drain began that is done; zero: none is
	working    time.Time // see checkWorkLocked
	closed     bool      // nothing starts: the supervisor is about to be replaced
	saves      string    // the agent whose workspace is being saved, see beginWriteOver; empty: none
	forgetAt   time.Time
}

// life has the start of the first supervisor under this init, and the replacements of its program since.
type life struct {
	started  time.Time
	upgrades int
	upgraded time.Time // when this supervisor took over, if there was an upgrade
}

// reading is the result of the newest finished scan.
type reading struct {
	began    time.Time // when the scan began
	good     time.Time // when the newest scan without an error began
	err      error
	notReady error // the forge refuses something that the supervisor needs
	rejected bool  // the forge rejects the supervisor's own token
}

func newState(cfg *threads.Config, cfgErr error, decide func(threads.Snapshot) threads.Plan, heard func() bool) *state {
	b := &state{
		decide: decide, heard: heard,
		answers: new(answers.Recorder),
		life:    life{started: time.Now()}, cfg: cfg, cfgErr: cfgErr, ledger: ledger.New(),
		sessions: make(map[string]*session), busy: make(map[forge.Ref]int), chores: make(map[choreKey]*chore),
		idle: make(idleSlots), changes: 1,
	}
	if cfg != nil {
		b.generation = 1
	}
	return b
}

// open sets the fields that Run knows once it has the state directory.
func (st *state) open(instance string, until, base context.Context) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.instance, st.until, st.base = instance, until, base
}

// config returns the configuration in force; nil until there is a valid one. A configuration is never changed, only
// replaced.
func (st *state) config() *threads.Config {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.cfg
}

// inForce returns the configuration in force, and the current error of its file.
func (st *state) inForce() (*threads.Config, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.cfg, st.cfgErr
}

func (st *state) setConfigError(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.cfgErr = err
}

// close stops or resumes all starts.
func (st *state) close(closed bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = closed
}

// setFacts stores the result of a scan that began at a time, and returns the error of the previous scan. After an
// error, any reports whether the scan read at least one repository.
func (st *state) setFacts(began time.Time, facts forge.Facts, err error) (was error, any bool) {
	st.lockToChange()
	defer st.mu.Unlock()
	was = st.read.err
	st.read.rejected = st.read.rejected && err != nil
	st.read.began, st.read.err = began, err
	defer st.forgetRemindersLocked()
	if err == nil {
		st.facts, st.read.good = facts, began
		return was, true
	}
	if len(facts.Repos) == 0 {
		facts = st.facts
	}
	st.facts, any = onlyRead(facts, began)
	return was, any
}

// setRejected records that the forge rejects the supervisor's own token, until a scan succeeds.
func (st *state) setRejected() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.read.rejected = true
}

// startedSince reports whether a session of the thread was reserved at this time or later.
func (st *state) startedSince(thread string, at time.Time) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range st.sessions {
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
		if r := &facts.Repos[i]; r.AsOf.Before(began) {
			if !r.AsOf.IsZero() {
				r.LastRead = r.AsOf
			}
			r.AsOf = time.Time{}
		} else {
			any = true
		}
	}
	return facts, any
}

// off returns one line for each repository in which nothing can be done, or no issue can, with the reason.
func (st *state) off() (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, r := range st.facts.Repos {
		if why := cmp.Or(r.Off, r.NoPush); why != "" {
			lines = append(lines, why)
		}
	}
	return lines
}

// prepared stores the forge's refusal of its preparation, and returns the previous refusal.
func (st *state) prepared(refused error) (was error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	was, st.read.notReady = st.read.notReady, refused
	return was
}

// scanned returns the result of the newest finished scan.
func (st *state) scanned() reading {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read
}

// append journals an action and then applies the record. After an error the action must not be done.
func (st *state) append(r ledger.Record) error {
	err := st.journal.Append(r, func() { st.apply(r, nil) })
	st.journalled(err)
	return err
}

// record journals and applies an event. The event is applied even if the journal cannot be written.
func (st *state) record(r ledger.Record) { _ = st.recordThen(r, nil) }

// recordThen is record. It calls the function then under the same lock. After an error, which is for nobody else, the
// record is not on the disk yet.
func (st *state) recordThen(r ledger.Record, then func(*state)) error {
	err := st.journal.AppendPast(r, func() { st.apply(r, then) })
	st.journalled(err)
	return err
}

// rewrite replaces the journal by the shortest one with the same meaning.
func (st *state) rewrite() error {
	return st.journal.Rewrite(func() iter.Seq[ledger.Record] { return slices.Values(st.compact(time.Now())) })
}

// apply folds a record into the ledger. It calls the function then, if any, under the same lock. Usage is reported
// every few seconds, and mostly changes no plan: see useLocked.
func (st *state) apply(r ledger.Record, then func(*state)) {
	if r.Used == nil {
		st.lockToChange()
	} else {
		st.mu.Lock()
	}
	defer st.mu.Unlock()
	st.applyLocked(r)
	if then != nil {
		then(st)
	}
}

// applyLocked folds a record into the ledger. It passes an ended session to the meters first, because the ledger then
// drops most of it.
func (st *state) applyLocked(r ledger.Record) {
	if r.End != nil && st.meters.Ended != nil {
		if x, known := st.ledger.Open[r.End.Run]; known {
			st.meters.Ended(x, r.End, r.At)
		}
	}
	st.ledger.Apply(r)
}

// compact returns the shortest journal with the ledger's meaning.
func (st *state) compact(now time.Time) []ledger.Record {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Compact(now)
}

// endedUnder is the reason of a lost session.
const endedUnder = "the supervisor ended under it"

// replay installs the ledger of a journal, and ends the open sessions as lost, except for those that may go on.
func (st *state) replay(
	past *ledger.State, now time.Time, goesOn func(*ledger.Open) bool, receipts map[string]*ledger.Receipt,
) (news []notice) {
	st.lockToChange()
	defer st.mu.Unlock()
	st.ledger = past
	for _, run := range slices.Sorted(maps.Keys(st.ledger.Open)) {
		o := st.ledger.Open[run]
		if goesOn(&o) {
			continue
		}
		st.applyLocked(ledger.Record{At: now, End: &ledger.End{
			Run: run, Result: agents.Lost, Reason: endedUnder, Receipt: receipts[run],
		}})
		news = append(news, notice{run: run, words: tag(st.cfg, o.Agent, forge.Ref(o.Item.Ref)) + " lost: " + endedUnder})
	}
	return news
}

// chain returns the history of an issue or pull request.
func (st *state) chain(item forge.Ref) threads.ChainHistory {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := *st.ledger.Chain(item)
	c.Writers, c.Attempts = slices.Clone(c.Writers), slices.Clone(c.Attempts)
	return c
}

// toll returns the count of a chain.
func (st *state) toll(chain forge.Ref) threads.Toll {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Toll(chain)
}

// past returns the sessions that ran and ended, oldest first.
func (st *state) past() []ledger.Past {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Clone(st.ledger.Past)
}

// books returns what is kept of sessions and merges.
func (st *state) books() *ledger.Books {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Books()
}

// tried returns a chain's failed sessions, and the reviews that rejected it, since a person last retried it.
func (st *state) tried(chain forge.Ref) (list []agents.Tried) {
	st.mu.Lock()
	defer st.mu.Unlock()
	since := st.ledger.Chain(chain).Retried
	for i := range st.ledger.Past {
		p := &st.ledger.Past[i]
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
func (st *state) timeline(since, now time.Time) ledger.Timeline {
	st.mu.Lock()
	defer st.mu.Unlock()
	t := st.ledger.Since(since)
	t.Free = append(t.Free, st.idle.open(now)...)
	return t
}

// open returns the times beside work that have not ended, sorted by slot.
func (st *state) idleTimes(now time.Time) []ledger.Free {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.idle.open(now)
}

// rests reports whether an issue or pull request, its merge or the setup of its repository cools down, and why; "" if
// it failed.
func (st *state) rests(item forge.Ref, now time.Time) (why string, ok bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if r := st.ledger.Repo(item.Repo); r.SetupUntil.After(now) {
		why, ok = r.SetupWhy, true
	}
	for _, k := range ledger.Keys(item) {
		if i := st.ledger.Item(k); i.CoolDown.After(now) {
			why, ok = cmp.Or(i.CoolWhy, why), true
		}
	}
	return why, ok
}

// issue returns an issue as the newest scan shows it, and whether the supervisor has written to it since. The issue is
// nil if the scan does not show it.
func (st *state) issue(item forge.Ref) (is *forge.Issue, stale bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	repo, _ := st.facts.Repo(item.Repo)
	return st.facts.Issue(item), !repo.AsOf.After(st.ledger.Touched[item])
}

// pull returns a pull request as the newest scan shows it; nil if the scan does not show it.
func (st *state) pull(item forge.Ref) *forge.Pull {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.facts.Pull(item)
}

// paused returns the pauses that people have set, sorted.
func (st *state) paused() []threads.Pause {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.SortedFunc(maps.Keys(st.ledger.Paused), threads.Pause.Compare)
}

// knownOpen reports whether an issue or pull request is open, as far as the state knows without asking the forge.
func (st *state) knownOpen(item forge.Ref) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.sessionOnLocked(item) != nil {
		return true
	}
	if is := st.facts.Issue(item); is != nil {
		return !is.Closed
	}
	p := st.facts.Pull(item)
	return p != nil && !p.Closed
}

// forgetLocked drops write times that no decision needs any more. It returns the issues and pull requests whose
// history the journal can drop: the newest scan of their repository no longer shows them.
func (st *state) forgetLocked() []forge.Ref {
	for r, touched := range st.ledger.Touched {
		if repo, known := st.facts.Repo(r.Repo); known && repo.AsOf.After(touched) && st.busy[r] == 0 {
			delete(st.ledger.Touched, r)
		}
	}
	var gone []forge.Ref
	worked := make(map[forge.Ref]bool, len(st.sessions))
	for _, x := range st.sessions {
		worked[x.Item.Ref], worked[x.Item.Chain] = true, true
	}
	for _, r := range st.ledger.Remembered() {
		repo, known := st.facts.Repo(r.Repo)
		read := known && !repo.AsOf.IsZero() && !st.facts.More
		unused := st.ledger.Chain(r).Claimed == "" && st.busy[r] == 0 && !worked[r]
		if read && unused && r.Number > 0 && st.facts.Issue(r) == nil && st.facts.Pull(r) == nil {
			gone = append(gone, r)
		}
	}
	return gone
}

// dropClaimsLocked drops claims that the journal remembers and the forge does not show, such as one that never reached
// the forge. If they stayed in the state, another host's claim on the same item would count as ours. It is part of a
// decision, so it changes no plan that was made.
func (st *state) dropClaimsLocked() []forge.Ref {
	var dropped []forge.Ref
	worked := make(map[forge.Ref]bool, len(st.sessions))
	for _, x := range st.sessions {
		worked[x.Item.Ref] = true
	}
	for _, r := range st.ledger.Select(func(c *threads.ChainHistory) bool { return c.Claimed != "" }) {
		repo, known := st.facts.Repo(r.Repo)
		fresh := known && st.busy[r] == 0 && repo.AsOf.After(st.ledger.Touched[r])
		if fresh && !worked[r] && !st.claimShownLocked(r) {
			st.ledger.Drop(r)
			dropped = append(dropped, r)
		}
	}
	return dropped
}

// claimShownLocked reports whether the forge shows a claim on an open item that may be ours: the label in-progress,
// and no other host's agent assigned.
func (st *state) claimShownLocked(r forge.Ref) bool {
	var labelled, closed bool
	var assignees []string
	if is := st.facts.Issue(r); is != nil {
		labelled, closed, assignees = is.Has(forge.LabelInProgress), is.Closed, is.Assignees
	} else if p := st.facts.Pull(r); p != nil {
		labelled, closed, assignees = p.Has(forge.LabelInProgress), p.Closed, p.Assignees
	}
	foreign := slices.ContainsFunc(assignees, func(login string) bool {
		return st.cfg.IsBot(login) && st.cfg.AgentByLogin(login) == nil
	})
	return labelled && !closed && !foreign
}
