package file

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

func TestServices(t *testing.T) {
	c, err := Decode("factory.toml", worker+`
[services.llama]
command = ["llama-server", "--port", "8080"]
before = [["mkdir", "-p", "/models"], ["fetch"]]
needs = ["net"]
user = "llama"
limits = { memory = "8G" }
ready = "http://127.0.0.1:8080/health/"

[services.net]
command = ["net"]
ready = ["test", "-e", "/up"]
`, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	want := []threads.Service{
		{
			Name: "llama", Command: []string{"llama-server", "--port", "8080"},
			Before: [][]string{{"mkdir", "-p", "/models"}, {"fetch"}}, Needs: []string{"net"}, User: "llama",
			Limits: agents.Limits{Memory: 8 << 30}, ReadyURL: "http://127.0.0.1:8080/health",
		},
		{Name: "net", Command: []string{"net"}, ReadyCommand: []string{"test", "-e", "/up"}},
	}
	if diff := cmp.Diff(want, c.Services); diff != "" {
		t.Error(diff)
	}
}

// TestServiceChoices decodes the keys that few services set.
func TestServiceChoices(t *testing.T) {
	c, err := Decode("factory.toml", worker+`
[services.app]
command = ["app"]
needs = ["migrate"]
ready = { url = "http://127.0.0.1:8080/", timeout = "20s", failures = 3, restart_after = "10m" }
[services.db]
command = ["postgres"]
cwd = "/data"
env = { PGDATA = "/data", LANG = "" }
stop_signal = "INT"
grace = "30s"
stdout = true
restart = "never"
ready = { after = "5s" }
[services.migrate]
command = ["migrate"]
oneshot = true
`, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	want := []threads.Service{
		{
			Name: "app", Command: []string{"app"}, Needs: []string{"migrate"}, ReadyURL: "http://127.0.0.1:8080",
			ReadyTimeout: 20 * time.Second, ReadyFailures: 3, RestartAfter: 10 * time.Minute,
		},
		{
			Name: "db", Command: []string{"postgres"}, Cwd: "/data", Env: []string{"LANG=", "PGDATA=/data"}, StopSignal: "INT",
			Grace: 30 * time.Second, Stdout: true, Restart: threads.RestartNever, ReadyAfter: 5 * time.Second,
		},
		{Name: "migrate", Command: []string{"migrate"}, Oneshot: true},
	}
	if diff := cmp.Diff(want, c.Services); diff != "" {
		t.Error(diff)
	}
}

func TestServiceMistakes(t *testing.T) {
	const a, b = "[services.a]\ncommand = [\"a\"]\n", "[services.b]\ncommand = [\"b\"]\n"
	const program = `want a list such as ["llama-server", "--port", "8080"]`
	const commands = `want a list of commands such as [["mkdir", "-p", "/models"]]`
	const ready = `want an address such as "http://127.0.0.1:8080/health", or a command such as ["pg_isready"]`
	tests := []struct{ name, text, want string }{
		{"no command", "[services.a]\n", ":4: services.a.command: is not set, " + program},
		{"command as text", "[services.a]\ncommand = \"a b\"", ":5: services.a.command: is a string, " + program},
		{"empty command", "[services.a]\ncommand = []", ":5: services.a.command: is empty, " + program},
		{"no program", "[services.a]\ncommand = [\" \", \"b\"]", ":5: services.a.command: has an empty program"},
		{"a number in it", "[services.a]\ncommand = [\"a\", 8080]", ":5: services.a.command: has a number in it, " + program},
		{"NUL", "[services.a]\ncommand = [\"a\\u0000\"]", ":5: services.a.command: has a NUL character in it"},
		{"one command before", a + `before = ["mkdir", "-p"]`, ":6: services.a.before: has a string in it, " +
			commands + "\n" +
			":6: services.a.before: has a string in it, " + commands},
		{"empty before", a + `before = [[]]`, ":6: services.a.before: is empty, " + commands},
		{"ready as a number", a + `ready = 8080`, ":6: services.a.ready: is a number, " + ready},
		{
			"ready as a path", a + `ready = "/health"`,
			`:6: services.a.ready: is "/health", want an address such as "http://127.0.0.1:8080/health"`,
		},
		{"empty ready", a + `ready = []`, ":6: services.a.ready: is empty, " + ready},
		{"unknown key", a + `restarts = "always"`, ":6: services.a.restarts: unknown key, did you mean restart?"},
		{"restart", a + `restart = "sometimes"`, `:6: services.a.restart: is "sometimes", want "always", "on-failure" or "never"`},
		{
			"oneshot for ever", a + "oneshot = true\nrestart = \"always\"",
			`:7: services.a.restart: is "always", and oneshot is set: want "on-failure" or "never"`,
		},
		{
			"oneshot with ready", a + "oneshot = true\nready = [\"true\"]",
			":7: services.a.ready: is set, and oneshot is too: that one is ready when its command has ended with 0",
		},
		{"relative cwd", a + `cwd = "data"`, `:6: services.a.cwd: is "data", want an absolute path`},
		{
			"stop_signal", a + `stop_signal = "SIGINT"`,
			`:6: services.a.stop_signal: is "SIGINT", want "HUP", "INT", "QUIT", "TERM", "USR1", "USR2" or "WINCH"`,
		},
		{"no grace", a + `grace = "0s"`, ":6: services.a.grace: is 0s, want at least 1s"},
		{"no variable", a + `env = { "A=B" = "c" }`, `:6: services.a.env."A=B": is not the name of an environment variable`},
		{"variable of ours", a + `env = { DISINTO_RUN_ID = "c" }`, ":6: services.a.env.DISINTO_RUN_ID: is set by disinto itself"},
		{"number as a variable", a + `env = { A = 1 }`, ":6: services.a.env.A: is a number, want a string"},
		{"empty table", a + "ready = {}", ":6: services.a.ready: has neither url, command nor after in it"},
		{
			"two checks", a + `ready = { url = "http://localhost:1", command = ["b"] }`,
			":6: services.a.ready.command: is set, and url is too: want one of them",
		},
		{
			"check and after", a + `ready = { command = ["b"], after = "2s" }`,
			":6: services.a.ready.after: is set, and so is a check, which says when it is ready",
		},
		{
			"threshold of nothing", a + `ready = { after = "2s", failures = 2 }`,
			":6: services.a.ready.failures: is set, and there is no check: want url or command",
		},
		{
			"url as a path", a + `ready = { url = "/health" }`,
			`:6: services.a.ready: url is "/health", want an address such as "http://127.0.0.1:8080/health"`,
		},
		{
			"name", "[services.\"a/b\"]\ncommand = [\"a\"]",
			`:4: services."a/b": is not a valid name: want letters and digits, with - _ . between them`,
		},
		{
			"name of an agent", "[services.dev-qwen]\ncommand = [\"a\"]",
			":4: services.dev-qwen: is the name of an agent, too: disinto logs could not tell them apart",
		},
		{"unknown need", a + `needs = ["zebra"]` + "\n" + b, `:6: services.a.needs: has "zebra" in it, which is no service`},
		{
			"close need", "[services.llama]\ncommand = [\"a\"]\n" + b + `needs = ["lama"]`,
			`:8: services.b.needs: has "lama" in it, which is no service, did you mean llama?`,
		},
		{"itself", a + `needs = ["a"]`, ":6: services.a.needs: leads in a circle, so none of these could start: a -> a"},
		{
			"circle", a + "needs = [\"b\"]\n" + b + "needs = [\"a\"]",
			":6: services.a.needs: leads in a circle, so none of these could start: a -> b -> a",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode("factory.toml", worker+tt.text, inContainer)
			if got := strings.ReplaceAll(fmt.Sprint(err), "factory.toml", ""); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestManyNeeds decodes services that each need all later ones. There are too many paths to follow each.
func TestManyNeeds(t *testing.T) {
	var text strings.Builder
	for i := range 40 {
		fmt.Fprintf(&text, "[services.s%02d]\ncommand = [\"a\"]\nneeds = [", i)
		for j := i + 1; j < 40; j++ {
			fmt.Fprintf(&text, "\"s%02d\", ", j)
		}
		text.WriteString("]\n")
	}
	if _, err := Decode("factory.toml", worker+text.String(), inContainer); err != nil {
		t.Fatal(err)
	}
}
