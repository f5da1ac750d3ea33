package threads

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
)

// checkAccounts refuses two agents with one account on the forge, and an agent whose account is said to be another
// host's: whose work is whose would be a guess.
func (d *decoder) checkAccounts() {
	c := &d.config
	for i, a := range c.Agents {
		key := []string{"agents", a.Name, "forge_user"}
		line := cmp.Or(d.lineOf(key), d.lineOf(key[:2]), d.assigned[a.Name].line)
		for _, b := range c.Agents[:i] {
			if strings.EqualFold(a.Login, b.Login) {
				d.wrong(line, key, "is %q, which %s has too: give each agent an account of its own", a.Login, b.Name)
			}
		}
		if slices.ContainsFunc(c.Forge.Bots, func(bot string) bool { return strings.EqualFold(bot, a.Login) }) {
			d.wrong(d.lineOf([]string{"forge", "bots"}), []string{"forge", "bots"}, "has %q in it, which is %s here: bots are the agents of other hosts", a.Login, a.Name)
		}
	}
}

// checkWaiting refuses a thread that can fill up with sessions which wait for a review, when all who could give it
// work on the same thread: each would wait for the other until the time limit. Upstream met this twice.
func (d *decoder) checkWaiting() {
	v := &view{Snapshot: &Snapshot{Config: &d.config}}
	for i := range d.config.Threads {
		t := &d.config.Threads[i]
		var waiting []string
		for _, a := range d.config.Agents {
			if a.Thread == t.Name && d.waits(&a) && v.reviewedOnlyOn(t.Name, a.Name) {
				waiting = append(waiting, a.Name)
			}
		}
		if len(waiting) > 0 && len(waiting) >= t.MaxSessions {
			key := []string{"threads", t.Name, "agents"}
			d.wrong(d.lineOf(key), key, "%s would wait for a review in %s, and only agents of the same thread may review: put a reviewer on another thread",
				strings.Join(waiting, " and "), slots(t.MaxSessions))
		}
	}
}

func slots(n int) string {
	if n == 1 {
		return "its only slot"
	}
	return fmt.Sprintf("all of its %d slots", n)
}

// waits reports whether the agent's program may stay until its pull request is reviewed.
func (d *decoder) waits(a *agents.Agent) bool {
	return slices.ContainsFunc(a.Roles, func(name string) bool {
		r := d.config.Role(name)
		return r != nil && r.WaitsForReview
	})
}

// reviewedOnlyOn reports whether there are agents who may review a writer's work, all of them on this thread.
func (v *view) reviewedOnlyOn(thread, writer string) bool {
	local, any := v.anyLocal([]string{writer}), false
	for _, r := range v.Config.Agents {
		if r.Name == writer || !v.hasTrigger(&r, agents.OnReview) || v.localPair(r.Thread, local) {
			continue
		}
		if r.Thread != thread {
			return false
		}
		any = true
	}
	return any
}

func (d *decoder) lineOf(key []string) int { return d.lines[toml.Key(key).String()] }
