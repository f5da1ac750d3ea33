package worlds

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// scanner reads the forge like the real client: one scan at a time, with separate requests for the issues and the
// pull requests of each repository. Each request is answered at its own time and can fail. Facts that could not be
// read stay unchanged.
type scanner struct {
	w       *world
	life    int
	running bool
	again   bool // another scan was requested
	cold    bool // this is the first scan
	kept    map[string]*reading
	seen    map[forge.Ref]conflictSeen
}

// reading holds the client's knowledge of one repository.
type reading struct {
	asOf   time.Time // start of the last scan that read all of it
	noPush string
	issues []forge.Issue
	pulls  []forge.Pull
}

type conflictSeen struct {
	head  string
	to    string // base branch
	base  int
	since time.Time
}

func newScanner(w *world, life int) *scanner {
	return &scanner{w: w, life: life, cold: true, kept: make(map[string]*reading), seen: make(map[forge.Ref]conflictSeen)}
}

// scan starts a scan, which hands its facts to the shell when all answers have arrived.
func (sc *scanner) scan() {
	if sc.running {
		sc.again = true
		return
	}
	sc.running, sc.again = true, false
	began := sc.w.coarse()
	slow := sc.w.between(100*time.Millisecond, 4*time.Second)
	if sc.w.trouble(0.1) {
		slow *= 8
	}
	for _, r := range sc.w.forge.repos {
		sc.read(r, began, slow)
	}
	sc.w.After(slow, func() { sc.deliver() })
}

// read requests one repository. The answers for issues and pull requests come at independent times.
func (sc *scanner) read(r *repo, began time.Time, slow time.Duration) {
	halves := 0
	half := func(read func()) {
		sc.w.After(sc.w.between(0, slow), func() {
			if sc.stale() || sc.w.trouble(0.05) {
				return
			}
			read()
			if halves++; halves == 2 {
				sc.copyRepo(r).asOf = began
			}
		})
	}
	half(func() { sc.copyRepo(r).issues, sc.copyRepo(r).noPush = sc.issues(r), r.noPush() })
	half(func() { sc.copyRepo(r).pulls = sc.pulls(r) })
}

func (sc *scanner) copyRepo(r *repo) *reading {
	if sc.kept[r.name] == nil {
		sc.kept[r.name] = &reading{}
	}
	return sc.kept[r.name]
}

// stale reports whether the supervisor that started the scan is dead.
func (sc *scanner) stale() bool { return sc.life != sc.w.shell.life }

func (sc *scanner) deliver() {
	if sc.stale() {
		return
	}
	sc.running = false
	more := sc.cold
	sc.cold = false
	var f forge.Facts
	issues, pulls := 0, 0
	for _, r := range sc.w.forge.repos {
		issues, pulls = issues+len(sc.copyRepo(r).issues), pulls+len(sc.copyRepo(r).pulls)
	}
	f.Issues, f.Pulls = make([]forge.Issue, 0, issues), make([]forge.Pull, 0, pulls)
	for _, r := range sc.w.forge.repos {
		read := sc.copyRepo(r)
		f.Repos = append(f.Repos, forge.Repo{
			Name: r.name, AsOf: read.asOf, DefaultBranch: "main", NoPush: read.noPush,
		})
		f.Issues = append(f.Issues, read.issues...)
		f.Pulls = append(f.Pulls, read.pulls...)
	}
	sc.shorten(&f)
	sc.w.shell.scanned(f, more || sc.again)
}

// keepEnded is how long the client still shows an ended item, so that the supervisor sees that its session must end.
const keepEnded = time.Hour

// shorten drops items that ended more than an hour ago: unreferenced issues, and pull requests of closed issues.
func (sc *scanner) shorten(f *forge.Facts) {
	old := func(ended time.Time) bool { return sc.w.Now.Sub(ended) > keepEnded }
	referred, open := make(map[forge.Ref]bool), make(map[forge.Ref]bool)
	for i := range f.Issues {
		open[f.Issues[i].Ref] = !f.Issues[i].Closed
		for _, b := range f.Issues[i].Blockers {
			referred[b.Ref] = true
		}
	}
	f.Pulls = slices.DeleteFunc(f.Pulls, func(p forge.Pull) bool {
		return p.Closed && old(p.Ended) && !slices.ContainsFunc(p.Closes, func(ref forge.Ref) bool { return open[ref] })
	})
	for i := range f.Pulls {
		for _, ref := range f.Pulls[i].Closes {
			referred[ref] = true
		}
	}
	f.Issues = slices.DeleteFunc(f.Issues, func(is forge.Issue) bool {
		return is.Closed && old(sc.w.forge.issue(is.Ref).Ended) && !referred[is.Ref]
	})
}

