package file

import (
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
` + worker

func TestRepos(t *testing.T) {
	c, err := Decode("factory.toml", twoRepos+`
[repos."johba/site"]
setup = [["npm", "ci"], ["npm", "run", "build"]]
setup_timeout = "20m"
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
		}, Verify: agents.Commands{Argv: [][]string{{"go", "test", "./..."}}, Timeout: 15 * time.Minute}},
		{Name: "johba/site", Setup: agents.Commands{
			Argv: [][]string{{"npm", "ci"}, {"npm", "run", "build"}}, Timeout: 20 * time.Minute,
		}, Verify: agents.Commands{Timeout: 15 * time.Minute}, VerifyTries: 3},
	}
	if diff := cmp.Diff(want, c.Repos); diff != "" {
		t.Error(diff)
	}
	if room := c.Room("johba/other"); !room.Empty() {
		t.Errorf("a repository without a table has %+v", room)
	}
}

func TestRepoMistakes(t *testing.T) {
	const commands = `want a list of commands such as [["mkdir", "-p", "/models"]]`
	for _, tt := range []struct{ text, want string }{
		{"[repos.\"johba/harp\"]\nsetup = [[\"a\"]]", `:8: repos."johba/harp": is not among the repos of [forge], did you mean johba/harb?`},
		{"[repos.\"johba/harb\"]", `:8: repos."johba/harb": is empty, want setup or verify`},
		{
			"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\n[repos.\"johba/Harb\"]\nsetup = [[\"a\"]]",
			`:10: repos."johba/Harb": is the repository of another table, too: the case of letters does not count`,
		},
		{"[repos.\"johba/harb\"]\nsetup = [\"npm ci\"]", `:9: repos."johba/harb".setup: has a string in it, ` + commands},
		{"[repos.\"johba/harb\"]\nsetup_timeout = \"1m\"", `:9: repos."johba/harb".setup_timeout: is set, and setup is not`},
		{"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\nsetup_timeout = \"1ms\"", `:10: repos."johba/harb".setup_timeout: is 1ms, want at least 1s`},
		{"[repos.\"johba/harb\"]\nsetup = [[\"a\"]]\nsetups = 1", `:10: repos."johba/harb".setups: unknown key, did you mean setup?`},
		{"[repos.\"johba/harb\"]\nverify_tries = 1", `:9: repos."johba/harb".verify_tries: is set, and verify is not`},
		{"[repos]\nsetup = [[\"a\"]]", `:9: repos.setup: is a list, want a table`},
	} {
		_, err := Decode("factory.toml", twoRepos+tt.text, inContainer)
		if err == nil || err.Error() != "factory.toml"+tt.want {
			t.Errorf("%s\ngot  %v\nwant factory.toml%s", tt.text, err, tt.want)
		}
	}
}
