package nomad

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// defaultMaxKill is the longest time that a node leaves a task from TERM to KILL, without a max_kill_timeout.
const defaultMaxKill = 30 * time.Second

// killTimeout is the time that a job asks for from TERM to KILL: the session's grace, and time for session-run to
// record how the session ended.
func killTimeout(grace time.Duration) time.Duration { return grace + killSlack }

// checkKillTime reports the nodes that cut a session's time from TERM to KILL short, which Nomad does without a word.
// unknown is a remark about a node that does not tell; "" if there is none. A time that every node allows by default is
// not checked.
func (c *client) checkKillTime(
	ctx context.Context, ready []node, needs []agents.Job,
) (unknown string, problems []error) {
	grace := time.Duration(0)
	for i := range needs {
		grace = max(grace, needs[i].Grace)
	}
	need := killTimeout(grace)
	if need <= defaultMaxKill {
		return "", nil
	}
	for i := range ready {
		n := &ready[i]
		most, err := c.maxKillTime(ctx, n)
		switch {
		case err != nil:
			unknown = fmt.Sprintf("; stop_grace needs max_kill_timeout = %q, which node %s does not tell: %s",
				need, oneLine(n.Name), oneLine(err.Error()))
		case most < need:
			problems = append(problems, fmt.Errorf("node %s kills a session %s after TERM (max_kill_timeout of its client), "+
				"and stop_grace = %q needs %s", oneLine(n.Name), most, grace, need))
		}
	}
	return unknown, problems
}

// maxKillTime reads the max_kill_timeout of a node from its own agent: the servers do not know it.
func (c *client) maxKillTime(ctx context.Context, n *node) (time.Duration, error) {
	var of struct {
		HTTPAddr   string
		TLSEnabled bool
	}
	if _, err := c.call(ctx, http.MethodGet, "/node/"+escape(n.ID), nil, nil, &of); err != nil {
		return 0, err
	}
	cfg := c.config()
	if strings.HasPrefix(cfg.Address, "https:") && !of.TLSEnabled {
		return 0, errors.New("its connection is not encrypted")
	}
	if cfg.Address = "http://" + of.HTTPAddr; of.TLSEnabled {
		cfg.Address = "https://" + of.HTTPAddr
	}
	agent := newClient(func() Config { return cfg })
	defer agent.http.CloseIdleConnections()
	var self struct {
		Config struct {
			Client struct{ MaxKillTimeout string }
		}
	}
	if _, err := agent.call(ctx, http.MethodGet, "/agent/self", nil, nil, &self); err != nil {
		return 0, lacks(err, "agent read")
	}
	if self.Config.Client.MaxKillTimeout == "" {
		return defaultMaxKill, nil
	}
	return time.ParseDuration(self.Config.Client.MaxKillTimeout)
}
