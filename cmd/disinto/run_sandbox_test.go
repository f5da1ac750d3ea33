package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/threads"
)

// TestCheckSandbox combines kernels that enforce a whole sandbox, a part of one and none with factories that want a
// sandbox, require it, or turn it off.
func TestCheckSandbox(t *testing.T) {
	old := findSandbox
	t.Cleanup(func() { findSandbox = old })
	none := errors.New("the kernel has no Landlock")
	tests := map[string]struct {
		keys     string
		complete bool
		err      error
		open     error  // why egress cannot be held
		shared   error  // why no session has a network of its own
		want     string // in the line about the sandbox
		code     int
		network  bool // role dev wants one of its own
	}{
		"complete": {complete: true, want: "ok    sessions  in a sandbox: some Landlock"},
		"a part":   {want: "note  sessions  in an incomplete sandbox: some Landlock"},
		"none":     {err: none, want: "note  sessions  no sandbox: the kernel has no Landlock"},
		"off": {
			keys: "sandbox = \"off\"\n", complete: true,
			want: "note  sessions  sandbox = \"off\" of dev, gardener",
		},
		"strict": {
			keys: "sandbox = \"strict\"\n", complete: true,
			want: "ok    sessions  in a sandbox: some Landlock",
		},
		"egress": {
			keys: "egress = []\n", complete: true, want: "ok    sessions  in a sandbox: some Landlock; egress holds",
		},
		"egress on an old kernel": {
			keys: "egress = []\n", complete: true, open: none,
			want: "note  sessions  egress is advisory, by the variables of a proxy: the kernel has no Landlock",
		},
		"strict egress on an old kernel": {
			keys: "sandbox = \"strict\"\negress = []\n", complete: true, open: none, want: "egress cannot be held",
			code: exitFailed,
		},
		"own network": {
			keys: "egress = []\n", complete: true, open: none, network: true,
			want: "; those of dev have networks of their own",
		},
		"no own network": {
			keys: "egress = []\n", complete: true, shared: none, network: true,
			want: "note  sessions  sessions of dev share this machine's network: the kernel has no Landlock",
		},
		"strict and no own network": {
			keys: "sandbox = \"strict\"\negress = []\n", complete: true, shared: none, network: true,
			want: `sandbox = "strict" of dev, gardener, planner, review: network = "own" of dev: ` +
				"the kernel has no Landlock; update the kernel",
			code: exitFailed,
		},
		"strict, a part":  {keys: "sandbox = \"strict\"\n", want: "sandbox = \"strict\" of dev", code: exitFailed},
		"strict and none": {keys: "sandbox = \"strict\"\n", err: none, want: "sandbox = \"strict\" of dev", code: exitFailed},
	}
	storm := []string{"a part", "off", "strict", "strict and none"} // only in make check
	f := newTestForge(t)
	for name, tt := range tests {
		if !storms() && slices.Contains(storm, name) {
			continue
		}
		findSandbox = func() (process.Support, error) {
			return process.Support{
				Holds: "some Landlock", Complete: tt.complete, Ports: tt.complete, Open: tt.open,
				Shared: func() error { return tt.shared },
			}, tt.err
		}
		path := f.file(t.TempDir(), "[factory]\n", "[factory]\n"+tt.keys)
		if tt.network {
			path = f.file(t.TempDir(), "[factory]\n", "[factory]\n"+tt.keys, "[roles.dev]\n", "[roles.dev]\nnetwork = \"own\"\n")
		}
		got := disinto(t.Context(), f.environ(nil), "check", "--config", path)
		text := strings.Join(strings.Fields(got.stdout), " ")
		if want := strings.Join(strings.Fields(tt.want), " "); got.code != tt.code || !strings.Contains(text, want) {
			t.Errorf("%s: got exit code %d, want %d and %q\n%s", name, got.code, tt.code, want, text)
		}
		shared := strings.Contains(text, sharedAccount)
		if want := tt.err != nil || !tt.complete || tt.keys == "sandbox = \"off\"\n"; shared != want {
			t.Errorf("%s: check warns that agents can read every secret: %v, want %v", name, shared, want)
		} else if boxed := strings.Contains(text, boxedAccount); boxed == want {
			t.Errorf("%s: check notes that only the sandbox protects secrets: %v, want %v", name, boxed, !want)
		}
	}
}

