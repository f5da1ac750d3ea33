package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// grip excludes items from decisions while the supervisor writes to them, and afterwards until a later scan shows the
// result. This is the stale-facts rule.
type grip struct {
	b    *books
	refs []forge.Ref
}

// grip grips an issue or pull request and its whole chain.
func (b *books) grip(item forge.Ref) *grip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gripLocked(b.relatedLocked(item))
}

func (b *books) gripLocked(refs []forge.Ref) *grip {
	b.changedLocked()
	for _, r := range refs {
		b.busy[r]++
	}
	return &grip{b, refs}
}

// letGo ends the grip. Only facts requested after the returned time are new enough for its items. Further calls do no
// harm.
func (g *grip) letGo() time.Time {
	g.b.mu.Lock()
	defer g.b.mu.Unlock()
	g.b.changedLocked()
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
func (b *books) relatedLocked(item forge.Ref) []forge.Ref {
	if item.Number == 0 {
		return nil
	}
	refs := []forge.Ref{item}
	if p := b.facts.Pull(item); p != nil {
		refs = append(refs, p.Closes...)
	}
	issues := slices.Clone(refs)
	for i := range b.facts.Pulls {
		p := &b.facts.Pulls[i]
		if slices.ContainsFunc(p.Closes, func(r forge.Ref) bool { return slices.Contains(issues, r) }) {
			refs = append(refs, p.Ref)
		}
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return slices.Compact(refs)
}
