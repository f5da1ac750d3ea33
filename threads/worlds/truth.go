package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// This file describes what really prevents work, and since when. It follows the design and not the rules of threads,
// so that the two can disagree.
//
// The facts behind a plan are some seconds old, and a plan is not wrong because of later changes. So an obstacle
// counts against a start only if it has existed without a break since before the scan was requested: then every
// request of that scan has seen it.

// issueObstacle is one obstacle to work on an issue.
type issueObstacle struct {
	words  string // completes "it is ..."
	stands func(*server, *issue) bool
	// plant gives the obstacle to a new issue; nil if labels, convoys or events of a world do.
	plant func(*world, *issue)
}

// issueClosed and issueUncleared are the indexes of two rows.
var issueClosed, issueUncleared = rowOf("closed"), rowOf(uncleared)

// uncleared is the obstacle of an issue that waits for a plan. It does not prevent a session that writes the plan.
const uncleared = "without an approved plan"

func rowOf(words string) int {
	return slices.IndexFunc(issueObstacles, func(o issueObstacle) bool { return o.words == words })
}

var issueObstacles = []issueObstacle{
	{"closed", func(_ *server, is *issue) bool { return is.Closed }, nil},
	{
		"not in the backlog",
		func(_ *server, is *issue) bool { return !is.Has(forge.LabelBacklog) }, nil,
	},
	{
		"labelled so that no agent works on it",
		func(_ *server, is *issue) bool { return forge.SkipLabel(is.Labels) != "" }, nil,
	},
	{uncleared, (*server).uncleared, func(w *world, is *issue) {
		w.forge.label(is, forge.LabelPlanFirst, "")
	}},
	{"assigned to a person", (*server).ofPerson, func(w *world, is *issue) {
		is.Assignees = []string{oneOf(w, "ada", "bot-east", w.anyLogin())}
	}},
	{"claimed by another host", (*server).ofBot, nil},
	// A session works on it, or a claim is left over.
	{"claimed", func(_ *server, is *issue) bool { return is.Has(forge.LabelInProgress) }, nil},
	{"in work as a pull request", (*server).inWork, nil},
	{"merged already", (*server).mergedSince, nil},
	{"rejected by a person", (*server).rejected, nil},
	{"in a repository with a branch named fix", func(s *server, is *issue) bool { return s.repo(is.Repo).fixed }, nil},
	{"filed twice by agents", (*server).filedTwice, nil},
	{"in a staged convoy", func(s *server, is *issue) bool { return s.staged[is.Ref] }, nil},
	{"blocked", (*server).blocked, func(w *world, is *issue) {
		is.secret = true // only its author may read it
		w.forge.depend(w.forge.file(w.forge.repo(is.Repo), forge.LabelBacklog), is.Ref)
	}},
}

type pullObstacle int

const (
	pullClosed pullObstacle = iota
	pullDraft
	pullSkipped
	pullNotGreen // its checks are red or running
	pullUnapproved
	pullObjected // a person's request for changes stands, on any head
	pullConflicts
	pullJudged    // a verdict on the head stands: no review is needed
	pullContented // nothing to fix: no rework is needed
	pullStranger  // not opened by one of our agents
	pullClaimed
	pullUninvited // by a stranger, and no person has requested a review
	pullUnwanted  // each of its issues is done without it
	pullStray     // of one of our agents, with a base that we do not merge into
	pullAstray    // of any account, with such a base
	pullUnplanned // of one of our agents, for an issue whose plan waits
	pullLanded    // of one of our agents, approved, and all of it is in its base
	pullUnshown   // its reviewer was not shown this head whole
	pullOutside   // of one of our agents, opened outside a session on its issue
	pullReplaced  // of one of our agents, and another for its issue was handed in later
	pullObstacles
)

var pullObstacleNames = [pullObstacles]string{
	"closed", "a draft", "labelled so that no agent works on it", "not green", "not approved", "objected to by a person",
	"in conflict", "judged already", "in order", "not ours", "claimed",
	"not asked for", "for issues that are done", "for another branch", "for another branch",
	"for an issue without an approved plan", "merged by half", "too big to review",
	"opened outside a session on its issue", "not the last for its issue",
}

