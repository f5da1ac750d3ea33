package file

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/egress"
	"codeberg.org/johba/disinto/threads"
)

// These words replace a list of ports: all ports, or those that the kernel assigns to a server without a fixed port.
const (
	anyPort       = "any"
	ephemeralPort = "ephemeral"
)

// sandbox reads what the sandbox of sessions allows beyond base. A role's base is the factory's sandbox.
func (t *table) sandbox(base agents.Sandbox) agents.Sandbox {
	s := agents.Sandbox{
		Mode: agents.SandboxMode(t.oneOf("sandbox", string(base.Mode),
			string(agents.SandboxAuto), string(agents.SandboxStrict), string(agents.SandboxOff))),
		Read:  slices.Concat(base.Read, t.paths("sandbox_read")),
		Write: slices.Concat(base.Write, t.paths("sandbox_write")),
	}
	ports, word := t.ports("sandbox_connect")
	s.Connect = slices.Concat(base.Connect, ports)
	s.AnyPort, s.Ephemeral = base.AnyPort || word == anyPort, base.Ephemeral || word == ephemeralPort
	s.Egress, s.SetupEgress = t.egress("egress", base.Egress), t.egress("setup_egress", base.SetupEgress)
	if t.has("setup_egress") && s.Egress == nil {
		t.wrong("setup_egress", "is set, and egress is not, without which sessions reach every host")
	}
	for _, key := range []string{"sandbox_read", "sandbox_write", "sandbox_connect", "egress", "setup_egress"} {
		if s.Mode == agents.SandboxOff && t.has(key) && t.has("sandbox") {
			t.wrong(key, `is set, and sandbox is "off": remove one of them`)
		}
	}
	return s
}

// egress reads hosts that sessions may reach beside those of base; nil if neither says anything.
func (t *table) egress(key string, base []string) []string {
	list := t.set(key)
	for _, word := range list {
		if _, err := egress.Parse([]string{word}); err != nil {
			t.wrong(key, "%v", err)
		}
	}
	if !t.has(key) && base == nil {
		return nil
	}
	return append(append([]string{}, base...), list...) // not nil
}

// checkEgress refuses an egress that could not hold: only the sandbox keeps a session from the network.
func (d *decoder) checkEgress() {
	some := func(r threads.Repo) bool { return r.Egress != nil }
	for _, r := range d.config.Roles {
		key := []string{"roles", r.Name, "sandbox"}
		if !r.Sandbox.On() && (r.Sandbox.Egress != nil || slices.ContainsFunc(d.config.Repos, some)) {
			d.wrong(d.lineOf(key), key, `is "off", and egress needs the sandbox`)
		}
	}
	for _, r := range d.config.Repos {
		key := []string{"repos", r.Name, "setup_egress"}
		held := func(role agents.Role) bool { return role.Sandbox.Egress != nil }
		if len(r.SetupEgress) > 0 && r.Egress == nil && !slices.ContainsFunc(d.config.Roles, held) {
			d.wrong(d.lineOf(key), key, "is set, and egress is not, without which sessions reach every host")
		}
	}
}

// paths reads absolute paths.
func (t *table) paths(key string) []string {
	list := t.set(key)
	for i, p := range list {
		if !path.IsAbs(p) {
			t.wrong(key, "has %q in it, want absolute paths", p)
		}
		list[i] = path.Clean(p)
	}
	return list
}

// ports reads a list of TCP ports, or a word that stands for many.
func (t *table) ports(key string) (ports []int, word string) {
	const want = `a list of TCP ports such as [8080], "ephemeral" or "any"`
	if word, ok := t.values[key].(string); ok && (word == anyPort || word == ephemeralPort) {
		t.ignore(key)
		return nil, word
	}
	values, _ := get[[]any](t, key, want)
	t.shapeOf(key).portsOr(anyPort, ephemeralPort)
	for _, v := range values {
		port, ok := v.(int64)
		switch {
		case !ok:
			t.wrong(key, "has %s in it, want %s", kindOf(v), want)
		case port < 1 || port > 65535:
			t.wrong(key, "has %d in it, want ports from 1 to 65535", port)
		default:
			ports = append(ports, int(port))
		}
	}
	return ports, ""
}

// listenKey is the key of a role for the ports of its servers.
const listenKey = "listen"

// listen reads the TCP ports of a role's servers.
func (t *table) listen(r *agents.Role) {
	const want = `a list of TCP ports and ranges such as [3000, "8000-8999"]`
	values, _ := get[[]any](t, listenKey, want)
	s := &shape{Type: []string{"integer", "string"}, Pattern: `^[0-9]+-[0-9]+$`}
	s.between(1, 65535)
	t.shapeOf(listenKey).Items = s
	for _, v := range values {
		ports, ok := portsOf(v)
		switch {
		case !ok:
			said := kindOf(v)
			if text, ok := v.(string); ok {
				said = strconv.Quote(text)
			}
			t.wrong(listenKey, "has %s in it, want %s", said, want)
		case ports.First < 1 || ports.Last > 65535 || ports.Last < ports.First:
			t.wrong(listenKey, "has %v in it, want ports from 1 to 65535", v)
		default:
			r.Sandbox.Listen = append(r.Sandbox.Listen, ports)
		}
	}
	if r.Sandbox.Mode == agents.SandboxOff && t.has(listenKey) {
		t.wrong(listenKey, `is set, and sandbox is "off", which permits every port: remove one of them`)
	}
}

// network reads whether a role's sessions have a network of their own.
func (t *table) network(r *agents.Role) {
	const key = "network"
	switch r.Sandbox.OwnNetwork = t.oneOf(key, "shared", "shared", "own") == "own"; {
	case !r.Sandbox.OwnNetwork:
	case !r.Sandbox.On():
		t.wrong(key, `is "own", and sandbox is "off": it needs the sandbox`)
	case r.Sandbox.Egress == nil:
		t.wrong(key, `is "own", and neither the role nor [factory] has egress: only through its proxy does a session there `+
			`reach the forge and the model`)
	}
}

// portsOf returns the ports for which a number, or two numbers with a hyphen, stand.
func portsOf(v any) (ports agents.Ports, ok bool) {
	switch v := v.(type) {
	case int64:
		port := int(min(max(v, 0), 65536))
		return agents.Ports{First: port, Last: port}, true
	case string:
		n, err := fmt.Sscanf(v+"\n", "%d-%d\n", &ports.First, &ports.Last)
		return ports, n == 2 && err == nil
	}
	return ports, false
}

// checkListening refuses a role's port on which a server of the configuration listens: while that server restarts, an
// agent there would receive its clients' credentials.
func (d *decoder) checkListening() {
	for _, r := range d.config.Roles {
		key := []string{"roles", r.Name, listenKey}
		for _, a := range d.config.Addresses() {
			port := agents.Port(a.URL)
			if slices.ContainsFunc(r.Sandbox.Listen, func(l agents.Ports) bool { return l.First <= port && port <= l.Last }) {
				d.wrong(d.lineOf(key), key, "has %d in it, the port of %s: an agent could take the place of that server", port,
					a.Key)
			}
		}
	}
}