// issues returns the issues of a repository that our account may read.
func (sc *scanner) issues(r *repo) []forge.Issue {
	list := make([]forge.Issue, 0, len(r.issues))
	for _, is := range r.issues {
		if is.secret {
			continue
		}
		got := is.Issue
		got.AsOf = sc.w.Now
		sc.readTalk(is.Labels, &is.Talk, &got.Talk, true)
		tracked := is.Has(forge.LabelConvoy)
		if !is.Closed && (tracked || is.Has(forge.LabelBacklog) && forge.SkipLabel(is.Labels) == "") {
			sc.dependencies(is, &got)
		}
		list = append(list, got)
	}
	return list
}

// dependencies reads an issue's dependencies, a separate request that may fail. A first scan skips many of them.
func (sc *scanner) dependencies(is *issue, got *forge.Issue) {
	if sc.cold && sc.w.chance(0.5) || sc.w.trouble(0.03) {
		return
	}
	got.BlockersKnown = true
	for _, d := range is.deps {
		b := forge.Blocker{Ref: d, State: sc.w.forge.blocker(is, d), InBody: inBody(is.Ref, d)}
		switch {
		case b.State == forge.BlockerUnreadable: // the forge does not even name the issue
			b.Ref = forge.Ref{}
		case sc.w.trouble(0.03):
			b.State = forge.BlockerUnknown
		}
		got.Blockers = append(got.Blockers, b)
	}
}

// noPush says why no agent can push the branch of an issue; empty if one can.
func (r *repo) noPush() string {
	if r.fixed {
		return r.name + " has a branch named fix"
	}
	return ""
}

// pulls reads the pull requests of a repository.
func (sc *scanner) pulls(r *repo) []forge.Pull {
	list := make([]forge.Pull, 0, len(r.pulls))
	for _, p := range r.pulls {
		got := p.Pull
		got.AsOf = sc.w.Now
		sc.readTalk(p.Labels, &p.Talk, &got.Talk, false)
		if !p.Closed {
			sc.mergeability(r, p, &got)
		}
		list = append(list, got)
	}
	return list
}

// mergeability answers like Forgejo. Until it has computed conflicts for this head and base, it reports "unknown" or
// "not clean".
func (sc *scanner) mergeability(r *repo, p *pull, got *forge.Pull) {
	got.Mergeable = forge.MergeClean
	switch {
	case p.checked.After(sc.w.Now):
		got.Mergeable = oneOf(sc.w, forge.MergeUnknown, forge.MergeNotClean)
	case p.conflict:
		got.Mergeable = forge.MergeNotClean
	}
	seen := sc.seen[p.Ref]
	if got.Mergeable != forge.MergeNotClean {
		delete(sc.seen, p.Ref)
		return
	}
	if seen.head != p.HeadSHA || seen.to != p.Base || seen.base != r.base {
		seen = conflictSeen{p.HeadSHA, p.Base, r.base, sc.w.Now}
		sc.seen[p.Ref] = seen
	}
	got.ConflictSince = seen.since
}

// fetchItem reads one item afresh, as the supervisor does after a session on it.
func (s *server) fetchItem(ref forge.Ref) forge.ItemFacts {
	var l forge.ItemFacts
	if is := s.issue(ref); is != nil {
		got := is.Issue
		l.Issue = &got
	}
	if p := s.pull(ref); p != nil {
		got := p.Pull
		l.Pull = &got
	}
	for _, p := range s.repo(ref.Repo).pulls {
		if slices.Contains(p.Closes, ref) {
			l.Pulls = append(l.Pulls, p.Pull)
		}
	}
	return l
}
