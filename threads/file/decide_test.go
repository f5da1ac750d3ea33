package file

import (
	"fmt"
	"strings"
	"testing"
)

func TestDecideKey(t *testing.T) {
	base := `[forge]
url = "http://forge"
token = "tokentoken"
repos = ["o/r"]
[threads.t]
backend = "api"
agents = ["dev-a"]
[agents.dev-a]
token = "agentagent"
[roles.dev]
command = ["true"]
[factory]
state = "/var/lib/disinto"
decide = %q
`
	for value, want := range map[string]string{
		"":                      "",
		"shadow:/opt/new":       "/opt/new",
		"shadow:/opt//x/../new": "/opt/new",
		"shadow:/opt/a b:c":     "/opt/a b:c",
	} {
		c, err := Decode("factory.toml", fmt.Sprintf(base, value), nothing)
		if err != nil || c.Factory.Shadow != want || want != "" && c.Factory.ShadowLine != 14 {
			t.Errorf("%q: got %+v, %v", value, c, err)
		}
	}
	for _, value := range []string{"shadow:", "shadow:new", "shadow", "/opt/new", "self", "Shadow:/opt/new"} {
		_, err := Decode("factory.toml", fmt.Sprintf(base, value), nothing)
		want := fmt.Sprintf(`factory.toml:14: factory.decide: is %q, want "shadow:" and the absolute path`, value)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", value, err, want)
		}
	}
}

func nothing(string) (string, bool) { return "", false }
