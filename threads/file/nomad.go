package file

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

var (
	// nomadName matches the names that Nomad allows for namespaces, regions and volumes, of at most maxNomadName bytes.
	nomadName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	// datacenterGlob matches datacenters' names, which may contain * anywhere, and have at most maxNomadName bytes.
	datacenterGlob = regexp.MustCompile(`^[A-Za-z0-9_.*-]+$`)
	// nodeRule is an attribute of a node, as Nomad names it between ${ and }, one of Nomad's operators, and a value.
	// Neither attribute nor value can end the interpolation or start another one. The attribute is at most maxNomadName
	// bytes longer than its prefix. Operators that are words have spaces around them.
	nodeRule = regexp.MustCompile(`^((?:meta|attr|node)\.[A-Za-z0-9_.-]+)` +
		`(?: *(=|!=|>=|<=|>|<) *| (version|semver|regexp|set_contains|set_contains_any|set_contains_all) |` +
		` (is_set|is_not_set)$)` +
		`([^\x00-\x1f\x7f]*)$`)
	// imageName matches the names of container images that registries allow, with their tag or digest.
	imageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$`)
)

const (
	maxNomadName = 128
	maxAttribute = len("meta.") + maxNomadName
	maxNodeValue = 256
)

// localNomad is the address of a Nomad agent on the same machine.
const localNomad = "http://127.0.0.1:4646"

// readNomad reads [nomad].
func (d *decoder) readNomad(t *table) {
	n := &d.config.Nomad
	n.Address = t.nomadAddress()
	n.Token = t.token("token", "", "NOMAD_TOKEN")
	n.Namespace = cmp.Or(t.nomadName("namespace", "NOMAD_NAMESPACE"), "default")
	n.Region, n.Volume = t.nomadName("region", "NOMAD_REGION"), t.nomadName("volume", "")
	t.nomadTLS(n)
	n.Datacenters = t.datacenters()
	if len(n.Datacenters) == 0 {
		n.Datacenters = []string{"*"}
	}
	n.Program = cmp.Or(t.text("program"), "/usr/local/bin/disinto")
	if !path.IsAbs(n.Program) || strings.Contains(n.Program, "${") {
		t.wrong("program", "is %q, want the absolute path of disinto on the nodes", n.Program)
	}
	t.done()
}

// nomadAddress returns the address in the file, or else $NOMAD_ADDR, or else localNomad.
func (t *table) nomadAddress() string {
	if s, subject := t.orVariable("address", "NOMAD_ADDR"); s != "" {
		return t.address("address", strings.TrimSpace(subject), s)
	}
	return localNomad
}

// elsewhere reports whether a thread runs its sessions on other machines.
func (d *decoder) elsewhere() bool {
	return slices.ContainsFunc(d.config.Threads, func(t threads.Thread) bool { return t.Executor != "" })
}

// nomadName reads the name of something in the cluster. If the key is missing, it reads the variable named by unset, if
// any.
func (t *table) nomadName(key, unset string) string {
	s, subject := t.orVariable(key, unset)
	if s != "" && (len(s) > maxNomadName || !nomadName.MatchString(s)) {
		t.wrong(key, "%sis %q, want letters, digits, dashes and underscores", subject, s)
		return ""
	}
	return s
}

// orVariable reads the text of a key. If the key is missing and a thread runs elsewhere, it reads the variable named by
// unset instead. subject starts a message about that variable.
func (t *table) orVariable(key, unset string) (s, subject string) {
	if s = t.text(key); s == "" && unset != "" && t.d.elsewhere() {
		s, _ = t.d.lookupEnv(unset)
		subject = "$" + unset + " "
	}
	return s, subject
}

// nomadTLS reads the files of an encrypted connection. Without encryption it ignores files that only the environment
// names.
func (t *table) nomadTLS(n *threads.Nomad) {
	secure := strings.HasPrefix(n.Address, "https:")
	for _, file := range []struct {
		key, unset string
		into       *string
	}{
		{"ca_cert", "NOMAD_CACERT", &n.CACert},
		{"client_cert", "NOMAD_CLIENT_CERT", &n.ClientCert},
		{"client_key", "NOMAD_CLIENT_KEY", &n.ClientKey},
	} {
		s, subject := t.orVariable(file.key, file.unset)
		switch {
		case s == "" || n.Address == "" || !secure && subject != "":
		case !secure:
			t.wrong(file.key, "has no effect without an address that starts with https")
		case !path.IsAbs(s):
			t.wrong(file.key, "%sis %q, want the absolute path of a PEM file", subject, s)
		default:
			*file.into = s
		}
	}
	if (n.ClientCert == "") != (n.ClientKey == "") {
		t.wrong("client_cert", "is set without client_key, or client_key without it: set both, or neither")
	}
}

// datacenters reads the datacenters in which sessions may run.
func (t *table) datacenters() []string {
	list := t.set("datacenters")
	for _, dc := range list {
		if len(dc) > maxNomadName || !datacenterGlob.MatchString(dc) {
			t.wrong("datacenters", `has %q in it, want names; * stands for any text`, dc)
		}
	}
	return list
}

// executor reads where the sessions of a thread run, and on which nodes.
func (t *table) executor(th *threads.Thread) {
	if th.Executor = t.oneOf("executor", "process", "process", threads.ExecutorNomad); th.Executor == "process" {
		th.Executor = ""
	}
	th.StopEnds = t.oneOf("stop", "detach", "detach", "end") == "end"
	th.Nodes, th.Target = t.nodes(), t.target()
	if th.Executor != "" {
		return
	}
	set := map[string]bool{
		"stop": th.StopEnds, "node": len(th.Nodes) > 0, "node_pool": th.Target.Pool != "",
		"namespace": th.Target.Namespace != "", "datacenters": len(th.Target.Datacenters) > 0,
		"driver": th.Target.Driver != "", "image": th.Target.Image != "",
	}
	for key, is := range set {
		if is {
			t.wrong(key, "%s", onlyNomad+": sessions without it run on this machine, and end with the supervisor")
		}
	}
}

const onlyNomad = `has no effect without executor = "nomad"`

// target reads the part of the cluster in which sessions run, and what starts them there.
func (t *table) target() (g agents.Target) {
	const rawExec = "raw_exec"
	g = agents.Target{
		Namespace: t.nomadName("namespace", ""), Pool: t.nomadName("node_pool", ""), Datacenters: t.datacenters(),
		Driver: t.oneOf("driver", rawExec, rawExec, agents.DriverExec, agents.DriverDocker), Image: t.text("image"),
	}
	switch isDocker := g.Driver == agents.DriverDocker; {
	case g.Image != "" && !imageName.MatchString(g.Image):
		t.wrong("image", `is %q, want an image such as "registry.example.org/disinto:1.0"`, g.Image)
	case isDocker && g.Image == "":
		t.wrong("driver", `is "docker", which needs an image`)
	case !isDocker && g.Image != "":
		t.wrong("image", `has no effect without driver = "docker"`)
	}
	if g.Driver == rawExec {
		g.Driver = ""
	}
	return g
}

// nodes reads the conditions that a node must meet.
func (t *table) nodes() (list []agents.NodeRule) {
	for _, text := range t.set("node") {
		part := nodeRule.FindStringSubmatch(text)
		if part == nil || len(part[1]) > maxAttribute || len(part[5]) > maxNodeValue ||
			strings.Contains(part[5], "${") || part[4] == "" && part[5] == "" {
			t.wrong("node", `has %q in it, want an attribute, an operator of Nomad and a value, such as "meta.llama=box2" or `+
				`"attr.nomad.version version >= 1.9"`, text)
			continue
		}
		rule := agents.NodeRule{Attribute: part[1], Operator: cmp.Or(part[2], part[3], part[4]), Value: part[5]}
		if rule.Operator == "=" {
			rule.Operator = ""
		}
		equal := func(r agents.NodeRule) bool {
			return r.Attribute == rule.Attribute && r.Operator == "" && rule.Operator == ""
		}
		if slices.ContainsFunc(list, equal) {
			t.wrong("node", "has %s twice, but a node has only one value of it", part[1])
		}
		list = append(list, rule)
	}
	return list
}
