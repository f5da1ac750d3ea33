package file

import (
	"path"
	"slices"

	"codeberg.org/johba/disinto/agents"
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
	for _, key := range []string{"sandbox_read", "sandbox_write", "sandbox_connect"} {
		if s.Mode == agents.SandboxOff && t.has(key) && t.has("sandbox") {
			t.wrong(key, `is set, and sandbox is "off": remove one of them`)
		}
	}
	return s
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
