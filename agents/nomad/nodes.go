package nomad

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// node is a machine of the cluster in Nomad's list.
type node struct {
	ID, Name, NodePool, Datacenter, Version string
	Status, SchedulingEligibility           string
	Drain                                   bool
	Drivers                                 map[string]struct{ Detected, Healthy bool }
	HostVolumes                             map[string]struct{ Path string }
}

// listNodes returns all nodes.
func (c *client) listNodes(ctx context.Context) (nodes []node, err error) {
	_, err = c.call(ctx, http.MethodGet, "/nodes", url.Values{}, nil, &nodes)
	return nodes, err
}

// ready reports whether a node accepts sessions of a driver.
func (n *node) ready(driver string) bool {
	return n.Status == "ready" && n.SchedulingEligibility == "eligible" && !n.Drain && n.Drivers[driver].Healthy
}

// within reports whether a node is in the pool and the datacenters of a job, whatever its state.
func (n *node) within(j *agents.Job, cfg Config) bool {
	pool := cmp.Or(j.Target.Pool, defaultPool)
	if pool != allPool && cmp.Or(n.NodePool, defaultPool) != pool {
		return false
	}
	datacenters := whereabouts("", j, cfg)["Datacenters"].([]string)
	return slices.ContainsFunc(datacenters, func(dc string) bool {
		ok, _ := path.Match(dc, n.Datacenter)
		return ok
	})
}

// defaultPool is the pool of nodes and namespaces without another one, and allPool has every node. A namespace's own
// default pool is not looked up.
const (
	defaultPool = "default"
	allPool     = "all"
)

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
		lacking := inWords(words)
		why = append(why, fmt.Sprintf("%d without %s", m.ConstraintFiltered[words], lacking))
	}
	for _, words := range slices.Sorted(maps.Keys(m.DimensionExhausted)) {
		why = append(why, fmt.Sprintf("%d without enough %s", m.DimensionExhausted[words], words))
	}
	return strings.Join(why, ", ")
}

// inWords returns what a node lacks, for a constraint that it does not meet as Nomad writes it.
func inWords(constraint string) string {
	if bytes, ok := strings.CutPrefix(constraint, "${"+totalMemory+"} >= "); ok {
		if n, err := strconv.ParseInt(bytes, 10, 64); err == nil {
			return agents.Size(n) + " of memory"
		}
	}
	if cores, ok := strings.CutPrefix(constraint, "${"+totalCores+"} >= "); ok {
		return cores + " cores to reserve"
	}
	return strings.TrimPrefix(constraint, "missing ")
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

// plan requests a dry run of a session under a name that no session has. It returns why the session does not fit, or
// nil. It adds constraints on the whole memory and the cores of a node, so that Nomad tells apart what a node lacks at
// the moment, and what it never has.
func (c *client) plan(ctx context.Context, cfg Config, name string, job agents.Job) (*failure, error) {
	id := jobID(name)
	job.RunID, job.Timeout = name, time.Hour
	asked := describe(id, newOrder(job, "", time.Now()), cfg)
	rules := append(asked["Constraints"].([]table), constraint(totalMemory, ">=", fmt.Sprint(memoryMB(&job)<<20)))
	if job.Limits.Cores > 0 {
		rules = append(rules, constraint(totalCores, ">=", fmt.Sprint(job.Limits.Cores)))
	}
	asked["Constraints"] = rules
	var plan evaluation
	_, err := c.call(ctx, http.MethodPut, "/job/"+escape(id)+"/plan", nil, table{"Job": asked}, &plan)
	if why, ok := plan.FailedTGAllocs[taskName]; ok && err == nil {
		return &why, nil
	}
	return nil, err
}

// totalMemory and totalCores are attributes of nodes: bytes, and cores that a job can reserve.
const (
	totalMemory = "attr.memory.totalbytes"
	totalCores  = "attr.cpu.reservablecores"
)
