package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// node is a machine of the cluster in Nomad's list.
type node struct {
	ID, Name, NodeClass, Datacenter, Version string
	Status, SchedulingEligibility            string
	Drain                                    bool
	Drivers                                  map[string]struct{ Detected, Healthy bool }
	HostVolumes                              map[string]struct{ Path string }
}

// listNodes returns all nodes.
func (c *client) listNodes(ctx context.Context) (nodes []node, err error) {
	_, err = c.call(ctx, http.MethodGet, "/nodes", url.Values{}, nil, &nodes)
	return nodes, err
}

// ready reports whether a node accepts sessions.
func (n *node) ready() bool {
	return n.Status == "ready" && n.SchedulingEligibility == "eligible" && !n.Drain && n.Drivers["raw_exec"].Healthy
}

// volumePaths returns the folder of a host volume on each node with that volume, by node id.
func (c *client) volumePaths(ctx context.Context, volume string) (map[string]string, error) {
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for i := range nodes {
		if v, ok := nodes[i].HostVolumes[volume]; ok && v.Path != "" {
			paths[nodes[i].ID] = v.Path
		}
	}
	return paths, nil
}

// evaluation is a scheduling decision of Nomad's about a job, real or planned.
type evaluation struct {
	CreateIndex    uint64
	FailedTGAllocs map[string]failure
}

// failure explains why a job fits on no node.
type failure struct {
	NodesEvaluated, NodesExhausted         int // exhausted nodes lack room at the moment
	ConstraintFiltered, DimensionExhausted map[string]int
}

// ineligible is Nomad's message for a node of the same class as one that was rejected before.
const ineligible = "computed class ineligible"

// forever reports whether every node lacks more than room.
func (m failure) forever() bool { return len(m.ConstraintFiltered) > 0 && m.NodesExhausted == 0 }

func (m failure) String() string {
	return oneLine("no node takes it: " + cmp.Or(m.lacks(), "none is ready"))
}

// lacks lists what the nodes lack; "" if none is ready.
func (m failure) lacks() string {
	var why []string
	for _, words := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		if words == ineligible && len(m.ConstraintFiltered) > 1 {
			continue
		}
		lacking := strings.TrimPrefix(words, "missing ")
		why = append(why, fmt.Sprintf("%d without %s", m.ConstraintFiltered[words], lacking))
	}
	for _, words := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		why = append(why, fmt.Sprintf("%d without enough %s", m.DimensionExhausted[words], words))
	}
	return strings.Join(why, ", ")
}

// whyUnplaced explains why no node takes a job, from Nomad's last decision about it.
func (c *client) whyUnplaced(ctx context.Context, id string) string {
	var list []evaluation
	if _, err := c.call(ctx, http.MethodGet, "/job/"+escape(id)+"/evaluations", nil, nil, &list); err != nil {
		return "no node takes it: " + oneLine(err.Error())
	}
	slices.SortFunc(list, func(a, b evaluation) int { return int(int64(b.CreateIndex) - int64(a.CreateIndex)) })
	for _, e := range list {
		if m, ok := e.FailedTGAllocs[taskName]; ok {
			return m.String()
		}
	}
	return "no node takes it, and Nomad does not say why"
}

// plan requests a dry run of a job with these rules and this limit of memory, 0 for the default, under a name that no
// session has. It returns why the session does not fit, or nil.
func (c *client) plan(
	ctx context.Context, cfg Config, name string, rules []agents.NodeRule, memory int64,
) (*failure, error) {
	id := jobID(name)
	limits := agents.Limits{Memory: memory}
	o := newOrder(agents.Job{RunID: name, Timeout: time.Hour, Nodes: rules, Limits: limits}, "", time.Now())
	var plan evaluation
	_, err := c.call(ctx, http.MethodPut, "/job/"+escape(id)+"/plan", nil, table{"Job": describe(id, o, cfg)}, &plan)
	if why, ok := plan.FailedTGAllocs[taskName]; ok && err == nil {
		return &why, nil
	}
	return nil, err
}

// Unfit explains why no node can run a session with these rules, regardless of what else is running; "" if one can.
// Only submitting a job shows whether there is room now, because a session that has just ended may have freed some.
func (e *Executor) Unfit(ctx context.Context, rules []agents.NodeRule) (string, error) {
	why, err := e.api().plan(ctx, e.Config(), "place", rules, 0)
	if err != nil || why == nil || !why.forever() {
		return "", err
	}
	return oneLine(why.lacks()), nil
}
