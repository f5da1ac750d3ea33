package nomad

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"codeberg.org/johba/disinto/agents"
)

// TestJobStrict: every field of our job is one of Nomad's own, because Nomad ignores a misspelt one without a word.
func TestJobStrict(t *testing.T) {
	o := newOrder(agents.Job{
		RunID: "i-1", Instance: "i", Agent: "dev", Repo: "o/r", Number: 7, Claim: "c0ffee", Place: "box2/1234",
		Timeout: time.Hour, Grace: 7 * time.Second, Limits: agents.Limits{Memory: 64 << 20}, MaxLog: 1 << 20,
		Nodes: []agents.NodeRule{{Attribute: "meta.llama", Value: "box2"}}, Priority: 1,
	}, "", time.Unix(0, 0))
	cfg := Config{
		Volume: "disinto", Namespace: "n", Region: "r", Datacenters: []string{"dc1"}, Program: "/usr/local/bin/disinto",
	}
	job := describe(jobID("i-1"), o, cfg)
	for _, target := range []agents.Target{
		{},
		{Driver: agents.DriverExec, Pool: "gpu", Namespace: "lab", Datacenters: []string{"dc1"}},
		{Driver: agents.DriverDocker, Image: "disinto:1"},
	} {
		o.Job.Target, o.Job.Limits = target, agents.Limits{Memory: 1 << 30, MemoryMax: 2 << 30, Cores: 2}
		if err := decodeStrictly(describe(jobID("i-1"), o, cfg)); err != nil {
			t.Errorf("the job for %+v: %v", target, err)
		}
		if err := decodeStrictly(describeTry(jobID("t"), &o.Job, cfg)); err != nil {
			t.Errorf("the try for %+v: %v", target, err)
		}
	}
	job["KillTimeout"] = 1 // a field of tasks
	if err := decodeStrictly(job); err == nil || !strings.Contains(err.Error(), `unknown field "KillTimeout"`) {
		t.Errorf("a field that jobs do not have: got %v, want an error", err)
	}
}

func decodeStrictly(job table) error {
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	return strict.Decode(new(api.Job))
}
