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
	// nodeRule is an attribute of a node, as Nomad names it between ${ and }, and a value. Neither can end the
	// interpolation or start another one. The attribute is at most maxNomadName bytes longer than its prefix.
	nodeRule = regexp.MustCompile(`^((?:meta|attr|node)\.[A-Za-z0-9_.-]+)=([A-Za-z0-9_.:/-]+)$`)
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
	n.Datacenters = t.set("datacenters")
	for _, dc := range n.Datacenters {
		if len(dc) > maxNomadName || !datacenterGlob.MatchString(dc) {
			t.wrong("datacenters", `has %q in it, want names; * stands for any text`, dc)
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

// executor reads where the sessions of a thread run, and on which nodes.
func (t *table) executor(th *threads.Thread) {
	if th.Executor = t.oneOf("executor", "process", "process", threads.ExecutorNomad); th.Executor == "process" {
		th.Executor = ""
	}
	th.StopEnds = t.oneOf("stop", "detach", "detach", "end") == "end"
	th.Nodes = t.nodes()
	const nothing = `has no effect without executor = "nomad": ` +
		"sessions without it run on this machine, and end with the supervisor"
	if th.Executor == "" && th.StopEnds {
		t.wrong("stop", nothing)
	}
	if th.Executor == "" && len(th.Nodes) > 0 {
		t.wrong("node", nothing)
	}
}

// nodes reads the attributes that a node must have.
func (t *table) nodes() (list []agents.NodeRule) {
	rules := t.set("node")
	for _, rule := range rules {
		part := nodeRule.FindStringSubmatch(rule)
		if part == nil || len(part[1]) > maxAttribute || len(part[2]) > maxNodeValue {
			t.wrong("node", `has %q in it, want an attribute and its value, such as "meta.llama=box2" or "node.class=gpu"`, rule)
			continue
		}
		same := func(r agents.NodeRule) bool { return r.Attribute == part[1] }
		if slices.ContainsFunc(list, same) {
			t.wrong("node", "has %s twice, but a node has only one value of it", part[1])
		}
		list = append(list, agents.NodeRule{Attribute: part[1], Value: part[2]})
	}
	return list
}
