package threads

import (
	"maps"
	"math"
	"slices"

	"codeberg.org/johba/disinto/forge"
)

// findCycles returns, for every open issue on a dependency cycle, the shortest cycle from that issue back to itself.
// The forge refuses pairs (A on B on A) and accepts longer cycles. An issue that depends on a cycle without being on
// it is not reported. Issues must be sorted by Ref.
func findCycles(f *forge.Facts) map[forge.Ref][]forge.Ref {
	waiting := waitingIssues(f)
	g := graph{nodes: make([]forge.Ref, len(waiting)), edges: make([][]int, len(waiting)), seen: make([]int, len(waiting))}
	for i, is := range waiting {
		g.nodes[i] = is.Ref
	}
	for i, is := range waiting {
		g.edges[i] = g.edgesOf(is)
	}
	cycles := make(map[forge.Ref][]forge.Ref)
	for i := range g.nodes {
		if len(g.edges[i]) > 0 && g.seen[i] == 0 {
			g.visit(i, func(members []int) {
				for _, m := range members {
					cycles[g.nodes[m]] = g.shortest(m, members)
				}
			})
		}
	}
	return cycles
}

// Circle returns a dependency cycle: the shortest way from the first issue on any cycle back to itself. It returns
// nil without a cycle. An issue that waits for itself is a cycle.
func Circle(waits map[forge.Ref][]forge.Ref) []forge.Ref {
	var facts forge.Facts
	for _, ref := range slices.SortedFunc(maps.Keys(waits), forge.Ref.Compare) {
		is := forge.Issue{Ref: ref}
		for _, on := range waits[ref] {
			if on == ref {
				return []forge.Ref{ref, ref}
			}
			is.Blockers = append(is.Blockers, forge.Blocker{Ref: on, State: forge.BlockerOpen})
		}
		facts.Issues = append(facts.Issues, is)
	}
	cycles := findCycles(&facts)
	for i := range facts.Issues {
		if cycle := cycles[facts.Issues[i].Ref]; cycle != nil {
			return cycle
		}
	}
	return nil
}

// waitingIssues returns the open issues with an open blocker: only those can be on a cycle.
func waitingIssues(f *forge.Facts) []*forge.Issue {
	var list []*forge.Issue
	for i := range f.Issues {
		is := &f.Issues[i]
		open := func(b forge.Blocker) bool { return b.State == forge.BlockerOpen }
		if !is.Closed && slices.ContainsFunc(is.Blockers, open) {
			list = append(list, is)
		}
	}
	return list
}

// edgesOf returns the nodes that an issue waits for. A blocker that is not a node has no open blocker that is known.
func (g *graph) edgesOf(is *forge.Issue) []int {
	var edges []int
	for _, b := range is.Blockers {
		if b.State != forge.BlockerOpen || b.Ref == is.Ref {
			continue
		}
		if i, found := slices.BinarySearchFunc(g.nodes, b.Ref, forge.Ref.Compare); found {
			edges = append(edges, i)
		}
	}
	return edges
}

// graph is the state of Tarjan's search for strongly connected components, which takes linear time and misses no
// cycle.
type graph struct {
	nodes []forge.Ref // sorted
	edges [][]int
	seen  []int // visiting order, from 1; 0 is not visited, finished is in a known component
	count int
	stack []int
}

// finished is above every order, so that an edge into a known component never lowers a node's low.
const finished = math.MaxInt

// visit returns the smallest visiting order that node reaches among those still on the stack. It calls found with
// each component of more than one node.
func (g *graph) visit(node int, found func(members []int)) int {
	g.count++
	order, low := g.count, g.count
	g.seen[node] = order
	at := len(g.stack)
	g.stack = append(g.stack, node)
	for _, next := range g.edges[node] {
		switch {
		case len(g.edges[next]) == 0: // it waits for nothing, so it is on no cycle
		case g.seen[next] == 0:
			low = min(low, g.visit(next, found))
		default:
			low = min(low, g.seen[next])
		}
	}
	if low < order {
		return low
	}
	members := g.stack[at:]
	if len(members) > 1 {
		found(members)
	}
	for _, m := range members {
		g.seen[m] = finished
	}
	g.stack = g.stack[:at]
	return low
}

// shortest returns the shortest cycle through a node inside its component, by breadth-first search.
func (g *graph) shortest(node int, members []int) []forge.Ref {
	from := map[int]int{}
	queue := []int{node}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range g.edges[at] {
			if next == node {
				return g.round(node, at, from)
			}
			if _, known := from[next]; !known && slices.Contains(members, next) {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// round walks the search back from last and returns node ... last, node.
func (g *graph) round(node, last int, from map[int]int) []forge.Ref {
	refs := []forge.Ref{g.nodes[node]}
	for at := last; at != node; at = from[at] {
		refs = append(refs, g.nodes[at])
	}
	refs = append(refs, g.nodes[node])
	slices.Reverse(refs)
	return refs
}
