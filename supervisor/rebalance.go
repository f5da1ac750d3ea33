package supervisor

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// rebalance looks for issues that should change hands, once in every StealEvery. It reserves them at once,
// so that no tick starts them here.
func (p *planner) rebalance(now time.Time) {
	cfg := p.state.config()
	if cfg == nil {
		return
	}
	switch due := p.hub.Due(cfg, now); {
	case due && cfg.Fleet.Hub:
		p.hub.Wake() // the hub asks the other hosts first; a tick must not wait for that
	case due && p.state.scanned().err == nil:
		for _, m := range p.weigh(&fleet.Cycle{At: now}) {
			p.clerk.startChore(&p.running, m)
		}
	}
}

// weigh decides which issues change hands, and reserves them unless the cycle is a dry run.
func (p *planner) weigh(c *fleet.Cycle) (moves []*chore) {
	moves, stuck := p.state.weigh(p.hub, c, time.Now(), p.room())
	if stuck {
		p.log.Warn(stuckWords(p.state.config(), c))
	}
	return moves
}

// stuckWords returns the log line that says for each movable issue why it does not move.
func stuckWords(cfg *threads.Config, c *fleet.Cycle) string {
	var whys []string
	for i := range c.Stays {
		st := &c.Stays[i]
		whys = append(whys, wordsOf(cfg, forge.Ref{Repo: st.Repo, Number: st.Number}, "")+" "+st.Why)
	}
	const shown = 5
	if more := len(whys) - shown; more > 0 {
		whys = append(whys[:shown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s idle beside %s busy, and nothing can be moved: %s",
		strings.Join(c.Idle, ", "), strings.Join(c.Busy, ", "), strings.Join(whys, "; "))
}
