package file

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

const twoRepos = `[forge]
url = "http://forgejo:3000"
token = "t"
repos = ["johba/harb", "johba/site"]
[threads.llama]
backend = "local"
agents = ["dev-qwen", "dev-a"]
[threads.api]
backend = "api"
agents = ["review-a"]
`

func TestRepos(t *testing.T) {
	c, err := Decode("factory.toml", twoRepos+`
[repos."johba/site"]
setup = [["npm", "ci"], ["npm", "run", "build"]]
setup_timeout = "20m"
priority = 2
max_sessions = 4
budget = { usd_per_day = 20 }
agents = ["dev-a"]
reviewers = ["review-a"]
prompts = "site"
[repos."Johba/Harb"]
setup = [["go", "mod", "download"]]
verify = [["go", "test", "./..."]]
verify_tries = 0
`, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	want := []threads.Repo{
		{Name: "johba/harb", Setup: agents.Commands{
			Argv: [][]string{{"go", "mod", "download"}}, Timeout: 10 * time.Minute,
		}, Verify: agents.Commands{Argv: [][]string{{"go", "test", "./..."}}, Timeout: 15 * time.Minute}, Priority: 5},
		{
			Name: "johba/site", Setup: agents.Commands{
				Argv: [][]string{{"npm", "ci"}, {"npm", "run", "build"}}, Timeout: 20 * time.Minute,
			}, Verify: agents.Commands{Timeout: 15 * time.Minute}, VerifyTries: 3, Priority: 2, MaxSessions: 4,
			Budget: agents.Budget{USD: 20}, Agents: []string{"dev-a"}, Reviewers: []string{"review-a"}, Prompts: "site",
		},
	}
	if diff := cmp.Diff(want, c.Repos); diff != "" {
		t.Error(diff)
	}
	if room := c.Room("johba/other"); !room.Empty() {
		t.Errorf("a repository without a table has %+v", room)
	}
}

func TestRepoMistakes(t *testing.T) {
	const harb = "[repos.\"johba/harb\"]\n"
	const commands = `want a list of commands such as [["mkdir", "-p", "/models"]]`
	for _, tt := range []struct{ text, want string }{
		{"[repos.\"johba/harp\"]\nsetup = [[\"a\"]]", `:11: repos."johba/harp": is not among the repos of [forge], did you mean johba/harb?`},
		{"[repos.\"johba/harb\"]", `:11: repos."johba/harb": is empty, want a key such as setup or agents`},
		{
			"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\n[repos.\"johba/Harb\"]\nsetup = [[\"a\"]]",
			`:13: repos."johba/Harb": is the repository of another table, too: the case of letters does not count`,
		},
		{"[repos.\"johba/harb\"]\nsetup = [\"npm ci\"]", `:12: repos."johba/harb".setup: has a string in it, ` + commands},
		{"[repos.\"johba/harb\"]\nsetup_timeout = \"1m\"", `:12: repos."johba/harb".setup_timeout: is set, and setup is not`},
		{"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\nsetup_timeout = \"1ms\"", `:13: repos."johba/harb".setup_timeout: is 1ms, want at least 1s`},
		{"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\nsetups = 1", `:13: repos."johba/harb".setups: unknown key, did you mean setup?`},
		{"[repos.\"johba/harb\"]\nverify_tries = 1", `:12: repos."johba/harb".verify_tries: is set, and verify is not`},
		{harb + "priority = 11", `:12: repos."johba/harb".priority: is 11, want 1 (first) to 10 (last)`},
		{harb + "max_sessions = 0", `:12: repos."johba/harb".max_sessions: is 0, want at least 1`},
		{harb + "budget = {}", `:12: repos."johba/harb".budget: is empty, want tokens_per_day or usd_per_day`},
		{harb + "agents = []", `:12: repos."johba/harb".agents: is empty, want at least one agent; without the key it is every agent`},
		{
			harb + "agents = [\"dev-b\"]",
			`:12: repos."johba/harb".agents: has "dev-b" in it, which is in no thread's agents, did you mean dev-a?`,
		},
		{harb + "agents = [\"review-a\"]", `:12: repos."johba/harb".agents: has review-a in it, which has no role for issue`},
		{harb + "reviewers = [\"dev-a\"]", `:12: repos."johba/harb".reviewers: has dev-a in it, which has no role for review`},
		{harb + "prompts = 1", `:12: repos."johba/harb".prompts: is a number, want a string`},
		{"[repos]\nsetup = [[\"a\"]]", `:12: repos.setup: is a list, want a table`},
	} {
		_, err := Decode("factory.toml", twoRepos+tt.text, inContainer)
		if err == nil || err.Error() != "factory.toml"+tt.want {
			t.Errorf("%s\ngot  %v\nwant factory.toml%s", tt.text, err, tt.want)
		}
	}
}

// TestEgress reads the hosts of [factory], a role and a repository, which add up, and refuses what cannot hold.
func TestEgress(t *testing.T) {
	const text = `[forge]
url = "http://git.lan:3000"
repos = ["johba/harb", "johba/other"]
[factory]
egress = ["@go"]
setup_egress = ["@debian"]
[threads.api]
backend = "anthropic"
agents = ["dev-a", "docs-a"]
[roles.dev]
cli = "claude"
egress = ["@npm"]
[roles.docs]
on = "issue"
label = "docs"
command = ["docs"]
[repos."johba/harb"]
setup = [["npm", "ci"]]
egress = ["db.lan:5432"]
setup_egress = ["@pypi"]
`
	c, err := Decode("factory.toml", text, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	thread := c.Thread("api")
	hosts, setup := c.Egress(c.Role("dev"), c.Agent("dev-a"), thread, "johba/harb")
	const want = "@go @npm db.lan:5432 git.lan:3000 api.anthropic.com "
	if got := strings.Join(hosts, " "); !strings.HasPrefix(got+" ", want) {
		t.Errorf("hosts %s, want %s", got, want)
	}
	if got := strings.Join(setup, " "); got != "@debian @pypi" {
		t.Errorf("hosts of the setup: %s", got)
	}
	hosts, setup = c.Egress(c.Role("docs"), c.Agent("docs-a"), thread, "johba/other")
	if got := strings.Join(hosts, " "); got != "@go git.lan:3000" || setup != nil {
		t.Errorf("hosts %s, of the setup %s", got, setup)
	}
	open := regexp.MustCompile(`(?m)^(setup_)?egress`).ReplaceAllString(text, "#")
	if c, err = Decode("factory.toml", open, inContainer); err != nil {
		t.Fatal(err)
	}
	own := strings.Replace(open, "# = [\"@npm\"]", "network = \"own\"", 1)
	const needs = `:12: roles.dev.network: is "own", and neither the role nor [factory] has egress`
	if _, err := Decode("factory.toml", own, inContainer); err == nil || !strings.Contains(err.Error(), needs) {
		t.Errorf("%v, want %s", err, needs)
	}
	if hosts, _ := c.Egress(c.Role("dev"), c.Agent("dev-a"), thread, "johba/harb"); hosts != nil {
		t.Errorf("without a key the hosts are %q, want all", hosts)
	}
	for change, want := range map[string]string{
		"egress = [\"@go\"]|egress = []":                             "",
		"egress = [\"@go\"]|egress = [\"https://go.dev\"]":           `:5: factory.egress: "https://go.dev" is an address, want its host alone`,
		"egress = [\"@npm\"]|network = \"own\"":                      "",
		"egress = [\"@npm\"]|network = \"host\"":                     `:12: roles.dev.network: `,
		"egress = [\"@npm\"]|network = \"own\"\nsandbox = \"off\"":   `:12: roles.dev.network: is "own", and sandbox is "off": it needs the sandbox`,
		"egress = [\"@npm\"]|sandbox = \"off\"":                      `:12: roles.dev.sandbox: is "off", and egress needs the sandbox`,
		"egress = [\"@npm\"]|sandbox = \"off\"\negress = [\"@npm\"]": `:13: roles.dev.egress: is set, and sandbox is "off": remove one of them`,
	} {
		from, to, _ := strings.Cut(change, "|")
		_, err := Decode("factory.toml", strings.Replace(text, from, to, 1), inContainer)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", to, err, want)
		}
	}
}
