package nomad

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Unfit explains why no node can run such a session, regardless of what else is running; "" if one can. Only submitting
// a job shows whether there is room now, because a session that has just ended may have freed some. The first call for
// a kind of session also starts session-run on its nodes, as the session would be, but without an order.
func (e *Executor) Unfit(ctx context.Context, job agents.Job) (string, error) {
	c, cfg := e.api().in(job.Target.Namespace), e.Config()
	why, err := c.plan(ctx, cfg, "place", job)
	switch {
	case never(err):
		return oneLine(err.Error()), nil
	case err != nil:
		return "", err
	case why == nil:
		return e.unstartable(ctx, job), nil
	case why.forever():
		return oneLine(why.lacks()), nil
	case why.NodesEvaluated > 0: // they only lack room at the moment
		return e.unstartable(ctx, job), nil
	}
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(nodes, func(n node) bool { return n.within(&job, cfg) }) {
		return noNodeWithin(&job), nil
	}
	return "", nil
}

// noNodeWithin says that the pool and the datacenters of a job have no node.
func noNodeWithin(j *agents.Job) string {
	words := "there is no node"
	if j.Target.Pool != "" {
		words += " in the node pool " + j.Target.Pool
	}
	if len(j.Target.Datacenters) > 0 {
		words += " in " + strings.Join(j.Target.Datacenters, ", ")
	}
	return words
}

// never reports whether Nomad refuses a job for a reason that lasts: a missing right, a namespace or a pool that does
// not exist.
func never(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return isRefused(err) || ok && strings.Contains(no.words, "nonexistent")
}

const (
	tryPatience = 3 * time.Second // how long Unfit waits for a first try
	tryRest     = 5 * time.Minute // between two tries while nodes cannot start sessions
)

// trial is the result of a try to start session-run.
type trial struct {
	at   time.Time
	done chan struct{} // closed when the fields below are set
	why  string        // why no node starts sessions; empty if one does, or none was free
	ok   bool          // a node starts sessions
}

// unstartable tries to start session-run on the nodes of a session, unless that has already succeeded, and returns why
// none starts it; "" if one does, or if that is unknown. A slow try continues in the background.
func (e *Executor) unstartable(ctx context.Context, job agents.Job) string {
	key := trialKey(&job, e.Config())
	e.mu.Lock()
	t := e.trials[key]
	if t == nil || t.rested() {
		t = &trial{at: time.Now(), done: make(chan struct{})}
		if e.trials == nil {
			e.trials = map[string]*trial{}
		}
		e.trials[key] = t
		go e.safely("the try to start sessions", func() {
			defer close(t.done)
			e.try(context.WithoutCancel(ctx), job, t)
		})
	}
	e.mu.Unlock()
	select {
	case <-t.done:
		return t.why
	case <-ctx.Done():
	case <-time.After(tryPatience):
	}
	return ""
}

// rested reports whether a trial that did not succeed is old.
func (t *trial) rested() bool {
	select {
	case <-t.done:
		return !t.ok && time.Since(t.at) >= tryRest
	default:
		return false
	}
}

// trialKey is the same for sessions that nodes start in the same way.
func trialKey(j *agents.Job, cfg Config) string {
	text, _ := json.Marshal([]any{
		j.Target, j.Nodes, j.User, cfg.Address, cfg.Namespace, cfg.Region, cfg.Datacenters, cfg.Volume, cfg.Program,
		demandsOf(j),
	})
	return string(text)
}

// try fills in a trial.
func (e *Executor) try(ctx context.Context, job agents.Job, t *trial) {
	tried, err := e.api().in(job.Target.Namespace).tryNodes(ctx, e.Config(), "place", job)
	if never(err) {
		t.why = oneLine(err.Error())
	}
	var bad []string
	for _, n := range tried {
		if t.ok = t.ok || n.why == ""; n.why != "" {
			bad = append(bad, fmt.Sprintf("node %s: %s", n.name, n.why))
		}
	}
	if !t.ok && len(bad) > 0 {
		t.why = oneLine(strings.Join(bad, "; "))
	}
}
