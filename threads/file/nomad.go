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
	// nomadName has the names that Nomad allows for namespaces, regions and volumes.
	nomadName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	// datacenterGlob may have a * anywhere.
	datacenterGlob = regexp.MustCompile(`^[A-Za-z0-9_.*-]{1,128}$`)
	// nodeRule is an attribute of a node, as Nomad names it between ${ and }, and a value. Neither can end the
	// interpolation, or begin another one.
	nodeRule = regexp.MustCompile(`^((?:meta|attr|node)\.[A-Za-z0-9_.-]{1,128})=([A-Za-z0-9_.:/-]{1,256})$`)
)

// localNomad is where a Nomad agent on the same machine listens.
const localNomad = "http://127.0.0.1:4646"

// readNomad reads [nomad].
func (d *decoder) readNomad(t *table) {
	n := &d.config.Nomad
	n.Address = t.nomadAddress()
	n.Token = t.token("token", "", "NOMAD_TOKEN")
	n.Namespace = cmp.Or(t.nomadName("namespace"), "default")
	n.Region, n.Volume = t.nomadName("region"), t.nomadName("volume")
	n.Datacenters = t.set("datacenters")
	for _, dc := range n.Datacenters {
		if !datacenterGlob.MatchString(dc) {
			t.wrong("datacenters", `has %q in it, want names, in which * stands for anything`, dc)
		}
	}
	if len(n.Datacenters) == 0 {
		n.Datacenters = []string{"*"}
	}
	n.Program = cmp.Or(t.text("program"), "/usr/local/bin/disinto")
	if !path.IsAbs(n.Program) || strings.Contains(n.Program, "${") {
		t.wrong("program", "is %q, want the absolute path of disinto on the nodes", n.Program)
	}
	t.done()
}

// nomadAddress is that of the file, or else $NOMAD_ADDR.
func (t *table) nomadAddress() string {
	if s := t.text("address"); s != "" {
		return t.address("address", "", s)
	}
	if s, _ := t.d.lookupEnv("NOMAD_ADDR"); s != "" && t.d.elsewhere() {
		return t.address("address", "$NOMAD_ADDR", s)
	}
	return localNomad
}

// elsewhere reports whether a thread runs its sessions on other machines.
func (d *decoder) elsewhere() bool {
	return slices.ContainsFunc(d.config.Threads, func(t threads.Thread) bool { return t.Executor != "" })
}

func (t *table) nomadName(key string) string {
	s := t.text(key)
	if s != "" && !nomadName.MatchString(s) {
		t.wrong(key, "is %q, want letters, digits, dashes and underscores", s)
		return ""
	}
	return s
}

// executor reads what runs the sessions of a thread, and where.
func (t *table) executor(th *threads.Thread) {
	if th.Executor = t.oneOf("executor", "process", "process", threads.ExecutorNomad); th.Executor == "process" {
		th.Executor = ""
	}
	th.StopEnds = t.oneOf("stop", "detach", "detach", "end") == "end"
	th.Nodes = t.nodes()
	const nothing = `means nothing without executor = "nomad": ` +
		"sessions on this machine run here, and end with the supervisor"
	if th.Executor == "" && th.StopEnds {
		t.wrong("stop", nothing)
	}
	if th.Executor == "" && len(th.Nodes) > 0 {
		t.wrong("node", nothing)
	}
}

// nodes reads what nodes must have.
func (t *table) nodes() (list []agents.NodeRule) {
	rules := t.set("node")
	for _, rule := range rules {
		part := nodeRule.FindStringSubmatch(rule)
		if part == nil {
			t.wrong("node", `has %q in it, want an attribute and its value, such as "meta.llama=box2" or "node.class=gpu"`, rule)
			continue
		}
		same := func(r agents.NodeRule) bool { return r.Attribute == part[1] }
		if slices.ContainsFunc(list, same) {
			t.wrong("node", "has %s twice, and a node has one value", part[1])
		}
		list = append(list, agents.NodeRule{Attribute: part[1], Value: part[2]})
	}
	return list
}
