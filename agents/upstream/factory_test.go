package upstream_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents/upstream"
)

var update = flag.Bool("update", false, "write the results to testdata")

// harb is a project as upstream's own example describes it, with both kinds of agents.
const harb = `
name = "harb"
repo = "johba/harb"
ops_repo = "johba/harb-ops"
forge_url = "http://forgejo:3000/"
repo_root = "/home/YOU/harb"
[ci]
woodpecker_repo_id = 7
stale_minutes = 60
[monitoring]
check_prs = true
[agents.schedule]
planner_interval = 43200
[agents.llama]
base_url = "http://10.10.10.1:8081"
model = "qwen"
api_key = "sk-none"
roles = ["dev"]
forge_user = "dev-qwen"
compact_pct = 60
poll_interval = 60
[agents.glm]
base_url = "http://10.10.10.1:8081"
roles = ["dev gardener"]
`

// tables is a project with its own threads, as in the document that requested them.
const tables = `
name = "harb"
repo = "johba/harb"
forge_url = "http://forgejo:3000"
[threads.anthropic]
backend = "anthropic"
max_concurrent = 1
overlap = true    # agents can share the slot
agents = ["review-sonnet", "planner-sonnet"]
env_allow = ["GITHUB_TOKEN"]
budget = { tokens_per_day = 2_000_000 }
[threads.llama]
backend = "local"
base_url = "http://localhost:8080/v1"
max_concurrent = 2
overlap = false   # sticky: one agent per slot until done
agents = ["dev-qwen", "gardener-qwen", "dev-bot"]
[agents.dev-qwen]
roles = ["dev"]
model = "qwen3.5"
[agents.other]
base_url = "http://other:8080"
roles = ["dev"]
`

const versi = "name = \"versi\"\nrepo = \"johba/versi\"\nprimary_branch = \"master\"\n"

