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
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Need lists what a thread requires of its nodes.
type Need struct {
	Thread string
	Nodes  []agents.NodeRule
	Memory int64 // the largest limit of its agents, in bytes; 0 means the default
}

// leastMajor and leastMinor are the first version that leaves a session alone while its node is unreachable.
const leastMajor, leastMinor = 1, 8

// Check queries a cluster for everything that sessions need, and leaves nothing changed. It returns a line about the
// cluster, and every problem. grace is the time from TERM to KILL of each session.
func Check(
	ctx context.Context, cfg Config, grace time.Duration, needs []Need,
) (about string, problems []error) {
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
	unknown, short := c.checkKillTime(ctx, ready, grace)
	problems = append(problems, short...)
	problems = append(problems, c.checkRights(ctx, cfg)...)
	for _, n := range needs {
		if err := c.checkPlace(ctx, cfg, n); err != nil {
			problems = append(problems, fmt.Errorf("thread %s: %w", n.Thread, err))
		}
	}
	return fmt.Sprintf("%s: %d of %d nodes take sessions%s", cfg.Address, len(ready), len(nodes), unknown), problems
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

// checkRights tries what the token must be allowed to do, by the calls of a session. It writes and deletes a variable
// under a condition that never holds, and registers a job that no node can run, which it removes at once.
func (c *client) checkRights(ctx context.Context, cfg Config) (problems []error) {
	try := func(right string, err error) {
		no, ok := errors.AsType[*refusal](err)
		if err != nil && (!ok || no.status != http.StatusConflict && no.status != http.StatusNotFound) {
			problems = append(problems, lacks(err, right))
		}
	}
	_, _, err := c.listJobs(ctx, jobPrefix, 0)
	try("list-jobs", err)
	path := variablePath(checkJob)
	at := " of variables at " + variablePath(jobPrefix+"*")
	_, err = c.call(ctx, http.MethodGet, "/vars", url.Values{"prefix": {path}}, nil, nil)
	try("list"+at, err)
	_, err = c.call(ctx, http.MethodGet, "/var/"+path, nil, nil, nil)
	try("read"+at, err)
	never := url.Values{"cas": {"1"}}
	_, err = c.call(ctx, http.MethodPut, "/var/"+path, never, variable{path, map[string]string{orderKey: "none"}}, nil)
	try("write"+at, err)
	_, err = c.call(ctx, http.MethodDelete, "/var/"+path, never, nil, nil)
	try("destroy"+at, err)
	c.checkRegister(ctx, cfg, try)
	_, err = c.allocations(ctx, checkJob)
	try("read-job", err)
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

// checkJob is the job and the variable with which rights are tried.
const checkJob = jobPrefix + "check"

// checkRegister registers and removes a job that no node can run. Only a registration needs the right on the host
// volume: a dry run does not.
func (c *client) checkRegister(ctx context.Context, cfg Config, try func(right string, err error)) {
	nowhere := []agents.NodeRule{{Attribute: "node.unique.id", Value: "none"}}
	if _, err := c.plan(ctx, cfg, "check", nowhere, 0); err != nil {
		try("submit-job", err)
		return
	}
	o := newOrder(agents.Job{RunID: "check", Timeout: time.Hour, Nodes: nowhere}, "", time.Now())
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

// checkPlace requests a dry run of a session of a thread. A missing right is reported once, by checkRegister.
func (c *client) checkPlace(ctx context.Context, cfg Config, n Need) error {
	why, err := c.plan(ctx, cfg, "check-"+n.Thread, n.Nodes, n.Memory)
	if no, ok := errors.AsType[*refusal](err); ok && no.status == http.StatusForbidden {
		return nil
	}
	if err != nil {
		return err
	}
	if why != nil {
		return errors.New(why.String())
	}
	return nil
}
