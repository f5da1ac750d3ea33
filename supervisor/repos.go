package supervisor

import (
	"fmt"

	"codeberg.org/johba/disinto/agents"
)

// toldAfter is how many failures of a repository's setup in a row need a person. Fewer may be an outage of a registry.
const toldAfter = 3

// brokenRepos lists the repositories whose commands fail without any agent's fault.
func (st *state) brokenRepos() (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil {
		return nil
	}
	for _, r := range st.cfg.Repos {
		h := st.ledger.Repo(r.Name)
		if h.SetupFails >= toldAfter && len(r.Setup.Argv) > 0 {
			const words = "setup of %[1]s fails: %[2]s, %[3]d times in a row; its issues wait: disinto check --setup %[1]s"
			lines = append(lines, fmt.Sprintf(words, r.Name, h.SetupWhy, h.SetupFails))
		}
		if h.RedBase != "" && len(r.Verify.Argv) > 0 {
			const words = "verify-broken: verify of %s fails at its base commit %.10s: %s; work is handed in all the same"
			lines = append(lines, fmt.Sprintf(words, r.Name, h.RedBase, h.RedWhy))
		}
	}
	return lines
}

// believed returns the outcome of a session whose program may blame the repository's setup only where there is one.
func (x *session) believed(out agents.Outcome) agents.Outcome {
	if out.Result == agents.SetupFailed && len(x.config.Room(x.Item.Ref.Repo).Setup.Argv) == 0 {
		out.Result, out.Reason = agents.Failed, "its program reported setup-failed without a setup; "+out.Reason
	}
	return out
}

// doing records the phase of a session, for the status.
func (rn *sessionRunner) doing(x *session, now agents.Doing) {
	rn.hears(x, now.Heard)
	now.Heard = 0
	rn.state.doing(x, now)
	rn.touchStatus()
}

func (st *state) doing(x *session, now agents.Doing) {
	st.mu.Lock()
	defer st.mu.Unlock()
	x.now = now
}