func parse(t *testing.T, path, text string) *upstream.Project {
	t.Helper()
	p, err := upstream.ParseProject(path, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseProject(t *testing.T) {
	want := &upstream.Project{
		Path: "harb.toml", Name: "harb", Repo: "johba/harb", ForgeURL: "http://forgejo:3000", Branch: "main",
		OpsRepo: "johba/harb-ops", CI: "7",
		Agents: []upstream.Agent{
			{Name: "glm", Login: "glm", BaseURL: "http://10.10.10.1:8081", Roles: []string{"dev", "gardener"}},
			{
				Name: "llama", Login: "dev-qwen", BaseURL: "http://10.10.10.1:8081", Model: "qwen", APIKey: "sk-none",
				Roles: []string{"dev"}, Compact: 60,
			},
		},
	}
	if diff := cmp.Diff(want, parse(t, "harb.toml", harb)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p := parse(t, "versi.toml", versi); p.Branch != "master" || p.CI != "0" {
		t.Errorf("got %+v, want the branch master and CI 0", p)
	}
	_, err := upstream.ParseProject("bad.toml",
		"name = \"../x\"\nrepo = \"harb\"\nops_repo = \"y\"\n[agents.llama]\nmodel = \"m\"")
	wantErr := `bad.toml: name is "../x", want letters and digits, with - _ . between them
bad.toml: repo is "harb", want "owner/name"
bad.toml: ops_repo is "y", want "owner/name"
bad.toml: agents.llama.base_url is not set
bad.toml: agents.llama.roles is not set`
	if err == nil || err.Error() != wantErr {
		t.Errorf("got %v\nwant %s", err, wantErr)
	}
	for _, list := range []string{``, `agents = "dev-qwen"`, `agents = ["dev-qwen", 7]`, `agents = []`} {
		_, err := upstream.ParseProject("bad.toml", versi+"[threads.x]\n"+list)
		if err == nil || err.Error() != "bad.toml: threads.x.agents is not a list of names" {
			t.Errorf("ParseProject with %q: got error %v", list, err)
		}
	}
	if _, err := upstream.ParseProject("bad.toml", "name ="); err == nil || !strings.HasPrefix(err.Error(), "bad.toml: ") {
		t.Errorf("got %v", err)
	}
}

// env returns the lookup function of an environment of NAME=value words.
func env(words ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, w := range words {
			if value, ok := strings.CutPrefix(w, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

func TestFactory(t *testing.T) {
	for name, f := range map[string]upstream.Factory{
		"threads": {LookupEnv: env("FORGE_TOKEN=a", "FORGE_REVIEW_TOKEN=b", "FORGE_GARDENER_TOKEN=c", "PLANNER_INTERVAL=660",
			"CLAUDE_MODEL=opus")},
		"poll": {
			LookupEnv: env("FORGE_TOKEN=a", "REVIEW_BOT_TOKEN=b", "AGENT_ROLES=review,dev", "FORGE_URL=http://forge"),
			Poll:      true,
		},
		// With threads of a project.
		"tables": {LookupEnv: env("FORGE_TOKEN=a", "FORGE_REVIEW_TOKEN=b", "AGENT_ROLES=review,dev,gardener",
			"FORGE_GARDENER_TOKEN=c")},
		// The container that upstream generates for an agent with its own model.
		"container": {LookupEnv: env("AGENT_ROLES=dev gardener", "ANTHROPIC_BASE_URL=http://[::1]:8081",
			"CLAUDE_MODEL=qwen")},
	} {
		t.Run(name, func(t *testing.T) {
			f.Root, f.Self = "/factory", "/bin/disinto"
			f.Projects = []*upstream.Project{parse(t, "harb.toml", harb), parse(t, "versi.toml", versi)}
			switch name {
			case "container":
				f.Projects[0].Agents = nil
			case "tables": // a second project can repeat a thread
				_, anthropic, _ := strings.Cut(tables, "[threads.anthropic]")
				anthropic, _, _ = strings.Cut(anthropic, "[threads.llama]")
				f.Projects = []*upstream.Project{
					parse(t, "harb.toml", tables),
					parse(t, "versi.toml", versi+"[threads.anthropic]"+anthropic),
				}
			}
			got, err := f.TOML()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".toml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The error has a line for everything that has no equivalent.
func TestFactoryMistakes(t *testing.T) {
	other := parse(t, "b.toml", "name = \"b\"\nrepo = \"johba/harb\"\nforge_url = \"http://other\"\n"+
		"[agents.llama]\nbase_url = \"http://x\"\nroles = [\"dev\"]\n[agents.dev-bot]\nbase_url = \"http://x\"\n"+
		"roles = [\"cook\"]")
	f := upstream.Factory{
		Projects:  []*upstream.Project{parse(t, "a.toml", harb), other},
		LookupEnv: env("FORGE_TOKEN=a", "SUPERVISOR_INTERVAL=often"),
	}
	_, err := f.TOML()
	want := `b.toml: forge_url is "http://other", but that of another project is "http://forgejo:3000": a factory has one forge
b.toml: repo is "johba/harb", which another project has too
b.toml: agents.dev-bot has the name of a role's bot: give it another one
b.toml: agents.llama is not the same in another project
agents.dev-bot.roles has "cook" in it, which is not one of upstream's roles`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	f = upstream.Factory{LookupEnv: env("FORGE_TOKEN=a"), Projects: []*upstream.Project{
		parse(t, "a.toml", tables+"[threads.more]\nagents = [\"dev-qwen\", \"cook-x\"]"),
		parse(t, "b.toml", "name = \"b\"\nrepo = \"johba/b\"\n[threads.llama]\nbackend = \"local\"\nagents = [\"dev-x\"]\n"+
			"[threads.more2]\nbase_url = \"http://here\"\nagents = [\"dev-y\"]\n[agents.dev-y]\nbase_url = \"http://there\"\n"+
			"roles = [\"dev\"]"),
	}}
	_, err = f.TOML()
	want = `a.toml: threads.more.agents has "dev-qwen" in it, which threads.llama has too
b.toml: threads.llama is not the same in another project
b.toml: agents.dev-y.base_url is "http://there", and threads.more2, which has this agent, has "http://here"
threads.more.agents has "cook-x" in it, which does not begin with one of upstream's roles and has no [agents.cook-x]`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	f = upstream.Factory{LookupEnv: env("AGENT_ROLES=supervisor", "SUPERVISOR_INTERVAL=often")}
	if _, err := f.TOML(); err == nil || err.Error() != `SUPERVISOR_INTERVAL is "often", want a number of seconds` {
		t.Errorf("got %v", err)
	}
	f = upstream.Factory{LookupEnv: env("AGENT_ROLES=cook")}
	if _, err := f.TOML(); err == nil || !strings.Contains(err.Error(), `AGENT_ROLES has "cook" in it`) {
		t.Errorf("got %v", err)
	}
}
