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
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// The delay before a failed chore is retried. The scheduler asks for the chore again in every plan.
const (
	unansweredRest = 10 * time.Second // the forge did not answer
	refusedRest    = time.Minute      // the forge refused; doubles each time
	// mergeRest is the first delay after a refused merge. Forgejo briefly refuses merges after every push and every other
	// merge.
	mergeRest = 15 * time.Second
	choreRest = 10 * time.Minute // the longest delay
	tellAfter = 3                // refusals in a row, after three minutes, before a person is told
)

// ActMerge is the action of a merge. A plan lists merges apart from its Marks.
const ActMerge threads.Action = "merge"

// A plan's Marks never have these actions either.
const (
	actCancel threads.Action = "cancel" // label an item that a person cancelled, and release its claim
	actSteal  threads.Action = "steal"  // move an issue from a busy agent to an idle one
)

// choreKey identifies a chore, so that no two ticks do the same chore at once.
type choreKey struct {
	action threads.Action
	ref    forge.Ref
	head   string // of a merge or an update: after a push it is another chore
}

func (k choreKey) compare(other choreKey) int {
	if c := k.ref.Compare(other.ref); c != 0 {
		return c
	}
	return strings.Compare(string(k.action)+k.head, string(other.action)+other.head)
}

// chore is one change of the forge that belongs to no session: a merge, a mark such as a label or a released claim, a
// cancel or a steal. It is under way, or it failed and waits for a retry.
type chore struct {
	// The order. It does not change once the chore is under way.
	choreKey
	mark    threads.Mark // zero for a merge, a cancel and a steal
	base    string       // of a merge: the branch
	hold    threads.Key  // the item that cools down after a refusal
	tag     string
	login   string          // the account whose claim is released, or to which the issue goes
	from    string          // the account that loses the issue; empty for none
	failure threads.Attempt // the last attempt, if agents gave up on the item
	refused time.Time       // when an agent refused the item
	handed  int             // earlier hand-overs to a person
	write   *itemWrite
	steal   *ledger.Steal
	// dialogue is a copy of the item's question or plan, and filers reports whether the author may answer.
	dialogue threads.Dialogue
	filers   bool

	// The result, owned by the goroutine that does the chore.
	did  []string // the completed steps of a cancel, for its report
	said string   // the log line of success, if actions has none
	// chain is the chain of a pull request that the chore merges.
	chain forge.Ref

	// The mutex of the state guards the following fields.
	working  bool
	retryAt  time.Time
	failures int    // refusals in a row
	failed   string // the last error
}

// choresLocked returns the plan's chores that are neither under way nor waiting for a retry. Chores belong to no
// thread: the first tick that sees them does them.
func (st *state) choresLocked(plan *threads.Plan, now time.Time) []*chore {
	wanted := make(map[choreKey]*chore)
	want := func(c *chore) { wanted[c.choreKey] = c }
	for _, m := range plan.Merges {
		want(&chore{choreKey: choreKey{ActMerge, m.Ref, m.HeadSHA}, hold: m.Key(), base: m.Base})
	}
	for _, m := range plan.Marks {
		c := &chore{choreKey: choreKey{m.Action, m.Ref, ""}, mark: m, hold: m.Key()}
		if m.Action == threads.ActUpdate {
			c.head, c.base = m.Item.HeadSHA, m.Item.Base
		}
		want(c)
	}
	for _, item := range st.ledger.Select(cancelled) {
		if st.sessionOnLocked(item) == nil { // a session must end first
			want(cancelChore(item))
		}
	}
	for item, r := range st.ledger.Steals { // these may or may not have happened
		want(&chore{choreKey: choreKey{actSteal, item, ""}, steal: &r})
	}
	for k, c := range st.chores {
		if wanted[k] == nil && !c.working && now.After(c.retryAt.Add(choreRest)) {
			delete(st.chores, k)
		}
	}
	var list []*chore
	for _, k := range slices.SortedFunc(maps.Keys(wanted), choreKey.compare) {
		switch old := st.chores[k]; {
		case old == nil || !old.working && !now.Before(old.retryAt):
			list = append(list, st.choreLocked(wanted[k], old))
		case !old.working:
			st.plan.wake(old.retryAt)
		}
	}
	return list
}

func cancelChore(item forge.Ref) *chore { return &chore{choreKey: choreKey{actCancel, item, ""}} }

func stealChore(instance string, m threads.Move) *chore {
	return &chore{choreKey: choreKey{actSteal, m.Ref, ""}, steal: &ledger.Steal{
		Ref: ledger.Ref(m.Ref), Run: journal.NewRun(instance), From: m.From, To: m.To,
		FromLogin: m.FromLogin, ToLogin: m.ToLogin,
	}}
}

