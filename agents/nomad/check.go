package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// leastMajor and leastMinor are the first version that leaves a session alone while its node is unreachable.
const leastMajor, leastMinor = 1, 8

// Check queries a cluster for everything that sessions need, and leaves nothing changed. needs has a job of
// threads.Config.Placed for each agent. It returns a line about the cluster, and every problem.
func Check(ctx context.Context, cfg Config, needs []agents.Job) (about string, problems []error) {
	c := newClient(func() Config { return cfg })
	defer c.http.CloseIdleConnections()
	var leader string
	if _, err := c.call(ctx, http.MethodGet, "/status/leader", nil, nil, &leader); err != nil {
		return "", []error{err}
	}
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return "", []error{lacks(err, "node read")}
	}
	ready := slices.DeleteFunc(slices.Clone(nodes), func(n node) bool {
		return !slices.ContainsFunc(needs, func(j agents.Job) bool { return n.ready(driverOf(&j)) && n.within(&j, cfg) })
	})
	problems = append(problems, checkNodes(cfg, needs, nodes, ready)...)
	unknown, short := c.checkKillTime(ctx, ready, needs)
	problems = append(problems, short...)
	for _, namespace := range namespaces(cfg, needs) {
		problems = append(problems, c.in(namespace).checkRights(ctx, cfg, namespace)...)
	}
	notes, unfit := c.checkPlaces(ctx, cfg, needs)
	about = fmt.Sprintf("%s: %d of %d nodes take sessions%s", cfg.Address, len(ready), len(nodes), unknown)
	return strings.Join(append([]string{about}, notes...), "; "), append(problems, unfit...)
}

