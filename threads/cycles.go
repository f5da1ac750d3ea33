package threads

import (
	"math"
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// findCycles returns, for every open issue on a dependency cycle, the shortest cycle from that issue back to itself.
// The forge refuses only pairs (A on B on A); longer circles it accepts. An issue that merely depends on a cycle is
// blocked, not on it.
func findCycles(issues []forge.Issue) map[forge.Ref][]forge.Ref {
	g := graph{edges: make(map[forge.Ref][]forge.Ref), seen: make(map[forge.Ref]int)}
	for i := range issues {
		is := &issues[i]
		if is.Closed {
			continue
		}
		for _, b := range is.Blockers {
			if b.State == forge.BlockerOpen && b.Ref != is.Ref {
				g.edges[is.Ref] = append(g.edges[is.Ref], b.Ref)
			}
		}
	}
	cycles := make(map[forge.Ref][]forge.Ref)
	for i := range issues {
		ref := issues[i].Ref
		if len(g.edges[ref]) > 0 && g.seen[ref] == 0 {
			g.visit(ref, cycles)
		}
	}
	return cycles
}

// graph is Tarjan's search for strongly connected components: linear, and it misses no cycle.
type graph struct {
	edges map[forge.Ref][]forge.Ref
	seen  map[forge.Ref]int // visiting order, from 1; finished once its component is known
	stack []forge.Ref
}

// finished is above every order, so that an edge into a known component never lowers anything.
const finished = math.MaxInt

// visit returns the smallest visiting order that ref reaches among refs still on the stack.
func (g *graph) visit(ref forge.Ref, cycles map[forge.Ref][]forge.Ref) int {
	order := len(g.seen) + 1
	g.seen[ref] = order
	g.stack = append(g.stack, ref)
	low := order
	for _, next := range g.edges[ref] {
		switch {
		case len(g.edges[next]) == 0: // it waits for nobody, so it is on no cycle
		case g.seen[next] == 0:
			low = min(low, g.visit(next, cycles))
		default:
			low = min(low, g.seen[next])
		}
	}
	if low == order {
		at := slices.Index(g.stack, ref)
		g.note(g.stack[at:], cycles)
		for _, member := range g.stack[at:] {
			g.seen[member] = finished
		}
		g.stack = g.stack[:at]
	}
	return low
}

// note records the cycles of one component; a component of one ref has none.
func (g *graph) note(members []forge.Ref, cycles map[forge.Ref][]forge.Ref) {
	if len(members) < 2 {
		return
	}
	for _, ref := range members {
		cycles[ref] = g.shortest(ref, members)
	}
}

// shortest is a breadth-first search from ref back to ref inside its component.
func (g *graph) shortest(ref forge.Ref, members []forge.Ref) []forge.Ref {
	from := map[forge.Ref]forge.Ref{}
	queue := []forge.Ref{ref}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range g.edges[at] {
			if next == ref {
				round := []forge.Ref{ref}
				for ; at != ref; at = from[at] {
					round = append(round, at)
				}
				round = append(round, ref)
				slices.Reverse(round)
				return round
			}
			if _, known := from[next]; !known && slices.Contains(members, next) {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}
