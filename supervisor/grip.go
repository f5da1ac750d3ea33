package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// grip keeps items from being decided on while we write to them, and after that until a scan that began later shows
// what was written. That is the stale-facts rule.
type grip struct {
	b    *books
	refs []forge.Ref
}

// grip takes hold of an issue or pull request and of its whole chain.
func (b *books) grip(item forge.Ref) *grip {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gripLocked(b.relatedLocked(item))
}

func (b *books) gripLocked(refs []forge.Ref) *grip {
	for _, r := range refs {
		b.busy[r]++
	}
	return &grip{b, refs}
}

// letGo ends the grip and returns the time that facts have to be newer than. It may be repeated.
func (g *grip) letGo() time.Time {
	g.b.mu.Lock()
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

// relatedLocked returns an issue or pull request with its chain, sorted: the issues that a pull request is for, and all
// pull requests of those. Scheduled work, which has no number, has none.
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
