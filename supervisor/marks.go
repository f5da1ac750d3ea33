package supervisor

import (
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

// How long a merge or mark that the forge did not take rests. The scheduler asks for it again in every plan.
const (
	unansweredRest = 10 * time.Second // the forge did not answer
	refusedRest    = time.Minute      // in this state, or never for our account; doubled each time
	// mergeRest is the first rest of a refused merge. Forgejo refuses for a moment after every push and every other merge.
	mergeRest = 15 * time.Second
	choreRest = 10 * time.Minute // what doubling ends at
)

const actMerge threads.Action = "merge"

// choreKey names a merge or mark, so that no two ticks do the same one at a time.
type choreKey struct {
	action threads.Action
	ref    forge.Ref
	head   string // of a merge: after a push it is another one
}

// chore is a merge or mark under way, or one that failed and rests. It is guarded by the supervisor's mu but for what do
// needs, which is not changed.
type chore struct {
	choreKey
	mark    threads.Mark // of everything but a merge
	hold    threads.Key  // what Decide is kept from asking again by, after a refusal
	tag     string
	login   string          // whose claim is released
	failure threads.Attempt // the last attempt's, of an item that gave up
	refused time.Time       // when an agent refused the item
	grip    *grip
	did     []string // of a cancel, in words
	steal   *ledger.Steal
	said    string // of the end of a convoy, what became of it

	working  bool
	retryAt  time.Time
	failures int    // in a row
	failed   string // how it failed the last time
}

// choresLocked picks the merges and marks of a plan that nobody is at. Whatever tick sees them first does them: they
// belong to no thread.
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
	for _, c := range s.cancelsLocked() {
		wanted[c.choreKey] = c
	}
	for _, c := range s.stealsLocked() {
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

// choreLocked begins a chore. old is its last attempt, nil when there was none.
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

// choreRefsLocked is what a chore writes to. A merge moves the base of every pull request of its repository, for which the
// repository itself stands.
func (s *Supervisor) choreRefsLocked(k choreKey) []forge.Ref {
	refs := s.relatedLocked(k.ref)
	if k.action == actMerge {
		refs = append(refs, forge.Ref{Repo: k.ref.Repo})
	}
	return refs
}

// loginLocked is the account behind a claim, also when its agent is not configured any more.
func (s *Supervisor) loginLocked(agent string, item forge.Ref) string {
	if a := s.config.Agent(agent); a != nil {
		return a.Login
	}
	if login := s.history.Chain(item).Login; login != "" {
		return login
	}
	return agent
}

// do does a chore, and lets the items be decided on again when that is over.
func (s *Supervisor) do(c *chore) {
	defer s.running.Done()
	err := s.perform(c)
	touched := c.grip.letGo()
	s.mu.Lock()
	news := s.choreDoneLocked(c, err)
	s.mu.Unlock()
	s.tell(news)
	s.kickAll(touched)
	s.touchStatus()
}

// choreDoneLocked notes how it went. A failure is told once, not at every try, and a refused merge not at the first.
func (s *Supervisor) choreDoneLocked(c *chore, err error) notice {
	c.working = false
	if err == nil {
		delete(s.chores, c.choreKey)
		s.upkeep.repaired(c.action)
		return notice{words: c.tag + " " + done(c)}
	}
	c.retryAt = time.Now().Add(c.rest(err))
	if errors.Is(err, forge.ErrConflict) && c.hold != (threads.Key{}) {
		threads.Entry(s.history.Items, c.hold).CoolDown = c.retryAt
	}
	if was := c.failed; was == text(err) || c.action == actMerge && errors.Is(err, forge.ErrConflict) && c.failures == 1 {
		// The forge also refuses a merge for a second or two after a push, in the words of a conflict.
		return notice{}
	}
	c.failed = text(err)
	return notice{bad: true, words: fmt.Sprintf("%s cannot %s, tried again: %s", c.tag, verb[c.action], text(err))}
}

// rest counts a failure and says how long the chore rests after it.
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

var verb = map[threads.Action]string{
	actMerge:              "merge",
	threads.ActRelease:    "release the claim",
	threads.ActUnlabel:    "remove in-progress",
	threads.ActClose:      "close",
	threads.ActBlocked:    "label blocked",
	threads.ActNeedsHuman: "label needs-human",
	threads.ActTell:       "comment",
	threads.ActEndConvoy:  "close the convoy",
	actCancel:             "label cancelled",
	actSteal:              "move",
	threads.ActRoute:      "assign",
}

func done(c *chore) string {
	switch c.action {
	case actMerge:
		return "merged"
	case actCancel:
		return "cancelled by hand"
	case actSteal:
		return strings.Join(c.did, ", ")
	case threads.ActRoute:
		return "routed to " + c.mark.Agent
	case threads.ActRelease:
		return "claim of " + c.mark.Agent + " released"
	case threads.ActUnlabel:
		return "in-progress removed, nobody stood behind it"
	case threads.ActClose:
		return "closed, its pull request is merged"
	case threads.ActTell:
		return "told people: " + c.mark.Reason.Text()
	case threads.ActEndConvoy:
		return c.said
	}
	return "labelled " + string(c.action) + ": " + c.mark.Reason.Text()
}

// perform is the I/O of a chore.
func (s *Supervisor) perform(c *chore) error {
	switch c.action {
	case actMerge:
		err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Merge(ctx, c.ref, c.head) })
		if err == nil {
			s.events.Send(control.EventMerged, control.RefData{Repo: c.ref.Repo, Number: c.ref.Number})
		}
		return err
	case threads.ActRelease:
		err := s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Release(ctx, c.ref, c.login) })
		if err == nil {
			s.note(ledger.Record{At: time.Now(), Released: &ledger.Released{Ref: ledger.Ref(c.ref)}})
		}
		return err
	case actCancel:
		return s.cancel(c)
	case actSteal:
		return s.steal(c)
	case threads.ActRoute:
		return s.reassign(c.ref, "", c.login, "", journal.NewRun(s.instance))
	case threads.ActUnlabel:
		return s.label(c.ref, nil, []string{forge.LabelInProgress})
	case threads.ActClose:
		return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Close(ctx, c.ref) })
	case threads.ActBlocked:
		err := s.askPerson(c, forge.LabelBlocked, gaveUpComment(c))
		if err == nil {
			s.note(ledger.Record{At: time.Now(), Blocked: &ledger.Blocked{Chain: ledger.Ref(c.mark.Item.Chain), Kind: c.mark.Item.Kind}})
		}
		return err
	case threads.ActNeedsHuman:
		err := s.askPerson(c, forge.LabelNeedsHuman, needsHumanComment(c))
		if err == nil && c.mark.Reason.Code == threads.BlockerCancelled {
			s.note(ledger.Record{At: time.Now(), Told: &ledger.Told{Ref: ledger.Ref(c.ref), Key: c.mark.Reason.Key()}})
		} else if err == nil {
			s.note(ledger.Record{At: time.Now(), Handed: handedOf(c)})
		}
		return err
	case threads.ActTell:
		err := s.comment(c.ref, toldComment(c))
		if err == nil {
			s.note(ledger.Record{At: time.Now(), Told: &ledger.Told{Ref: ledger.Ref(c.ref), Key: c.mark.Reason.Key()}})
		}
		return err
	case threads.ActEndConvoy:
		return s.endConvoy(c)
	}
	return fmt.Errorf("internal error: unknown action %q", c.action)
}

// askPerson writes the comment first: the label stops the scheduler from asking for both again.
func (s *Supervisor) askPerson(c *chore, label string, words comment) error {
	if err := s.comment(c.ref, words); err != nil {
		return err
	}
	return s.label(c.ref, []string{label}, nil)
}

func (s *Supervisor) comment(item forge.Ref, words comment) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error {
		return f.Comment(ctx, item, words.key, words.body)
	})
}

func (s *Supervisor) label(item forge.Ref, add, remove []string) error {
	return s.call(s.base, callTimeout, func(ctx context.Context, f Forge) error { return f.Label(ctx, item, add, remove) })
}

// handedOf says what a person now has to look at, so that it does not count again when they send it back.
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

// kickAll wakes every loop.
func (s *Supervisor) kickAll(need time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kickAllLocked(need)
}

func (s *Supervisor) kickAllLocked(need time.Time) {
	for name := range s.kicks {
		s.kickLocked(name, need)
	}
}
