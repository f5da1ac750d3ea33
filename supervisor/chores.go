package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// How long a failed chore rests. The scheduler asks for it again in every plan.
const (
	unansweredRest = 10 * time.Second // the forge did not answer
	refusedRest    = time.Minute      // the forge refused; doubled each time
	// mergeRest is the first rest of a refused merge. Forgejo refuses for a moment after every push and every other merge.
	mergeRest = 15 * time.Second
	choreRest = 10 * time.Minute // where doubling ends
)

const actMerge threads.Action = "merge"

// choreKey names a chore, so that no two ticks do the same one at a time.
type choreKey struct {
	action threads.Action
	ref    forge.Ref
	head   string // of a merge: a push makes it another one
}

// chore is one change of the forge that belongs to no session: a merge, or a mark such as a label or a released
// claim. It is under way, or failed and rests. The supervisor's mu guards it, except for what do needs, which does
// not change.
type chore struct {
	choreKey
	mark    threads.Mark // zero for a merge, a cancel and a steal
	hold    threads.Key  // the item that cools down after a refusal
	tag     string
	login   string          // the account whose claim is released
	failure threads.Attempt // the last one of an item that gave up
	refused time.Time       // when an agent refused the item
	grip    *grip
	steal   *ledger.Steal
	did     []string // the steps of a cancel, for its report
	said    string   // the log line of success, where actions has none

	working  bool
	retryAt  time.Time
	failures int    // refusals in a row
	failed   string // the last error
}

// choresLocked begins the merges and marks of a plan, the cancels and the steals that are due and not under way. The
// first tick that sees them does them, whatever its thread.
func (s *Supervisor) choresLocked(plan *threads.Plan, now time.Time) []*chore {
	wanted := make(map[choreKey]*chore)
	for _, m := range plan.Merges {
		c := &chore{choreKey: choreKey{actMerge, m.Ref, m.HeadSHA}, hold: m.Key()}
		wanted[c.choreKey] = c
	}
	for _, m := range plan.Marks {
		c := &chore{choreKey: choreKey{m.Action, m.Ref, ""}, mark: m, hold: m.Key()}
		wanted[c.choreKey] = c
	}
	for _, c := range append(s.cancelsLocked(), s.stealsLocked()...) {
		wanted[c.choreKey] = c
	}
	for k, c := range s.chores {
		if wanted[k] == nil && !c.working && now.After(c.retryAt.Add(choreRest)) {
			delete(s.chores, k)
		}
	}
	var list []*chore
	for _, k := range slices.SortedFunc(maps.Keys(wanted), compareChores) {
		old := s.chores[k]
		if old == nil || !old.working && !now.Before(old.retryAt) {
			list = append(list, s.choreLocked(wanted[k], old))
		}
	}
	return list
}

// choreLocked begins a chore. old is its last attempt; nil for the first.
func (s *Supervisor) choreLocked(c, old *chore) *chore {
	if old != nil {
		c.failures, c.failed = old.failures, old.failed
	}
	c.working = true
	c.tag = "[" + wordsOf(s.config, c.ref, "") + "]"
	c.login = s.loginLocked(c.mark.Agent, c.ref)
	c.failure = s.history.Chain(c.mark.Item.Chain).Attempt(c.mark.Item.Kind)
	c.refused = s.history.Chain(c.ref).RefusedAt
	c.grip = s.gripLocked(s.choreRefsLocked(c.choreKey))
	s.chores[c.choreKey] = c
	s.running.Add(1)
	return c
}

func compareChores(a, b choreKey) int {
	if c := a.ref.Compare(b.ref); c != 0 {
		return c
	}
	return strings.Compare(string(a.action)+a.head, string(b.action)+b.head)
}

// choreRefsLocked returns what a chore writes to. A merge moves the base of every pull request in its repository; a
// Ref without a number stands for them.
func (s *Supervisor) choreRefsLocked(k choreKey) []forge.Ref {
	refs := s.relatedLocked(k.ref)
	if k.action == actMerge {
		refs = append(refs, forge.Ref{Repo: k.ref.Repo})
	}
	return refs
}

// loginLocked returns the account behind a claim, even if its agent is no longer configured.
func (s *Supervisor) loginLocked(agent string, item forge.Ref) string {
	if a := s.config.Agent(agent); a != nil {
		return a.Login
	}
	if login := s.history.Chain(item).Login; login != "" {
		return login
	}
	return agent
}

// do does a chore, and then lets its items be decided on again.
func (s *Supervisor) do(c *chore) {
	defer s.running.Done()
	row := actions[c.action]
	err := row.do(s, c)
	touched := c.grip.letGo()
	s.mu.Lock()
	news := s.choreDoneLocked(c, row, err)
	s.mu.Unlock()
	s.tell(news)
	s.kickAll(touched)
	s.touchStatus()
}

// choreDoneLocked notes how a chore ended. A failure is logged once, not at each retry, and the refusal of a merge
// not the first time.
func (s *Supervisor) choreDoneLocked(c *chore, row action, err error) notice {
	c.working = false
	if err == nil {
		delete(s.chores, c.choreKey)
		s.upkeep.repaired(c.action)
		return notice{words: c.tag + " " + cmp.Or(c.said, row.done)}
	}
	c.retryAt = time.Now().Add(c.rest(err))
	if errors.Is(err, forge.ErrConflict) && c.hold != (threads.Key{}) {
		threads.Entry(s.history.Items, c.hold).CoolDown = c.retryAt
	}
	if was := c.failed; was == text(err) || c.action == actMerge && errors.Is(err, forge.ErrConflict) && c.failures == 1 {
		// Forgejo reports a conflict, too, for a second or two after a push.
		return notice{}
	}
	c.failed = text(err)
	return notice{bad: true, words: fmt.Sprintf("%s cannot %s, tried again: %s", c.tag, row.verb, text(err))}
}

