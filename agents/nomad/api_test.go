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
		Nodes: []agents.NodeRule{{Attribute: "meta.llama", Value: "box2"}},
	}, "", time.Unix(0, 0))
	job := describe(jobID("i-1"), o, Config{
		Volume: "disinto", Namespace: "n", Region: "r", Datacenters: []string{"dc1"}, Program: "/usr/local/bin/disinto",
	})
	if err := decodeStrictly(job); err != nil {
		t.Error(err)
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
