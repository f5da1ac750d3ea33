package main

import (
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/executortest"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// The test suite's executor and the supervisor's executor have the same methods.
var (
	_ supervisor.Executor   = executortest.Executor(nil)
	_ executortest.Executor = supervisor.Executor(nil)
)

// hasAgent and hasBot ignore the case of logins, as the forge does.
func TestAgentsInAnyCase(t *testing.T) {
	c := &threads.Config{
		Forge: threads.Forge{Bots: []string{"Dev-Iris"}}, Agents: []agents.Agent{{Name: "dev-qwen", Login: "Dev-Qwen"}},
	}
	for login, want := range map[string]bool{
		"dev-qwen": true, "Dev-Qwen": true, "dev-iris": true, "DEV-IRIS": true,
		"johba": false,
	} {
		if got := hasAgent(c, login) || hasBot(c, login); got != want {
			t.Errorf("%s: got agent = %v", login, got)
		}
	}
}

// The first entry of a registry is the default. A variable can choose another one.
func TestRegistry(t *testing.T) {
	r := registry[int]{{"one", 1}, {"two", 2}}
	for name, want := range map[string]int{"": 1, "one": 1, "two": 2} {
		got, err := r.choose("X", func(string) (string, bool) { return name, name != "" })
		if got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", name, got, err, want)
		}
	}
	_, err := r.choose("DISINTO_EXECUTOR", func(string) (string, bool) { return "magic", true })
	if want := `$DISINTO_EXECUTOR: there is no "magic", want one, two`; exitCode(err) != exitUsage || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
