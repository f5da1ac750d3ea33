package supervisor

import (
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// No two chains share a workspace, whatever their names contain. Chains without a _ in the owner's name keep the
// folder that they had in older versions.
func TestWorkspaceName(t *testing.T) {
	seen := map[string]forge.Ref{}
	for _, tt := range []struct {
		chain forge.Ref
		role  string
		want  string
	}{
		{forge.Ref{Repo: "johba/harb", Number: 12}, "dev", "johba_harb_12"},
		{forge.Ref{Repo: "a_b/c", Number: 1}, "dev", "a~b_c_1"},
		{forge.Ref{Repo: "a/b_c", Number: 1}, "dev", "a_b_c_1"},
		{forge.Ref{Repo: "a/b", Number: 1}, "dev", "a_b_1"},
		{forge.Ref{Repo: "a/b"}, "c_1", "a_b_c~1"},
		{forge.Ref{Repo: "johba/harb"}, "planner", "johba_harb_planner"},
	} {
		x := &session{Session: threads.Session{Role: tt.role, Item: threads.Item{Ref: tt.chain, Chain: tt.chain}}}
		got := workspaceName(x)
		if got != tt.want {
			t.Errorf("workspaceName of %s as %s: got %s, want %s", tt.chain, tt.role, got, tt.want)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s share the folder %s", tt.chain, other, got)
		}
		seen[got] = tt.chain
	}
}

// A sandboxed session reaches neither the state directory nor the key of the supervisor's certificate for Nomad.
func TestHidden(t *testing.T) {
	rn := &sessionRunner{stateDir: "/state", hide: []string{"/etc/factory.toml"}}
	x := &session{config: &threads.Config{Nomad: threads.Nomad{ClientKey: "/tls/key.pem"}}}
	x.role.Sandbox.Mode = agents.SandboxAuto
	var j agents.Job
	rn.sandbox(x, &j)
	for _, path := range []string{"/state", "/etc/factory.toml", "/tls/key.pem"} {
		if !slices.Contains(j.Sandbox.Hide, path) {
			t.Errorf("Sandbox.Hide lacks %s: %q", path, j.Sandbox.Hide)
		}
	}
}

// A session's ports are those of SSH, HTTPS, the forge and the model. In a network of its own, they are the ones that
// lead to this machine's localhost: the operator's, and that of a model there.
func TestSessionPorts(t *testing.T) {
	for own, want := range map[bool][]int{false: {5432, 22, 443, 3000, 8080}, true: {5432, 8080}} {
		x := &session{config: &threads.Config{Forge: threads.Forge{URL: "http://git.lan:3000"}}}
		x.role.Sandbox = agents.Sandbox{
			Mode: agents.SandboxAuto, Egress: []string{}, OwnNetwork: own, Connect: []int{5432},
		}
		x.thread.BaseURL = "http://localhost:8080/v1"
		var j agents.Job
		new(sessionRunner).sandbox(x, &j)
		if got := j.Sandbox.Connect; !slices.Equal(got, want) {
			t.Errorf("own network %v: ports %v, want %v", own, got, want)
		}
	}
}

// A repository's folder of prompts takes the place of the factory's, in that repository alone.
func TestPrompted(t *testing.T) {
	config := &threads.Config{Repos: []threads.Repo{{Name: "o/r", Prompts: "/own"}, {Name: "o/s"}}}
	plain := []string{"disinto", "agent", "--cli", "claude"}
	set := []string{"disinto", "agent", "--prompts", "/all", "--cli"}
	for _, tt := range []struct {
		repo, cli  string
		argv, want []string
	}{
		{"o/r", "claude", plain, []string{"disinto", "agent", "--prompts", "/own", "--cli", "claude"}},
		{"o/r", "claude", set, []string{"disinto", "agent", "--prompts", "/own", "--cli"}},
		{"o/r", "", set, set},
		{"o/s", "claude", set, set},
		{"o/t", "claude", plain, plain},
	} {
		x := &session{Session: threads.Session{Item: threads.Item{Ref: forge.Ref{Repo: tt.repo}}}, config: config}
		x.role.CLI = tt.cli
		if got := x.prompted(slices.Clone(tt.argv)); !slices.Equal(got, tt.want) {
			t.Errorf("%s, cli %q: got %q, want %q", tt.repo, tt.cli, got, tt.want)
		}
	}
}
