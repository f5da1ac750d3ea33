package file

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/threads"
)

// checkAccounts refuses two agents with one account on the forge, and an agent whose account is also listed as
// another host's: the forge could not show whose work is whose.
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
			key := []string{"forge", "bots"}
			d.wrong(d.lineOf(key), key, "has %q in it, the account of %s here: bots are the agents of other hosts", a.Login,
				a.Name)
		}
	}
}

// checkExposed refuses a role without a sandbox for an agent without an account of its own whose sessions a node starts
// beside others: they could read the others' tokens there.
func (d *decoder) checkExposed() {
	for i := range d.config.Agents {
		a := &d.config.Agents[i]
		t := d.config.Thread(a.Thread)
		if t == nil || t.Executor == "" || t.Target.Driver != "" || cmp.Or(a.User, d.config.Factory.User) != "" {
			continue
		}
		for _, name := range a.Roles {
			if r := d.config.Role(name); r != nil && !r.Sandbox.On() && (r.CLI != "" || len(r.Command) > 0) {
				key := []string{"agents", a.Name, "user"}
				d.wrong(cmp.Or(d.lineOf(key[:2]), d.assigned[a.Name].line), key, "is not set, and role %s has no sandbox: "+
					"on a node of Nomad a session with neither could read the tokens of the others", name)
			}
		}
	}
}

// checkRenamed refuses an old name that is still in use, or that two tables claim.
func (d *decoder) checkRenamed() {
	check := func(table string, names, old []string) {
		for i, from := range old {
			key := []string{table, names[i], "renamed_from"}
			switch {
			case from == "":
			case slices.Contains(names, from):
				d.wrong(d.lineOf(key), key, "is %q, and the file still has [%s.%s]: want a name that is gone", from, table, from)
			case slices.Contains(old[:i], from):
				d.wrong(d.lineOf(key), key, "is %q, which is that of %s too: want one of them", from,
					names[slices.Index(old, from)])
			}
		}
	}
	var names, old []string
	for i := range d.config.Agents {
		names, old = append(names, d.config.Agents[i].Name), append(old, d.config.Agents[i].RenamedFrom)
	}
	check("agents", names, old)
	names, old = nil, nil
	for i := range d.config.Threads {
		names, old = append(names, d.config.Threads[i].Name), append(old, d.config.Threads[i].RenamedFrom)
	}
	check("threads", names, old)
}

// checkFallback refuses threads that fall back to unknown ones, or to themselves in a circle.
func (d *decoder) checkFallback() {
	for i := range d.config.Threads {
		t := &d.config.Threads[i]
		key := []string{"threads", t.Name, "fallback"}
		var names []string
		for _, other := range d.config.Threads {
			names = append(names, other.Name)
		}
		for _, to := range t.FallbackTo {
			switch {
			case !slices.Contains(names, to):
				d.wrong(d.lineOf(key), key, "names %q, which is no thread%s", to, threads.Suggest(to, names))
			case to == t.Name || way(to, t.Name, d.fallbacks) != nil:
				d.wrong(d.lineOf(key), key, "names %q, which falls back to %s: want no circle", to, t.Name)
			}
		}
	}
}

func (d *decoder) fallbacks(thread string) []string {
	if t := d.config.Thread(thread); t != nil {
		return t.FallbackTo
	}
	return nil
}

// checkRoot refuses a role whose sessions should run as root, if an agent in it has an account of its own.
func (d *decoder) checkRoot() {
	for i := range d.config.Agents {
		a := &d.config.Agents[i]
		for _, name := range a.Roles {
			if r := d.config.Role(name); r != nil && r.Root && a.User != "" {
				key := []string{"roles", name, "root"}
				d.wrong(d.lineOf(key), key, "is true, and %s has user = %q: remove one of them", a.Name, a.User)
			}
		}
	}
}

// checkWaiting refuses a thread whose sessions could all wait for one another.
func (d *decoder) checkWaiting() {
	for i := range d.config.Threads {
		t := &d.config.Threads[i]
		if waiting := d.config.Deadlocked(t); len(waiting) > 0 {
			key := []string{"threads", t.Name, "agents"}
			d.wrong(d.lineOf(key), key, "%s would wait for a review in %s, and only agents of the same thread may review: "+
				"put a reviewer on another thread", strings.Join(waiting, " and "), slots(t.MaxSessions))
		}
	}
}

func slots(n int) string {
	if n == 1 {
		return "its only slot"
	}
	return fmt.Sprintf("all of its %d slots", n)
}

func (d *decoder) lineOf(key []string) int { return d.lines[toml.Key(key).String()] }
