package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// grip keeps items from being decided on while we write to them, and after that until a scan that began later shows
// what was written. That is the stale-facts rule.
type grip struct {
	s    *Supervisor
	refs []forge.Ref
}

// grip takes hold of an issue or pull request and of its whole chain.
func (s *Supervisor) grip(item forge.Ref) *grip {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gripLocked(s.relatedLocked(item))
}

func (s *Supervisor) gripLocked(refs []forge.Ref) *grip {
	for _, r := range refs {
		s.busy[r]++
	}
	return &grip{s, refs}
}

// letGo ends the grip and returns the time that facts have to be newer than. It may be repeated.
func (g *grip) letGo() time.Time {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	now := time.Now()
	for _, r := range g.refs {
		g.s.history.Touched[r] = now
		if g.s.busy[r]--; g.s.busy[r] == 0 {
			delete(g.s.busy, r)
		}
	}
	g.refs = nil
	return now
}

// relatedLocked returns an issue or pull request with its chain, sorted: the issues that a pull request is for, and
// all pull requests of those. Scheduled work, which has no number, writes to none.
func (s *Supervisor) relatedLocked(item forge.Ref) []forge.Ref {
	if item.Number == 0 {
		return nil
	}
	refs := []forge.Ref{item}
	if p := s.facts.Pull(item); p != nil {
		refs = append(refs, p.Closes...)
	}
	issues := slices.Clone(refs)
	for i := range s.facts.Pulls {
		p := &s.facts.Pulls[i]
		if slices.ContainsFunc(p.Closes, func(r forge.Ref) bool { return slices.Contains(issues, r) }) {
			refs = append(refs, p.Ref)
		}
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}

// forgetLocked drops the times of writes that every fact is newer than. It returns the issues and pull requests that
// the journal can forget, because their repository was read and they are no longer in it.
func (s *Supervisor) forgetLocked() []forge.Ref {
	for r, touched := range s.history.Touched {
		if repo, known := s.facts.Repo(r.Repo); known && repo.AsOf.After(touched) && s.busy[r] == 0 {
			delete(s.history.Touched, r)
		}
	}
	var gone []forge.Ref
	for _, r := range s.history.Remembered() {
		repo, known := s.facts.Repo(r.Repo)
		read := known && !repo.AsOf.IsZero() && !s.facts.More
		unused := s.history.Chain(r).Claimed == "" && s.busy[r] == 0 && !s.hasChainLocked(r)
		if read && unused && r.Number > 0 && s.facts.Issue(r) == nil && s.facts.Pull(r) == nil {
			gone = append(gone, r)
		}
	}
	return gone
}

// hasChainLocked reports whether a session is on the issue or pull request, or on its chain.
func (s *Supervisor) hasChainLocked(r forge.Ref) bool {
	for _, x := range s.sessions {
		if x.Item.Ref == r || x.Item.Chain == r {
			return true
		}
	}
	return false
}
