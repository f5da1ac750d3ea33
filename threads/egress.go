package threads

import (
	"cmp"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
)

// Egress returns the hosts that a session may reach, as words of package egress, and those that it may reach during its
// setup besides. A nil hosts means that it may reach all. The forge is among them, and the model: base_url, or where
// the CLI finds the models of its maker.
func (c *Config) Egress(r *agents.Role, a *agents.Agent, t *Thread, repo string) (hosts, setup []string) {
	table := c.RepoTable(repo)
	if table == nil {
		table = new(Repo)
	}
	if r.Sandbox.Egress == nil && table.Egress == nil {
		return nil, nil
	}
	hosts = append(append([]string{}, r.Sandbox.Egress...), table.Egress...)
	model := cmp.Or(a.BaseURL, t.BaseURL)
	for _, address := range []string{c.Forge.URL, model} {
		if word := egress.WordOf(address); word != "" {
			hosts = append(hosts, word)
		}
	}
	if cli := agents.FindCLI(r.CLI); cli != nil && model == "" {
		hosts = append(hosts, cli.Hosts...)
	}
	if len(table.Setup.Argv) > 0 {
		setup = slices.Concat(r.Sandbox.SetupEgress, table.SetupEgress)
	}
	return hosts, setup
}

// rests is the reason for which an item rests after a failure.
func (a *Attempt) rests() *Reason {
	why := &Reason{Code: CoolDown, Until: a.Until, Count: a.Count, Limit: MaxAttempts, Note: a.Reason}
	if a.Allow != "" {
		why.Code, why.Why = EgressRefused, a.Allow
	}
	return why
}
