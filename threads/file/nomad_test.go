package file

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		t.Error("the token of the cluster is not among the secrets")
	}
	// Where nothing runs elsewhere, a cluster's address that an operator's shell has set cannot be a mistake.
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
		t.Errorf("%v", err)
	}
}
