package threads

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Toll counts the sessions on a chain since a person's last retry. It belongs to the issue, and not to its pull
// requests, of which an agent can open as many as it likes: one that answered each request for changes with a new pull
// request once had 690 reviews and 690 reworks in four minutes. It outlives the issue's closing, because agents close
// and reopen issues, too.
type Toll struct {
	// Sessions counts those of every kind, running ones included, except the reviews of people's pull requests, sessions
	// that said nothing about the work, such as one without a backend, and those that a person ended by a command.
	Sessions int `json:"sessions"`
	Reviews  int `json:"reviews,omitempty"` // that gave a verdict, or were cut short by us
	Rounds   int `json:"rounds,omitempty"`  // reworks after requested changes, and conflicts that were resolved
	CIFixes  int `json:"ci_fixes,omitempty"`
}

// MaxReviews returns how many reviews the pull requests of one issue may have: the first, and one after each round and
// each fix.
func (f *Forge) MaxReviews() int { return 1 + f.MaxReviewRounds + f.MaxCIFixes }

// MaxSessions returns how many sessions an issue and its pull requests may have before a person is asked: a session of
// work for each review, and as many failures as two kinds of work may have in a row.
func (f *Forge) MaxSessions() int { return 2*f.MaxReviews() + 2*MaxAttempts }

// Toll returns the count of a chain; zero if there is none.
func (h *History) Toll(chain forge.Ref) Toll {
	if t := h.Tolls[chain]; t != nil {
		return *t
	}
	return Toll{}
}

// OpenedDay counts the sessions of a day on what an account opened.
type OpenedDay struct {
	Day      time.Time `json:"day"` // see Day
	Sessions int       `json:"sessions"`
}

// Add counts n sessions of a given time, or takes them back. After the clock went back, the later day continues.
func (o OpenedDay) Add(at time.Time, n int) OpenedDay {
	switch day := Day(at); {
	case day.After(o.Day):
		o = OpenedDay{Day: day}
	case n < 0 && day.Before(o.Day): // they are not among the later day's
		return o
	}
	o.Sessions = max(0, o.Sessions+n)
	return o
}

// sessionsLeft holds an issue and its pull requests after as many sessions as an issue may have. It follows from the
// other limits of rounds and attempts, and also bounds what resets those.
func sessionsLeft(v *view, w *work) *Reason {
	if w.Author != "" || w.role != nil || w.Kind == stageMerge {
		return nil
	}
	n, limit := v.History.Toll(w.Chain).Sessions, v.Config.Forge.MaxSessions()
	for _, s := range w.sessions { // not in the journal yet
		if s.State == Reserved && s.Item.Chain == w.Chain && s.Item.Author == "" {
			n++
		}
	}
	if n < limit {
		return nil
	}
	return &Reason{Code: TooManyRounds, Note: "worked on", Count: n}
}

// reviewsLeft reports whether the pull requests of a chain may be reviewed further. One that may not waits for a
// person, and not for a reviewer.
func (v *view) reviewsLeft(chain forge.Ref) bool {
	t, most := v.History.Toll(chain), &v.Config.Forge
	return t.Reviews < most.MaxReviews() && t.Sessions < most.MaxSessions()
}

// OpenerOf returns the account whose daily limit a session on a chain counts for: the agent or stranger that opened the
// issue, or the pull request if it is for no issue. It is empty for an account with write access that is no agent.
func (s *Snapshot) OpenerOf(chain forge.Ref, p *forge.Pull) string {
	root, stranger := s.root(chain, p)
	if stranger || s.Config.IsBot(root) || s.Config.AgentByLogin(root) != nil {
		return root
	}
	return ""
}

// root returns the account that opened a chain. stranger reports whether it is known to lack write access. A stranger's
// issue is in the backlog only because an account with write access labelled it so.
func (s *Snapshot) root(chain forge.Ref, p *forge.Pull) (login string, stranger bool) {
	if is := s.Facts.Issue(chain); is != nil {
		return is.Author, false
	}
	if p == nil {
		return "", false
	}
	return p.Author, p.Stranger
}

