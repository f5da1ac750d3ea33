package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// A thread's credentials are secrets of the thread, its other variables are not.
func TestThreadVariables(t *testing.T) {
	decode := func(env string) ([]agents.Var, []agents.SecretVar, error) {
		text := strings.Replace(worker, "[threads.llama]\n", "[threads.llama]\n"+env+"\n", 1)
		c, err := Decode("factory.toml", text, func(name string) (string, bool) {
			switch name {
			case "KEY_B":
				return "key-of-thread-b", true
			case "ZONE":
				return "eu-west-1", true
			}
			return inContainer(name)
		})
		if err != nil {
			return nil, nil, err
		}
		return c.Threads[0].Vars, slices.DeleteFunc(c.Secrets, func(s agents.SecretVar) bool { return s.Thread == "" }), nil
	}
	vars, secrets, err := decode(
		`env = { ANTHROPIC_API_KEY = "$KEY_B", AWS_REGION = "$ZONE", MY_TOKEN = "literal-token-1" }`)
	if err != nil {
		t.Fatal(err)
	}
	want := []agents.Var{
		{Name: "ANTHROPIC_API_KEY", Value: "key-of-thread-b"},
		{Name: "AWS_REGION", Value: "eu-west-1"},
		{Name: "MY_TOKEN", Value: "literal-token-1"},
	}
	if diff := cmp.Diff(want, vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	hidden := []agents.SecretVar{
		{Value: "literal-token-1", Thread: "llama"}, {Name: "KEY_B", Value: "key-of-thread-b", Thread: "llama"},
	}
	if diff := cmp.Diff(hidden, secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	for env, want := range map[string]string{
		`env = { FORGE_TOKEN = "x" }`:    "threads.llama.env.FORGE_TOKEN: is set by disinto itself",
		`env = { HOME = "/x" }`:          "threads.llama.env.HOME: is set by disinto itself",
		`env = { A_KEY = "$NONE" }`:      "threads.llama.env.A_KEY: $NONE is not set",
		`env = { A_KEY = "$no-name" }`:   "threads.llama.env.A_KEY: starts with $, want $NAME",
		`env = { DISINTO_RUN_ID = "x" }`: "threads.llama.env.DISINTO_RUN_ID: is set by disinto itself",
		`env = { A = ["b"] }`:            "threads.llama.env.A: is a list, want a string",
	} {
		if _, _, err := decode(env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", env, err, want)
		}
	}
}
