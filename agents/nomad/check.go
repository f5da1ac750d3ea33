package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Need lists what a thread requires of its nodes.
type Need struct {
	Thread string
	Nodes  []agents.NodeRule
}

// leastMajor and leastMinor are the first version that leaves a session alone while its node is unreachable.
const leastMajor, leastMinor = 1, 8

// Check queries a cluster for everything that sessions need, and changes nothing. It returns a line about the cluster,
// and every problem.
func Check(ctx context.Context, cfg Config, needs []Need) (about string, problems []error) {
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
	ready := slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return !n.ready() })
	problems = append(problems, checkNodes(cfg, nodes, ready)...)
	problems = append(problems, c.checkRights(ctx)...)
	for _, n := range needs {
		if err := c.checkPlace(ctx, cfg, n); err != nil {
			problems = append(problems, fmt.Errorf("thread %s: %w", n.Thread, err))
		}
	}
	return fmt.Sprintf("%s: %d of %d nodes take sessions", cfg.Address, len(ready), len(nodes)), problems
}

// lacks adds the missing right to a refusal.
func lacks(err error, right string) error {
	if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusForbidden {
		return fmt.Errorf("the token of [nomad] lacks the right %s: %w", right, err)
	}
	return err
}

// checkNodes checks what a node needs for any session.
func checkNodes(cfg Config, nodes, ready []node) (problems []error) {
	if len(ready) == 0 {
		problems = append(problems, fmt.Errorf("none of its %d nodes takes sessions: one must be ready and eligible, "+
			"with the driver raw_exec enabled", len(nodes)))
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

// checkRights tries what the token must be allowed to do. It writes a variable under a condition that never holds.
func (c *client) checkRights(ctx context.Context) (problems []error) {
	if _, _, err := c.listJobs(ctx, jobPrefix, 0); err != nil {
		problems = append(problems, lacks(err, "read-job"))
	}
	path := variablePath(jobPrefix + "check")
	if _, err := c.call(ctx, http.MethodGet, "/vars", url.Values{"prefix": {path}}, nil, nil); err != nil {
		problems = append(problems, lacks(err, "list of variables at "+variablePath(jobPrefix+"*")))
	}
	_, err := c.call(ctx, http.MethodPut, "/var/"+path, url.Values{"cas": {"1"}},
		variable{path, map[string]string{orderKey: "none"}}, nil)
	if no, ok := errors.AsType[*refusal](err); err != nil && (!ok || no.status != http.StatusConflict) {
		problems = append(problems, lacks(err, "write of variables at "+variablePath(jobPrefix+"*")))
	}
	var some []struct{ ID string }
	query := url.Values{"per_page": {"1"}, "filter": {`ClientStatus == "running"`}, "task_states": {"false"}}
	if _, err := c.call(ctx, http.MethodGet, "/allocations", query, nil, &some); err != nil || len(some) == 0 {
		return problems // the rights on files can only be tried on an allocation
	}
	_, err = c.call(ctx, http.MethodGet, "/client/fs/ls/"+escape(some[0].ID), url.Values{"path": {"/"}}, nil, nil)
	if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusForbidden {
		problems = append(problems, lacks(err, "read-fs"))
	}
	return problems
}

// checkPlace requests a dry run of a session of a thread, which requires the right submit-job.
func (c *client) checkPlace(ctx context.Context, cfg Config, n Need) error {
	why, err := c.plan(ctx, cfg, "check-"+n.Thread, n.Nodes)
	if err != nil {
		return lacks(err, "submit-job")
	}
	if why != nil {
		return errors.New(why.String())
	}
	return nil
}