// OpenedBy returns how many sessions on what an account opened there were today.
func (s *Snapshot) OpenedBy(login string) int {
	if o := s.History.Opened[login]; o != nil && !o.Day.Before(Day(s.Now)) {
		return o.Sessions
	}
	return 0
}

// indexOpened copies the day's counts, so that reserved sessions, which may not be in the journal yet, count as well.
func (v *view) indexOpened() {
	v.opened = make(map[string]int, len(v.History.Opened))
	for login := range v.History.Opened {
		v.opened[login] = v.OpenedBy(login)
	}
	for i := range v.Sessions {
		if s := &v.Sessions[i]; s.State == Reserved {
			v.countOpened(s)
		}
	}
}

// countOpened counts a session of this plan for the account that opened its chain.
func (v *view) countOpened(s *Session) {
	if s.Item.Opener != "" {
		v.opened[s.Item.Opener]++
	}
}

// openerLimit bounds what an account can make us spend in a day by opening issues and pull requests.
func openerLimit(v *view, w *work) *Reason {
	if len(v.opened) == 0 || w.role != nil || w.Kind == stageMerge {
		return nil
	}
	login, stranger := v.root(w.Chain, w.pull)
	n, limit := v.opened[login], v.Config.Forge.MaxSessionsDay
	if n < limit || !stranger && !v.isAgent(login) {
		return nil
	}
	until := Day(v.Now).Add(dayLength)
	v.wake(until)
	return &Reason{Code: OpenerLimit, Note: login, Count: n, Limit: limit, Until: until}
}

// unwork returns why a pull request of our agents gets no session; nil when it does.
func (v *view) unwork(p *forge.Pull, st *stage) *Reason {
	if !st.own || p.Closed || p.Draft || st.kind == stageMerge || v.askedFor(p) {
		return nil
	}
	if !v.handedIn(p, st.chain) {
		return &Reason{Code: Unasked, Note: p.Author}
	}
	if last := v.lastOf[st.chain]; last != nil && last != p {
		return &Reason{Code: NotLast, Refs: []forge.Ref{last.Ref}}
	}
	return nil
}

// askedFor reports whether a person asked for work on a pull request of an agent: by the label review, a retry, or a
// verdict. Agents can set the label, too; the daily limit of the account that opened the chain bounds that.
func (v *view) askedFor(p *forge.Pull) bool {
	if p.Has(forge.LabelReview) || !v.History.Chain(p.Ref).Retried.IsZero() {
		return true
	}
	for i := range p.Reviews {
		r := &p.Reviews[i]
		if r.Official && !r.Dismissed && r.Verdict != forge.Commented && !v.isAgent(r.Author) {
			return true
		}
	}
	return false
}

// handedIn reports whether a pull request of our agent came from a session: the agent had one that writes on this
// chain, or does scheduled work, which has no item. What was opened before our memory begins counts as handed in,
// because a lost journal must not lose work.
func (v *view) handedIn(p *forge.Pull, chain forge.Ref) bool {
	if since, known := v.History.Listens[p.Repo]; !known || p.Created.Before(since) {
		return true
	}
	a := v.Config.AgentByLogin(p.Author)
	if a == nil { // no longer configured; a session of it made the pull request ours
		return true
	}
	if slices.Contains(v.History.Chain(chain).Writers, a.Name) {
		return true
	}
	return v.Config.Does(a, agents.KindSchedule)
}

// indexLast finds the pull request that our agents handed in last for each chain with several. Drafts are not handed
// in. After it is closed, the one before is the last.
func (v *view) indexLast() {
	v.lastOf = make(map[forge.Ref]*forge.Pull)
	for i := range v.Facts.Pulls {
		p, st := &v.Facts.Pulls[i], &v.stages[i]
		if p.Closed || p.Draft || !st.own || !v.handedIn(p, st.chain) {
			continue
		}
		if was := v.lastOf[st.chain]; was == nil || cmp.Or(was.Created.Compare(p.Created), was.Ref.Compare(p.Ref)) < 0 {
			v.lastOf[st.chain] = p
		}
	}
}

func unworked(v *view, w *work) *Reason { return v.unwork(w.pull, w.stage) }
