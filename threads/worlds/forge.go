package worlds

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/sim"
)

// server is the real state of the forge. The factory sees it only through scans, which may be old.
type server struct {
	w       *world
	repos   []*repo // by name
	changed time.Time
	dirty   bool                   // something has changed since settle
	staged  map[forge.Ref]bool     // members of staged convoys, as of settle
	heads   int                    // commits so far
	said    int64                  // comments so far
	hands   map[forge.Ref][]string // by chain: the agents that were given writing sessions on it
	wroteOn map[forge.Ref][]string // by chain: those whose program started
}

type repo struct {
	name   string
	ci     bool // its commits are checked
	base   int  // version of the default branch; each merge makes a new one
	fixed  bool // it has a branch named fix, so that git cannot create fix/issue-N
	issues []*issue
	pulls  []*pull
	last   int64 // last number that was used
}

// issue is an issue with the state that the API does not show.
type issue struct {
	forge.Issue
	deps     []forge.Ref
	secret   bool        // not readable by our account
	marked   time.Time   // when we labelled it blocked or needs-human
	freed    time.Time   // when a person removed the label; zero again after a later session
	writers  []string    // agents that had a session on it
	obstacle []time.Time // since when each of issueObstacles exists without a break; zero if it does not
}

// pull is a pull request with the state that the API does not show.
type pull struct {
	forge.Pull
	home     forge.Ref // the issue whose branch it is, or the first that it closes, or itself
	keyword  bool      // its text closes its issues at the merge; a branch name alone does not
	conflict bool
	checked  time.Time // when the forge has computed conflicts of this head and base
	moved    time.Time // when its head was pushed
	heads    []string  // all its heads, the current one last
	stubborn bool      // the forge refuses to merge it: a protected branch wants a second approval
	writers  []string  // agents other than its opener that had a session on it
	vouched  []vouch   // approvals by review sessions that the supervisor saw end
	unshown  []string  // the head and base that the last review session was not shown whole
	obstacle [pullObstacles]time.Time
	older    bool // than the journal
	retried  bool // by a person
}

// vouch is an approval given in a review session.
type vouch struct {
	agent, head, base, from string
	// sure means that the base did not move between the scan that led to the session and the session's start. The
	// supervisor cannot distinguish such a move from one during the session.
	sure bool
}

func newServer(w *world) *server {
	return &server{w: w, changed: w.Now, hands: make(map[forge.Ref][]string), wroteOn: make(map[forge.Ref][]string)}
}

func (s *server) repo(name string) *repo {
	i := slices.IndexFunc(s.repos, func(r *repo) bool { return r.name == name })
	return s.repos[i]
}

func (s *server) issue(ref forge.Ref) *issue {
	r := s.repo(ref.Repo)
	i, ok := slices.BinarySearchFunc(r.issues, ref.Number, func(is *issue, n int64) int { return int(is.Number - n) })
	if !ok {
		return nil
	}
	return r.issues[i]
}

func (s *server) pull(ref forge.Ref) *pull {
	r := s.repo(ref.Repo)
	i, ok := slices.BinarySearchFunc(r.pulls, ref.Number, func(p *pull, n int64) int { return int(p.Number - n) })
	if !ok {
		return nil
	}
	return r.pulls[i]
}

// touch records that an issue or pull request changed.
func (s *server) touch(updated *time.Time) {
	*updated = s.w.Now
	s.changed, s.dirty = s.w.Now, true
}

// file opens an issue.
func (s *server) file(r *repo, labels ...string) *issue {
	r.last++
	is := &issue{Issue: forge.Issue{
		Ref: forge.Ref{Repo: r.name, Number: r.last}, Title: fmt.Sprintf("issue %d", r.last), Author: "ada",
		Created: s.w.Now,
	}}
	if r.last%3 == 0 {
		is.Author = filer
	}
	for _, l := range labels {
		is.Labels = sim.With(is.Labels, l)
	}
	r.issues = append(r.issues, is)
	s.touch(&is.Updated)
	return is
}

func (s *server) depend(is *issue, on forge.Ref) {
	if !slices.Contains(is.deps, on) {
		is.deps = append(slices.Clone(is.deps), on)
		slices.SortFunc(is.deps, forge.Ref.Compare)
		s.touch(&is.Updated)
	}
}

// stranger is an account that may not write.
const stranger = "mallory"

// open opens a pull request of an account. branch puts it on the branch of the first issue that it closes.
func (s *server) open(r *repo, login string, branch bool, closes ...forge.Ref) *pull {
	r.last++
	ref := forge.Ref{Repo: r.name, Number: r.last}
	p := &pull{home: ref, keyword: s.w.chance(0.8), stubborn: s.w.trouble(0.02), Pull: forge.Pull{
		Ref: ref, Title: fmt.Sprintf("pull %d", r.last), Author: login, Created: s.w.Now, Base: "main", HeadRepo: r.name,
		Head: "topic", Closes: closes, Stranger: login == stranger, Coders: []string{login},
	}}
	if len(closes) > 0 {
		p.home = closes[0]
		if branch {
			p.Head = fmt.Sprintf("fix/issue-%d", p.home.Number)
		}
		slices.SortFunc(p.Closes, forge.Ref.Compare)
		if !branch {
			p.home = p.Closes[0]
		}
	}
	if s.w.trouble(0.03) {
		p.Base = oneOf(s.w, "release", "evil")
	}
	r.pulls = append(r.pulls, p)
	s.push(p, login)
	return p
}