// check notes a role whose sessions run as root.
func TestCheckRoot(t *testing.T) {
	f := newTestForge(t)
	path := f.file(t.TempDir(), "[roles.dev]\n", "[roles.dev]\nroot = true\n")
	text := disinto(t.Context(), f.environ(nil), "check", "--config", path).stdout
	if got := strings.Contains(text, "role dev has root = true"); got != (os.Geteuid() == 0) {
		t.Errorf("a note about root: %v\n%s", got, text)
	}
}

// check notes the servers of this machine on whose port an agent could listen.
func TestCheckPorts(t *testing.T) {
	old := findSandbox
	t.Cleanup(func() { findSandbox = old })
	f := newTestForge(t) // on a port that the kernel chose
	check := func(ports bool, keys string) string {
		t.Helper()
		findSandbox = func() (process.Support, error) { return process.Support{Holds: "some Landlock", Ports: ports}, nil }
		path := f.file(t.TempDir(), "[factory]\n", "[factory]\n"+keys)
		text := disinto(t.Context(), f.environ(nil), "check", "--config", path).stdout
		return strings.Join(strings.Fields(text), " ")
	}
	if got := check(true, ""); !strings.Contains(got, "note ports forge.url: the kernel gives port ") {
		t.Errorf("with ports that the kernel holds:\n%s\nwant a note about the forge's port", got)
	}
	const listen = "listen = \"127.0.0.1:7070\"\nlisten_token = \"0123456789abcdef\"\n"
	if got := check(true, listen); strings.Contains(got, "ports factory.listen") {
		t.Errorf("with ports that the kernel holds:\n%s\nwant no note about port 7070", got)
	}
	got := check(false, listen)
	for _, key := range []string{"forge.url", "factory.listen"} {
		if !strings.Contains(got, "note ports "+key+": an agent could listen on port ") {
			t.Errorf("without:\n%s\nwant a note about %s", got, key)
		}
	}
	if got := check(true, "sandbox = \"off\"\n"); !strings.Contains(got, `by plain HTTP: sandbox = "off" of dev`) {
		t.Errorf("with a role without a sandbox:\n%s\nwant a note about it", got)
	}
}

// A node says what it does not hold: a network of its own holds egress, too.
func TestUnheld(t *testing.T) {
	old := findSandbox
	t.Cleanup(func() { findSandbox = old })
	no := errors.New("no")
	for _, tt := range []struct {
		egress, network   bool
		err, open, shared error
		want              string
	}{
		{err: no, open: no, shared: no},
		{egress: true},
		{egress: true, open: no, want: "egress is advisory: no"},
		{egress: true, err: no, want: "egress is advisory: no"},
		{egress: true, shared: no},
		{egress: true, network: true, open: no},
		{egress: true, network: true, shared: no, want: "sessions share the node's network: no"},
		{egress: true, network: true, open: no, shared: no, want: "egress is advisory: no"},
	} {
		findSandbox = func() (process.Support, error) {
			return process.Support{Open: tt.open, Shared: func() error { return tt.shared }}, tt.err
		}
		got := ""
		if err := unheld(tt.egress, tt.network); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// What an agent's node has to hold is what any of its roles, or a repository, asks for.
func TestDemand(t *testing.T) {
	c := &threads.Config{Roles: []agents.Role{
		{Name: "open", Sandbox: agents.Sandbox{Mode: agents.SandboxStrict}},
		{Name: "held", Sandbox: agents.Sandbox{Mode: agents.SandboxAuto, Egress: []string{}, OwnNetwork: true}},
	}}
	both := &agents.Agent{Roles: []string{"open", "held"}}
	for _, repo := range []bool{false, true} {
		want := agents.SandboxAuto
		if repo {
			want, c.Repos = agents.SandboxStrict, []threads.Repo{{Egress: []string{"@npm"}}}
		}
		var s agents.Sandbox
		if demand(c, both, &s); s.Egress == nil || !s.OwnNetwork || s.Mode != want {
			t.Errorf("with egress of a repository %v: %+v, want %s", repo, s, want)
		}
	}
	var s agents.Sandbox
	c.Repos = nil
	if demand(c, &agents.Agent{Roles: []string{"open"}}, &s); s.Egress != nil {
		t.Errorf("without egress: %+v", s)
	}
}
