package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// itemWrite excludes items from decisions while the supervisor writes to them, and afterwards until a later scan shows
// the result. This is the stale-facts rule.
type itemWrite struct {
	b    *state
	refs []forge.Ref
}

// beginWrite excludes an issue or pull request, and its whole chain, from decisions until the write ends.
func (st *state) beginWrite(item forge.Ref) *itemWrite {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.beginWriteLocked(st.relatedLocked(item))
}

func (st *state) beginWriteLocked(refs []forge.Ref) *itemWrite {
	st.changedLocked()
	for _, r := range refs {
		st.busy[r]++
	}
	return &itemWrite{st, refs}
}

// end ends the write. Only facts requested after the returned time are new enough for its items. Further calls do no
// harm.
func (g *itemWrite) end() time.Time {
	g.b.lockToChange()
	defer g.b.mu.Unlock()
	now := time.Now()
	for _, r := range g.refs {
		g.b.ledger.Touched[r] = now
		if g.b.busy[r]--; g.b.busy[r] == 0 {
			delete(g.b.busy, r)
		}
	}
	g.refs = nil
	return now
}

// relatedLocked returns an issue or pull request with its chain, sorted: the issues that a pull request is for, and
// all pull requests for those. Scheduled work has no number and no chain.
func (st *state) relatedLocked(item forge.Ref) []forge.Ref {
	if item.Number == 0 {
		return nil
	}
	refs := []forge.Ref{item}
	if p := st.facts.Pull(item); p != nil {
		refs = append(refs, p.Closes...)
	}
	issues := slices.Clone(refs)
	for i := range st.facts.Pulls {
		p := &st.facts.Pulls[i]
		if slices.ContainsFunc(p.Closes, func(r forge.Ref) bool { return slices.Contains(issues, r) }) {
			refs = append(refs, p.Ref)
		}
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}