// namespaces returns the namespaces of jobs, sorted.
func namespaces(cfg Config, needs []agents.Job) (names []string) {
	for i := range needs {
		names = append(names, cmp.Or(needs[i].Target.Namespace, cfg.Namespace))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// lacks adds the missing right to a refusal.
func lacks(err error, right string) error {
	if isForbidden(err) {
		return fmt.Errorf("the token of [nomad] lacks the right %s: %w", right, err)
	}
	return err
}

// checkNodes checks what a node needs for any session.
func checkNodes(cfg Config, needs []agents.Job, nodes, ready []node) (problems []error) {
	if len(ready) == 0 {
		var drivers []string
		for i := range needs {
			drivers = append(drivers, driverOf(&needs[i]))
		}
		slices.Sort(drivers)
		problems = append(problems, fmt.Errorf("none of its %d nodes takes sessions: one must be ready and eligible, "+
			"with the driver %s enabled", len(nodes), strings.Join(slices.Compact(drivers), " or ")))
	}
	for _, n := range ready {
		if tooOld(n.Version) {
			problems = append(problems, fmt.Errorf("node %s has Nomad %s, and sessions need %d.%d",
				oneLine(n.Name), oneLine(n.Version), leastMajor, leastMinor))
		}
		if _, ok := n.HostVolumes[cfg.Volume]; !ok && cfg.Volume != "" {
			problems = append(problems, fmt.Errorf("node %s has no host volume %s, so it takes no session",
				oneLine(n.Name), cfg.Volume))
		}
	}
	return problems
}

// tooOld reports whether a version is too old. An unreadable version counts as new enough.
func tooOld(version string) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err1 := strconv.Atoi(first)
	minor, err2 := strconv.Atoi(second)
	return errors.Join(err1, err2) == nil && (major < leastMajor || major == leastMajor && minor < leastMinor)
}

// checkRights tries what the token must be allowed to do in a namespace, by the calls of a session. It writes and
// deletes a variable under a condition that never holds, and registers a job that no node can run, which it removes at
// once.
func (c *client) checkRights(ctx context.Context, cfg Config, namespace string) (problems []error) {
	in := ""
	if namespace != cfg.Namespace {
		in = " in namespace " + namespace
	}
	try := func(right string, err error) {
		no, ok := errors.AsType[*refusal](err)
		if err != nil && (!ok || no.status != http.StatusConflict && no.status != http.StatusNotFound) {
			problems = append(problems, lacks(err, right+in))
		}
	}
	_, _, err := c.listJobs(ctx, jobPrefix, 0)
	try("list-jobs", err)
	path := variablePath(checkJob)
	at := " of variables at " + variablePath(jobPrefix+"*")
	_, err = c.call(ctx, http.MethodGet, "/var/"+path, nil, nil, nil)
	try("read"+at, err)
	never := url.Values{"cas": {"1"}}
	none := variable{Path: path, Items: map[string]string{orderKey: "none"}}
	_, err = c.call(ctx, http.MethodPut, "/var/"+path, never, none, nil)
	try("write"+at, err)
	_, err = c.call(ctx, http.MethodDelete, "/var/"+path, never, nil, nil)
	try("destroy"+at, err)
	cfg.Namespace = namespace
	c.checkRegister(ctx, cfg, try)
	_, err = c.allocations(ctx, checkJob)
	try("read-job", err)
	return problems
}

// checkJob is the job and the variable with which rights are tried.
const checkJob = jobPrefix + "check"

// checkRegister registers and removes a job that no node can run. Only a registration needs the right on the host
// volume: a dry run does not.
func (c *client) checkRegister(ctx context.Context, cfg Config, try func(right string, err error)) {
	nowhere := []agents.NodeRule{{Attribute: "node.unique.id", Value: "none"}}
	j := agents.Job{RunID: "check", Timeout: time.Hour, Nodes: nowhere}
	if _, err := c.plan(ctx, cfg, "check", j); err != nil {
		try("submit-job", err)
		return
	}
	o := newOrder(j, "", time.Now())
	err := c.register(ctx, describe(checkJob, o, cfg))
	right := "submit-job"
	if cfg.Volume != "" { // as the dry run has shown, it is not submit-job
		right = fmt.Sprintf("host_volume %q { policy = \"write\" }", cfg.Volume)
	}
	if try(right, err); err != nil {
		return
	}
	_, err = c.call(ctx, http.MethodDelete, "/job/"+checkJob, url.Values{"purge": {"true"}}, nil, nil)
	try("submit-job", err)
}

// checkPlaces requests a dry run of a session of each agent, and tries the nodes of those that fit somewhere. Agents
// of a thread with the same problem share a line. A missing right is reported once, by checkRights. The notes say
// what nodes do not hold of the sandbox.
func (c *client) checkPlaces(ctx context.Context, cfg Config, needs []agents.Job) (notes []string, problems []error) {
	tries := map[string]bool{}
	for i := range needs {
		j := &needs[i]
		in := c.in(j.Target.Namespace)
		why, err := in.plan(ctx, cfg, "check-"+j.Agent, *j)
		switch {
		case isForbidden(err):
		case err != nil:
			problems = append(problems, ofAgent(j, err.Error()))
		case why != nil:
			problems = append(problems, ofAgent(j, why.String()))
		}
		if key := trialKey(j, cfg); err == nil && (why == nil || !why.forever()) && !tries[key] {
			tries[key] = true
			more, bad := in.checkTry(ctx, cfg, j)
			notes, problems = append(notes, more...), append(problems, bad...)
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes), sameOnce(problems)
}

// agentProblem is a problem of an agent's sessions.
type agentProblem struct {
	thread, words string
	agents        []string
}

func ofAgent(j *agents.Job, words string) error {
	return &agentProblem{j.Thread, oneLine(words), []string{j.Agent}}
}

func (e *agentProblem) Error() string {
	return fmt.Sprintf("thread %s, %s: %s", e.thread, strings.Join(e.agents, " and "), e.words)
}

// sameOnce joins the agents of a thread that have the same problem.
func sameOnce(problems []error) (list []error) {
	for _, err := range problems {
		next, ok := errors.AsType[*agentProblem](err)
		same := func(old error) bool {
			p, is := errors.AsType[*agentProblem](old)
			return ok && is && p.thread == next.thread && p.words == next.words
		}
		if at := slices.IndexFunc(list, same); at >= 0 {
			first, _ := errors.AsType[*agentProblem](list[at])
			first.agents = append(first.agents, next.agents...)
			continue
		}
		list = append(list, err)
	}
	return list
}

// checkTry starts session-run on the nodes of a session, without an order.
func (c *client) checkTry(ctx context.Context, cfg Config, j *agents.Job) (notes []string, problems []error) {
	list, err := c.tryNodes(ctx, cfg, "check", *j)
	if err != nil && !isForbidden(err) {
		return nil, []error{ofAgent(j, err.Error())}
	}
	for _, n := range list {
		if n.note != "" {
			notes = append(notes, "on node "+n.name+", "+n.note)
		}
		if n.why != "" {
			problems = append(problems, fmt.Errorf("node %s cannot run sessions of thread %s: %s", n.name, j.Thread, n.why))
		}
		if n.unread != nil {
			problems = append(problems, lacks(n.unread, "read-fs"))
			break // they all say so
		}
	}
	return notes, problems
}

func isForbidden(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return ok && no.status == http.StatusForbidden
}
