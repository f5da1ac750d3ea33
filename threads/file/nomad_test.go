package file

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

func TestNomad(t *testing.T) {
	const text = worker + `executor = "nomad"
stop = "end"
node = ["node.class=gpu", "meta.llama=box2"]
[nomad]
namespace = "factory"
region = "eu"
datacenters = ["dc1", "lab-*"]
volume = "agents"
program = "/opt/disinto"
`
	lookup := func(name string) (string, bool) {
		if v, ok := map[string]string{"NOMAD_ADDR": "https://box1:4646/", "NOMAD_TOKEN": "acl"}[name]; ok {
			return v, ok
		}
		return inContainer(name)
	}
	c, err := Decode("f", text, lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := threads.Nomad{
		Address: "https://box1:4646", Token: "acl", Namespace: "factory", Region: "eu", Datacenters: []string{"dc1", "lab-*"},
		Volume: "agents", Program: "/opt/disinto",
	}
	if diff := cmp.Diff(want, c.Nomad); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	th := c.Thread("llama")
	nodes := []agents.NodeRule{{Attribute: "meta.llama", Value: "box2"}, {Attribute: "node.class", Value: "gpu"}}
	if diff := cmp.Diff(nodes, th.Nodes); diff != "" || th.Executor != threads.ExecutorNomad || !th.StopEnds {
		t.Errorf("thread %+v (-want +got):\n%s", th, diff)
	}
	secret := agents.SecretVar{Name: "NOMAD_TOKEN", Value: "acl"}
	found := false
	for _, s := range c.Secrets {
		found = found || s == secret
	}
	if !found {
		t.Error("the cluster's token is not among the secrets")
	}
	// If no thread uses Nomad, a cluster address in the operator's shell is never a mistake.
	odd := func(name string) (string, bool) {
		if name == "NOMAD_ADDR" {
			return "unix:///run/nomad.sock", true
		}
		return inContainer(name)
	}
	if _, err := Decode("f", worker, odd); err != nil {
		t.Error(err)
	}
	if c, err := Decode("f", worker+`executor = "process"`, inContainer); err != nil || c.Thread("llama").Executor != "" {
		t.Errorf("executor \"process\": %v", err)
	}
}

// TestNomadTarget: a thread's conditions have Nomad's operators, and it names a part of the cluster and a driver. An
// isolated session needs neither a sandbox nor an account of its own.
func TestNomadTarget(t *testing.T) {
	c, err := Decode("f", worker+`executor = "nomad"
node = ["attr.kernel.version version >= 5.15, < 7", "meta.gpu is_set", "meta.llama != box2", "meta.rack regexp ^a[0-9]$",
	"node.class=gpu", "attr.memory.totalbytes >= 8000000000"]
node_pool = "gpu"
namespace = "lab"
datacenters = ["dc1"]
driver = "docker"
image = "registry:5000/disinto@sha256:0ff"
[agents.dev-qwen]
limits = { memory = "2G", memory_max = "4G", cores = 2 }
[roles.dev]
command = ["a"]
sandbox = "off"
`, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	want := agents.Job{
		Agent: "dev-qwen", Thread: "llama", User: c.Factory.User, Grace: c.Factory.StopGrace, Timeout: time.Hour,
		Limits: agents.Limits{Memory: 2 << 30, MemoryMax: 4 << 30, Cores: 2},
		Nodes: []agents.NodeRule{
			{Attribute: "attr.kernel.version", Operator: "version", Value: ">= 5.15, < 7"},
			{Attribute: "attr.memory.totalbytes", Operator: ">=", Value: "8000000000"},
			{Attribute: "meta.gpu", Operator: "is_set"},
			{Attribute: "meta.llama", Operator: "!=", Value: "box2"},
			{Attribute: "meta.rack", Operator: "regexp", Value: "^a[0-9]$"},
			{Attribute: "node.class", Value: "gpu"},
		},
		Target: agents.Target{
			Namespace: "lab", Pool: "gpu", Datacenters: []string{"dc1"}, Driver: agents.DriverDocker,
			Image: "registry:5000/disinto@sha256:0ff",
		},
	}
	if diff := cmp.Diff(want, c.Placed(c.Agent("dev-qwen")), cmpopts.IgnoreFields(agents.Job{}, "Spent")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNomadVariables checks that the environment variables of Nomad's own CLI replace missing keys if a thread uses
// Nomad. The file takes precedence, and without https the variables for TLS are ignored.
func TestNomadVariables(t *testing.T) {
	set := map[string]string{
		"NOMAD_ADDR": "https://box1:4646", "NOMAD_NAMESPACE": "factory", "NOMAD_REGION": "eu", "NOMAD_CACERT": "/tls/ca.pem",
		"NOMAD_CLIENT_CERT": "/tls/cli.pem", "NOMAD_CLIENT_KEY": "/tls/key.pem",
	}
	lookup := func(name string) (string, bool) {
		if v, ok := set[name]; ok {
			return v, ok
		}
		return inContainer(name)
	}
	want := threads.Nomad{
		Address: "https://box1:4646", Namespace: "factory", Region: "eu", Datacenters: []string{"*"},
		Program: "/usr/local/bin/disinto",
		CACert:  "/tls/ca.pem", ClientCert: "/tls/cli.pem", ClientKey: "/tls/key.pem",
	}
	const far = worker + "executor = \"nomad\"\n[nomad]\n"
	plain, local := want, want
	plain.Address, plain.CACert, plain.ClientCert, plain.ClientKey = "http://a:1", "", "", ""
	local = plain
	local.Address, local.Namespace, local.Region = localNomad, "default", ""
	named := want
	named.Namespace, named.Region, named.CACert = "a", "b", "/c"
	for text, want := range map[string]threads.Nomad{
		far:                             want,
		far + `address = "http://a:1"`:  plain,
		worker + `executor = "process"`: local,
		far + "namespace = \"a\"\nregion = \"b\"\nca_cert = \"/c\"": named,
	} {
		c, err := Decode("f", text, lookup)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, c.Nomad); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	set["NOMAD_NAMESPACE"] = "*"
	if _, err := Decode("f", far, lookup); err == nil || !strings.Contains(err.Error(), `$NOMAD_NAMESPACE is "*"`) {
		t.Errorf("got error %v, want one about $NOMAD_NAMESPACE", err)
	}
}

// TestNomadLengths checks that a name or a constraint for a cluster may be as long as Nomad allows, and no longer.
func TestNomadLengths(t *testing.T) {
	for want, most := range map[string]int{
		"node = [\"meta.%s=box2\"]\n": 128, "node = [\"node.class=%s\"]\n": 256,
		"[nomad]\nnamespace = \"%s\"\n": 128, "[nomad]\ndatacenters = [\"%s\"]\n": 128,
	} {
		for _, n := range []int{most, most + 1} {
			text := worker + "executor = \"nomad\"\nstop = \"end\"\n" + fmt.Sprintf(want, strings.Repeat("x", n))
			if _, err := Decode("f", text, inContainer); (err == nil) != (n == most) {
				t.Errorf("%q with %d bytes: %v", want, n, err)
			}
		}
	}
}