// settle updates the obstacles after a change.
func (s *server) settle() {
	if !s.dirty {
		return
	}
	s.dirty = false
	s.staged = s.stagedMembers()
	for _, r := range s.repos {
		for _, is := range r.issues {
			if is.obstacle == nil {
				is.obstacle = make([]time.Time, len(issueObstacles))
			}
			for o := range issueObstacles {
				setSince(&is.obstacle[o], issueObstacles[o].stands(s, is), s.w.Now)
			}
		}
		for _, p := range r.pulls {
			now := s.pullObstacles(p)
			for o, stands := range now {
				setSince(&p.obstacle[o], stands, s.w.Now)
			}
		}
	}
}

func setSince(since *time.Time, stands bool, now time.Time) {
	switch {
	case !stands:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// stood reports whether an obstacle has existed since before a moment.
func stood(since, before time.Time) bool { return !since.IsZero() && !since.After(before) }

func (s *server) ofPerson(is *issue) bool {
	return slices.ContainsFunc(is.Assignees, func(login string) bool { return !s.w.ours(login) && !s.w.bot(login) })
}

func (s *server) ofBot(is *issue) bool { // an account that is both is ours
	return slices.ContainsFunc(is.Assignees, func(login string) bool { return !s.w.ours(login) && s.w.bot(login) })
}

// somePull reports whether a pull request for the issue fits.
func (s *server) somePull(is *issue, fits func(*pull) bool) bool {
	return slices.ContainsFunc(s.repo(is.Repo).pulls, func(p *pull) bool {
		return slices.Contains(p.Closes, is.Ref) && fits(p)
	})
}

func (s *server) inWork(is *issue) bool {
	return s.somePull(is, func(p *pull) bool { return !p.Closed })
}

func (s *server) mergedSince(is *issue) bool {
	return s.somePull(is, func(p *pull) bool { return p.Merged && p.Ended.After(is.Reopened) })
}

func (s *server) rejected(is *issue) bool {
	return s.somePull(is, func(p *pull) bool {
		byPerson := p.Closed && !p.Merged && !s.w.ours(p.ClosedBy) && !s.w.bot(p.ClosedBy)
		since := p.Ended.After(is.Reopened) && p.Ended.After(s.w.shell.books.Chain(is.Ref).Retried)
		return byPerson && s.w.ours(p.Author) && since
	})
}

// filedTwice reports whether agents had an issue with the same title when one of them filed this. It stands until a
// person is asked, says retry, or a session has begun.
func (s *server) filedTwice(is *issue) bool {
	agents := func(login string) bool { return s.w.ours(login) || s.w.bot(login) }
	past := s.w.shell.books.Chain(is.Ref)
	if !agents(is.Author) || !is.marked.IsZero() || !past.Retried.IsZero() || len(is.writers) > 0 {
		return false
	}
	return slices.ContainsFunc(s.repo(is.Repo).issues, func(o *issue) bool {
		same := o.Number < is.Number && o.Title == is.Title && agents(o.Author)
		return same && (!o.Closed || is.Created.Sub(o.Ended) < time.Hour)
	})
}

func (s *server) blocked(is *issue) bool {
	return slices.ContainsFunc(is.deps, func(d forge.Ref) bool { return s.blocker(is, d) != forge.BlockerClosed })
}

// stagedMembers returns the members of staged convoys.
func (s *server) stagedMembers() map[forge.Ref]bool {
	members := make(map[forge.Ref]bool)
	for _, r := range s.repos {
		for _, is := range r.issues {
			if !is.Closed && is.Has(forge.LabelConvoy) && is.Has(forge.LabelStaged) {
				for _, d := range is.deps {
					members[d] = true
				}
			}
		}
	}
	return members
}

// blocker returns the state of a blocker.
func (s *server) blocker(of *issue, ref forge.Ref) forge.BlockerState {
	is := s.issue(ref)
	switch {
	case ref == of.Ref:
		return forge.BlockerOpen
	case is == nil:
		return forge.BlockerMissing
	case is.secret:
		return forge.BlockerUnreadable
	case !is.Closed:
		return forge.BlockerOpen
	case is.Has(forge.LabelCancelled):
		return forge.BlockerCancelled
	case s.w.cfg.Forge.RequireMerged && !s.merged(is):
		return forge.BlockerUnmerged
	}
	return forge.BlockerClosed
}

// merged reports whether a pull request for the issue was ever merged.
func (s *server) merged(is *issue) bool {
	return s.somePull(is, func(p *pull) bool { return p.Merged })
}

// mergedBy reports whether the pull request that a session waits for was merged before a moment, and recently enough
// for the client to show it.
func (s *server) mergedBy(session *threads.Session, before time.Time) bool {
	merged := func(p *pull) bool {
		return p.Merged && p.Ended.After(session.Started) && p.Ended.Before(before) && s.w.Now.Sub(p.Ended) < keepEnded
	}
	if p := s.pull(session.Item.Ref); p != nil {
		return merged(p) && s.w.attends(session.Role)
	}
	return slices.ContainsFunc(s.repo(session.Item.Ref.Repo).pulls, func(p *pull) bool {
		return merged(p) && p.Author == s.w.logins[session.Agent] && slices.Contains(p.Closes, session.Item.Ref)
	})
}

func (s *server) pullObstacles(p *pull) (now [pullObstacles]bool) {
	v := s.verdicts(&p.Pull, s.authors(p), false)
	now[pullClosed] = p.Closed
	now[pullDraft] = p.Draft
	now[pullSkipped] = forge.SkipLabel(p.Labels) != ""
	now[pullNotGreen] = p.CI == forge.CIPending || p.CI == forge.CIFailure
	now[pullUnapproved] = !v.approved || v.changes
	now[pullObjected] = v.objected
	now[pullConflicts] = p.conflict
	now[pullStranger] = !s.w.everOurs(p.Author)
	now[pullUninvited] = p.Author == stranger && !p.Has("review")
	now[pullClaimed] = p.Has(forge.LabelInProgress)
	now[pullUnwanted] = s.w.ours(p.Author) && allOf(p.Closes, func(ref forge.Ref) bool { return s.doneWithout(p, ref) })
	// Suspects count as authors: the factory cannot always exclude them, and may request one review too many.
	now[pullJudged] = v.changes || s.verdicts(&p.Pull, s.suspects(p), true).approved
	now[pullAstray] = !s.w.target(p.Base)
	now[pullLanded] = p.Contained && s.w.ours(p.Author) && !now[pullUnapproved]
	now[pullUnplanned] = s.unplannedPull(p)
	now[pullUnshown] = slices.Equal(p.unshown, []string{p.HeadSHA, p.Base})
	now[pullOutside], now[pullReplaced] = s.outside(p), s.replaced(p)
	now[pullStray] = now[pullAstray] && s.w.ours(p.Author)
	now[pullContented] = !v.changes && p.CI != forge.CIFailure && !p.conflict
	return now
}

// mergeable returns what prevents a merge at this very moment. The supervisor reads only the pull request again, so
// an issue may have been closed since the scan.
func (s *server) mergeable(p *pull) error {
	if p.Merged {
		return nil
	}
	now := s.pullObstacles(p)
	for _, o := range needs["merge"] {
		if now[o] && o != pullUnwanted && o != pullConflicts {
			return fmt.Errorf("%s is %s", p.Ref, pullObstacleNames[o])
		}
	}
	return nil
}

// doneWithout reports whether an issue is closed, or was merged by another pull request.
func (s *server) doneWithout(p *pull, ref forge.Ref) bool {
	is := s.issue(ref)
	return is != nil && (is.Closed || slices.ContainsFunc(s.repo(ref.Repo).pulls, func(o *pull) bool {
		return o != p && o.Merged && o.Ended.After(is.Reopened) && slices.Contains(o.Closes, ref)
	}))
}

// verdict sums up the standing reviews of a pull request.
type verdict struct {
	changes  bool // a reviewer requests changes on this head
	approved bool // a permitted reviewer has approved this head
	objected bool // a person's request for changes stands
}

// target reports whether pull requests to a branch are merged.
func (w *world) target(branch string) bool {
	return branch == "main" || slices.Contains(w.cfg.Forge.Bases, branch)
}

// verdicts evaluates the reviews of a pull request. An approval by one of our agents counts if a review session gave
// it for this head, base and merge base; sure excludes approvals that the supervisor cannot be sure of. Another
// account's approval counts if it is newer than the last change of the base.
func (s *server) verdicts(p *forge.Pull, authors []string, sure bool) (v verdict) {
	w, given := s.w, s.pull(p.Ref).vouched
	for i := range p.Reviews {
		r := &p.Reviews[i]
		agent := w.ours(r.Author) || w.bot(r.Author)
		counts := !r.Dismissed && r.Verdict != forge.Commented && r.Author != p.Author && (r.Official || agent)
		if !counts || answered(p, i) {
			continue
		}
		onHead := r.CommitSHA == p.HeadSHA
		v.changes = v.changes || onHead && r.Verdict == forge.ChangesRequested
		v.objected = v.objected || !agent && r.Verdict == forge.ChangesRequested
		proper := r.Submitted.After(p.Retargeted) && !(w.bot(r.Author) && slices.Contains(p.Coders, r.Author)) &&
			!slices.Contains(authors, r.Author)
		if a := w.cfg.AgentByLogin(r.Author); a != nil {
			proper = !w.unpaired(r.Author, authors) && slices.ContainsFunc(given, func(g vouch) bool {
				return g == vouch{a.Name, p.HeadSHA, p.Base, p.MergeBase, g.sure} && (g.sure || !sure)
			})
		}
		v.approved = v.approved || onHead && r.Verdict == forge.Approved && proper
	}
	return v
}

// answered reports whether the same reviewer gave a newer verdict.
func answered(p *forge.Pull, i int) bool {
	return slices.ContainsFunc(p.Reviews[i+1:], func(r forge.Review) bool {
		return r.Author == p.Reviews[i].Author && !r.Dismissed && r.Verdict != forge.Commented
	})
}

// authors returns the agents that really wrote to a pull request: its opener, the accounts of its commits, and the
// agents of sessions on it or on the issue whose branch it is.
func (s *server) authors(p *pull) []string {
	list := slices.Clone(p.writers)
	for _, login := range append(slices.Clone(p.Coders), p.Author) {
		if a := s.w.cfg.AgentByLogin(login); a != nil {
			list = append(list, a.Name)
		}
	}
	if is := s.issue(p.home); is != nil {
		list = append(list, is.writers...)
	}
	return list
}

// suspects returns the authors and every agent that worked on one of the issues.
func (s *server) suspects(p *pull) []string {
	list := s.authors(p)
	for _, other := range s.repo(p.Repo).pulls {
		for _, ref := range other.Closes {
			if slices.Contains(p.Closes, ref) {
				list = append(list, other.writers...)
				if is := s.issue(ref); is != nil { // an agent may name a pull request instead
					list = append(list, is.writers...)
				}
			}
		}
	}
	return list
}

// unpaired reports whether an account must not review the work of these agents: no agent reviews its own work, and no
// local model reviews a local model's.
func (w *world) unpaired(login string, authors []string) bool {
	a := w.cfg.AgentByLogin(login)
	return a != nil && (slices.Contains(authors, a.Name) || w.local(a.Name) && slices.ContainsFunc(authors, w.local))
}

// everOurs reports whether an account is or was one of our agents.
func (w *world) everOurs(login string) bool { return slices.Contains(w.accounts, login) }

func (w *world) ours(login string) bool { return w.cfg.AgentByLogin(login) != nil }
func (w *world) bot(login string) bool  { return slices.Contains(w.cfg.Forge.Bots, login) }

// elsewhere reports whether an account's claim is not ours: it is another host's, or an agent's with only scheduled
// roles, which never claims.
func (w *world) elsewhere(login string) bool {
	a := w.cfg.AgentByLogin(login)
	return w.bot(login) || a != nil && !w.does(a, agents.OnIssue) && !w.does(a, agents.OnReview)
}

// local reports whether an agent runs on a local model. A removed agent counts as local.
func (w *world) local(agent string) bool {
	a := w.cfg.Agent(agent)
	return a == nil || w.cfg.Thread(a.Thread).Backend == threads.Local
}
