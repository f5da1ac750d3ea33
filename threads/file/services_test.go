package file

import (
	"fmt"
	"strings"
	"testing"

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
		{"unknown key", a + `restart = "always"`, ":6: services.a.restart: unknown key"},
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