// rest returns how long the chore rests after a failure, and counts refusals.
func (c *chore) rest(err error) time.Duration {
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return unansweredRest
	}
	rest := refusedRest
	if c.action == actMerge {
		rest = mergeRest
	}
	rest <<= min(c.failures, 6)
	c.failures++
	return min(rest, choreRest)
}

// action is one kind of chore.
type action struct {
	verb string                          // follows "cannot" when it failed
	done string                          // the log line of success, unless the chore said another
	do   func(*Supervisor, *chore) error // does the I/O; may be repeated
}

// actions are all kinds of chores. To add one, write its row.
var actions = map[threads.Action]action{
	actMerge:              {"merge", "merged", (*Supervisor).merge},
	actCancel:             {"label cancelled", "cancelled by hand", (*Supervisor).cancel},
	actSteal:              {"move", "", (*Supervisor).steal},
	threads.ActRoute:      {"assign", "", (*Supervisor).route},
	threads.ActRelease:    {"release the claim", "", (*Supervisor).releaseClaim},
	threads.ActUnlabel:    {"remove in-progress", "in-progress removed: no agent is assigned", (*Supervisor).unlabel},
	threads.ActClose:      {"close", "closed, its pull request is merged", (*Supervisor).close},
	threads.ActBlocked:    {"label blocked", "", (*Supervisor).markBlocked},
	threads.ActNeedsHuman: {"label needs-human", "", (*Supervisor).markNeedsHuman},
	threads.ActTell:       {"comment", "", (*Supervisor).tellPeople},
	threads.ActEndConvoy:  {"close the convoy", "", (*Supervisor).endConvoy},
}

func (s *Supervisor) merge(c *chore) error {
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Merge(ctx, c.ref, c.head) })
	if err == nil {
		s.events.Send(control.EventMerged, control.RefData{Repo: c.ref.Repo, Number: c.ref.Number})
	}
	return err
}

func (s *Supervisor) route(c *chore) error {
	c.said = "routed to " + c.mark.Agent
	return s.reassign(c.ref, "", c.login, "", journal.NewRun(s.instance))
}

func (s *Supervisor) releaseClaim(c *chore) error {
	c.said = "claim of " + c.mark.Agent + " released"
	err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Release(ctx, c.ref, c.login) })
	return s.noteAfter(err, ledger.Record{Released: &ledger.Released{Ref: ledger.Ref(c.ref)}})
}

func (s *Supervisor) unlabel(c *chore) error {
	return s.label(c.ref, nil, []string{forge.LabelInProgress})
}

func (s *Supervisor) close(c *chore) error {
	return s.closeIssue(c.ref)
}

func (s *Supervisor) markBlocked(c *chore) error {
	err := s.askPerson(c, forge.LabelBlocked, gaveUpComment(c))
	it := &c.mark.Item
	return s.noteAfter(err, ledger.Record{Blocked: &ledger.Blocked{Chain: ledger.Ref(it.Chain), Kind: it.Kind}})
}

func (s *Supervisor) markNeedsHuman(c *chore) error {
	err := s.askPerson(c, forge.LabelNeedsHuman, needsHumanComment(c))
	if c.mark.Reason.Code == threads.BlockerCancelled {
		return s.noteAfter(err, ledger.Record{Told: toldOf(c)})
	}
	return s.noteAfter(err, ledger.Record{Handed: handedOf(c)})
}

func (s *Supervisor) tellPeople(c *chore) error {
	c.said = "told people: " + c.mark.Reason.Text()
	return s.noteAfter(s.comment(c.ref, toldComment(c)), ledger.Record{Told: toldOf(c)})
}

// noteAfter journals what a chore did, unless it failed.
func (s *Supervisor) noteAfter(err error, r ledger.Record) error {
	if err == nil {
		r.At = time.Now()
		s.note(r)
	}
	return err
}

// askPerson writes the comment first: the label stops the scheduler from asking for both again.
func (s *Supervisor) askPerson(c *chore, label string, words comment) error {
	c.said = cmp.Or(c.said, "labelled "+string(c.action)+": "+c.mark.Reason.Text())
	if err := s.comment(c.ref, words); err != nil {
		return err
	}
	return s.label(c.ref, []string{label}, nil)
}

func toldOf(c *chore) *ledger.Told {
	return &ledger.Told{Ref: ledger.Ref(c.ref), Key: c.mark.Reason.Key()}
}

// handedOf records what a person now looks at, so that it does not count again when they send it back.
func handedOf(c *chore) *ledger.Handed {
	h := &ledger.Handed{Ref: ledger.Ref(c.ref)}
	if c.mark.Reason.Code == threads.TooManyRounds {
		switch c.mark.Item.Cause {
		case threads.CauseCI:
			h.Fixes = true
		case threads.CauseChanges:
			h.Rounds = c.mark.Reason.Count
		}
	}
	return h
}