// retarget changes the base branch of a pull request.
func (s *server) retarget(p *pull, base string) {
	p.Base, p.Retargeted, p.Contained = base, s.w.Now, false
	p.MergeBase = base + p.MergeBase[strings.Index(p.MergeBase, "/"):]
	s.recheck(p)
	s.touch(&p.Updated)
}

// push adds a commit of an account. The new head merges cleanly with the current base.
func (s *server) push(p *pull, login string) {
	s.heads++
	p.Coders = sim.With(p.Coders, login)
	s.setHead(p, fmt.Sprintf("%07x", s.heads))
}

func (s *server) setHead(p *pull, head string) {
	p.HeadSHA, p.heads = head, append(p.heads, head)
	p.MergeBase = fmt.Sprintf("%s/%d", p.Base, s.repo(p.Repo).base)
	p.moved, p.conflict, p.Contained = s.w.Now, false, false
	s.recheck(p)
	if s.repo(p.Repo).ci {
		p.CI, p.CISince = forge.CIPending, s.w.Now
		s.w.After(s.w.between(time.Minute, 8*time.Minute), func() { s.report(p, head) })
	}
	s.touch(&p.Updated)
}

// recheck makes the forge compute conflicts again, which takes up to 8 s: Forgejo took at most 3.6 s, and a conflict
// counts after threads.ConflictSettled.
func (s *server) recheck(p *pull) {
	p.checked = s.w.Now.Add(s.w.between(0, 8*time.Second))
}

// report posts the result of the checks on a head. Updated stays, because a commit status does not bump it.
func (s *server) report(p *pull, head string) {
	if p.HeadSHA != head || p.Closed {
		return
	}
	p.CI, p.CISince = forge.CISuccess, s.w.Now
	if s.w.trouble(s.w.mood.red) {
		p.CI = forge.CIFailure
	}
	s.changed, s.dirty = s.w.Now, true
	s.w.log("ci     %s %s", p.Ref, map[forge.CI]string{forge.CISuccess: "green", forge.CIFailure: "red"}[p.CI])
}

// review posts a formal review of a head.
func (s *server) review(p *pull, login, head string, v forge.Verdict, official bool) {
	r := forge.Review{
		ID: int64(len(p.Reviews) + 1), Author: login, Verdict: v, CommitSHA: head, Official: official, Submitted: s.w.Now,
	}
	p.Reviews = append(slices.Clone(p.Reviews), r)
	s.touch(&p.Updated)
}

var errRefused = fmt.Errorf("cannot merge: %w", forge.ErrConflict)

// merge merges a pull request if its head and base are still the given ones. Otherwise it refuses.
func (s *server) merge(p *pull, head, base string) error {
	switch {
	case p.Merged:
		return nil
	case p.Closed, p.HeadSHA != head, p.Base != base, p.conflict, p.Draft:
		return errRefused
	case s.w.trouble(0.05): // Forgejo briefly refuses merges after a push or another merge
		return &forge.Refusal{Cause: forge.RefusedLate, Words: "not ready"}
	case p.stubborn:
		return &forge.Refusal{Cause: forge.RefusedRule, Words: "not enough approvals"}
	}
	if s.w.trouble(0.08) { // the forge crashes after it has written the commit
		s.touch(&p.Updated)
		p.Contained = true
	} else {
		p.Merged = true
		s.end(p, "")
	}
	r := s.repo(p.Repo)
	r.base++
	for _, other := range r.pulls {
		if !other.Closed && !other.Contained {
			other.conflict = other.conflict || s.w.chance(s.w.mood.conflict)
			s.recheck(other)
		}
	}
	if p.Contained && s.w.chance(0.5) {
		return errUnavailable
	}
	for _, ref := range p.Closes {
		if is := s.issue(ref); p.keyword && is != nil {
			_ = s.close(is) // the forge does not report that it cannot close
		}
	}
	s.w.seen.Merged++
	return nil
}

func (s *server) end(p *pull, by string) {
	p.Closed, p.Ended, p.ClosedBy = true, s.w.Now, by
	s.touch(&p.Updated)
}

// close closes an issue. Like Forgejo, it refuses while a dependency that is set on the forge is open.
func (s *server) close(is *issue) error {
	if len(s.openDeps(is.Ref)) > 0 {
		return fmt.Errorf("cannot close: %w", forge.ErrConflict)
	}
	if !is.Closed {
		is.Closed, is.Ended = true, s.w.Now
		s.touch(&is.Updated)
	}
	return nil
}

// openDeps returns the open issues that prevent an issue from being closed.
func (s *server) openDeps(ref forge.Ref) []forge.Ref {
	return slices.DeleteFunc(slices.Clone(s.issue(ref).deps), func(d forge.Ref) bool {
		on := s.issue(d)
		return inBody(ref, d) || on == nil || on.Closed
	})
}

// inBody reports whether a dependency is written in the issue's text, which the forge does not read. The others are
// set on the forge. The forge refuses an issue's dependency on itself.
func inBody(of, on forge.Ref) bool { return of == on || on.Number%2 == 0 }

func (s *server) reopen(is *issue) {
	is.Closed, is.Reopened, is.Ended = false, s.w.Now, time.Time{}
	s.touch(&is.Updated)
}

func (s *server) label(is *issue, add, remove string) {
	is.Labels = sim.With(sim.Without(is.Labels, remove), add)
	s.touch(&is.Updated)
}

func (s *server) labelPull(p *pull, add, remove string) {
	p.Labels = sim.With(sim.Without(p.Labels, remove), add)
	s.touch(&p.Updated)
}
