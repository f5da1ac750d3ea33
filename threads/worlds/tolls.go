package worlds

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// tolls count, without the ledger, what agents make the factory spend: the sessions on each issue and its pull requests
// since a person's last retry, and each day those on what an agent or a stranger opened.
type tolls struct {
	issues   map[forge.Ref]int
	accounts map[string]int // of the day
	day      int64          // since 1970
}

func newTolls() *tolls {
	return &tolls{issues: make(map[forge.Ref]int), accounts: make(map[string]int)}
}

// mostSessions is the number in docs/money.md: two sessions for the work and for the review of each round and each CI
// fix, and two for the first of both; and twice five failures.
func (w *world) mostSessions() int {
	return 2*(1+w.cfg.Forge.MaxReviewRounds+w.cfg.Forge.MaxCIFixes) + 2*5
}

// began counts a session whose program starts, and checks that it is within both bounds.
func (t *tolls) began(w *world, r *run) {
	r.issue, r.opener = w.charged(r)
	if today := w.Now.Unix() / secondsOfDay; today != t.day {
		t.day, t.accounts = today, make(map[string]int)
	}
	if r.issue != (forge.Ref{}) {
		t.issues[r.issue]++
	}
	if r.opener != "" {
		t.accounts[r.opener]++
	}
	switch {
	case t.issues[r.issue] > w.mostSessions() && r.issue != (forge.Ref{}):
		err := fmt.Errorf("%s is session %d of %s", r, t.issues[r.issue], r.issue)
		w.fail("an issue has a bounded number of sessions without a person's retry", err)
	case t.accounts[r.opener] > w.cfg.Forge.MaxSessionsDay && r.opener != "":
		err := fmt.Errorf("%s is session %d of the day on what %s opened", r, t.accounts[r.opener], r.opener)
		w.fail("an agent or stranger causes a bounded number of sessions a day", err)
	}
}

// charged returns the issue and the account for which a session counts. Reviews of people's pull requests count for
// the person by the hour, and scheduled work runs by the clock.
func (w *world) charged(r *run) (issue forge.Ref, opener string) {
	if r.Item.Kind == agents.KindSchedule {
		return issue, ""
	}
	root, p := r.Item.Ref, w.forge.pull(r.Item.Ref)
	if p != nil {
		root, opener = p.home, p.Author
	}
	is := w.forge.issue(root)
	if is != nil {
		opener = is.Author
	}
	if is != nil && (p == nil || w.ours(p.Author) || w.bot(p.Author)) {
		issue = root
	}
	if !w.ours(opener) && !w.bot(opener) && (is != nil || opener != stranger) {
		opener = ""
	}
	return issue, opener
}

// ended takes back a session that says nothing about the work.
func (t *tolls) ended(w *world, r *run, out agents.Outcome) {
	byPerson := r.stopped == threads.StopCancelled || r.stopped == threads.StopReleased
	silent := out.Result == agents.Cancelled && byPerson || slices.Contains([]agents.Result{
		agents.Limited, agents.BackendDown, agents.Unanswered, agents.Killed, agents.TokenRejected,
	}, out.Result)
	if !silent {
		return
	}
	t.issues[r.issue]--
	if r.began.Unix()/secondsOfDay == t.day {
		t.accounts[r.opener]--
	}
}

// retried forgets what a person wants to see again.
func (t *tolls) retried(ref forge.Ref, opener string) {
	delete(t.issues, ref)
	delete(t.accounts, opener)
}

// outside reports whether one of our agents opened a pull request although it had no session on its issue, and no
// person asked for a review. Scheduled work has no issue.
func (s *server) outside(p *pull) bool {
	a := s.w.cfg.AgentByLogin(p.Author)
	if a == nil || p.older || s.wanted(p) || s.w.does(a, agents.OnSchedule) {
		return false
	}
	return !slices.Contains(s.hands[p.home], a.Name)
}

// wanted reports whether somebody with write access asked for work on a pull request.
func (s *server) wanted(p *pull) bool {
	return p.Has(forge.LabelReview) || p.retried || slices.ContainsFunc(p.Reviews, func(r forge.Review) bool {
		person := !s.w.ours(r.Author) && !s.w.bot(r.Author)
		return person && r.Official && !r.Dismissed && r.Verdict != forge.Commented
	})
}

// replaced reports whether our agents handed in another pull request for the same issue later.
func (s *server) replaced(p *pull) bool {
	if !s.w.ours(p.Author) || s.wanted(p) {
		return false
	}
	return slices.ContainsFunc(s.openPulls(s.repo(p.Repo)), func(o *pull) bool {
		a := s.w.cfg.AgentByLogin(o.Author)
		return o.home == p.home && o.Created.After(p.Created) && !o.Draft && a != nil &&
			(o.older || s.w.does(a, agents.OnSchedule) || slices.Contains(s.wroteOn[o.home], a.Name))
	})
}