// choreLocked starts a chore. old is its last attempt; nil for the first.
func (st *state) choreLocked(c, old *chore) *chore {
	if old != nil {
		c.failures, c.failed = old.failures, old.failed
	}
	c.working = true
	c.tag = "[" + wordsOf(st.cfg, c.ref, "") + "]"
	c.login = st.loginLocked(c.mark.Agent, c.ref)
	if c.mark.From != "" {
		c.from = st.loginLocked(c.mark.From, c.ref)
	}
	c.failure = st.ledger.Chain(c.mark.Item.Chain).Attempt(c.mark.Item.Kind)
	c.refused, c.handed = st.ledger.Chain(c.ref).RefusedAt, st.ledger.Chain(c.ref).Handed
	if d := st.ledger.Chain(c.ref).Dialogue; d != nil {
		c.dialogue, c.filers = *d, st.cfg.Forge.AnswersAuthor
	}
	refs := st.relatedLocked(c.ref)
	if c.action == ActMerge { // the write covers all its pull requests: the merge moves their base
		refs = append(refs, forge.Ref{Repo: c.ref.Repo})
	}
	c.write = st.beginWriteLocked(refs)
	st.chores[c.choreKey] = c
	return c
}

// loginLocked returns the account behind a claim, even if its agent is no longer configured.
func (st *state) loginLocked(agent string, item forge.Ref) string {
	if a := st.cfg.Agent(agent); a != nil {
		return a.Login
	}
	if login := st.ledger.Chain(item).Login; login != "" {
		return login
	}
	return agent
}

// choreDone records a chore's result. A failure is logged once, not at each retry. The first conflict of a merge is
// not logged: Forgejo reports one for a second or two after a push.
func (st *state) choreDone(c *chore, row action, err error) notice {
	st.lockToChange()
	defer st.mu.Unlock()
	c.working = false
	if err == nil {
		delete(st.chores, c.choreKey)
		person := c.action == threads.ActBlocked || c.action == threads.ActNeedsHuman
		return notice{warn: person, words: c.tag + " " + cmp.Or(c.said, row.done)}
	}
	c.retryAt = time.Now().Add(c.rest(err))
	_, refusal := errors.AsType[*forge.Refusal](err) // the journal has it, with its own time
	if errors.Is(err, forge.ErrConflict) && !refusal && c.hold != (threads.Key{}) {
		ledger.Entry(st.ledger.Items, c.hold).CoolDown = c.retryAt
	}
	if was := c.failed; was == text(err) || c.action == ActMerge && errors.Is(err, forge.ErrConflict) && c.failures == 1 {
		return notice{}
	}
	c.failed = text(err)
	words := fmt.Sprintf("%s cannot %s, tried again: %s", c.tag, row.verb, text(err))
	return notice{warn: errors.Is(err, forge.ErrForbidden), words: words}
}

// rest returns the delay after a failure, and counts refusals.
func (c *chore) rest(err error) time.Duration {
	if errors.Is(err, forge.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return unansweredRest
	}
	rest := refusedRest
	if c.action == ActMerge {
		rest = mergeRest
	}
	c.failures++
	return restAfter(rest, c.failures)
}

// restAfter returns the rest after a number of refusals in a row.
func restAfter(first time.Duration, refusals int) time.Duration {
	return min(first<<min(refusals-1, 6), choreRest)
}

// action is one kind of chore.
type action struct {
	verb string                     // follows "cannot" in the log line of a failure
	done string                     // the log line of success, unless the chore sets its own
	do   func(*clerk, *chore) error // does the I/O; idempotent
}

// cancelLocked ends the sessions on items that a person cancelled, and starts the chores that finish the cancel on the
// forge, except chores already under way.
func (st *state) cancelLocked(items []forge.Ref) (chores []*chore, sessions []*session) {
	sessions = st.endLocked(items, threads.StopCancelled)
	for _, item := range items {
		c := cancelChore(item)
		if old := st.chores[c.choreKey]; old == nil || !old.working {
			chores = append(chores, st.choreLocked(c, old))
		}
	}
	return chores, sessions
}

// cancelLeft returns why a cancel is not on the forge yet; empty if it is.
func (st *state) cancelLeft(c *chore) string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.ledger.Chain(c.ref).Cancel {
		return ""
	}
	return c.failed
}

// cancelling reports whether a cancel of one of the items is being written now.
func (st *state) cancelling(items []forge.Ref) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.ContainsFunc(items, func(item forge.Ref) bool {
		c := st.chores[cancelChore(item).choreKey]
		return c != nil && c.working
	})
}

// wakeChores makes failed chores on some items due now.
func (st *state) wakeChores(items []forge.Ref) {
	st.lockToChange()
	defer st.mu.Unlock()
	maps.DeleteFunc(st.chores, func(k choreKey, c *chore) bool { return !c.working && slices.Contains(items, k.ref) })
}

// stealing reports whether the journal has an unfinished steal of an issue.
func (st *state) stealing(item forge.Ref) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	_, noted := st.ledger.Steals[item]
	return noted
}

// cancelled reports whether a person cancelled a chain and the label is not written yet.
func cancelled(c *threads.ChainHistory) bool { return c.Cancel }
