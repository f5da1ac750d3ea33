package threads

import (
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// A reference gets the configuration's spelling, and a bare number the repository where it was written.
func TestConfigItem(t *testing.T) {
	one := Config{Forge: Forge{Repos: []string{"o/r"}}}
	two := Config{Forge: Forge{Repos: []string{"o/r", "o/s"}}}
	for _, tt := range []struct {
		config     *Config
		home, said string
		want       string
	}{
		{&one, "", "7", "o/r#7"},
		{&one, "", "O/R#7", "o/r#7"},
		{&one, "", "o/s#7", ""},
		{&one, "o/s", "7", ""},
		{&two, "", "7", ""},
		{&two, "o/s", "7", "o/s#7"},
		{&two, "o/s", "o/r#7", "o/r#7"},
		{&two, "o/s", "x", ""},
	} {
		item, err := tt.config.Item(tt.home, tt.said)
		if got := item.String(); (err == nil) != (tt.want != "") || err == nil && got != tt.want {
			t.Errorf("%s in %q of %v: got %s, %v, want %q", tt.said, tt.home, tt.config.Forge.Repos, got, err, tt.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		factory   Factory
		hook, web string
	}{
		{Factory{}, "", ""},
		{Factory{ListenHooks: ":7000", ListenWeb: ":7080"}, "", ""},
		{Factory{ListenHooks: "0.0.0.0:7000", ListenWeb: "[::]:7080"}, "", ""},
		{Factory{ListenHooks: "host:7000", ListenWeb: "host:7080"}, "http://host:7000/v1/hook", "http://host:7080"},
		{Factory{ListenHooks: "host:%7000", ListenWeb: "host:%7080"}, "", ""},
		{
			Factory{ListenHooks: ":7000", HooksURL: "https://h", ListenWeb: ":7080", WebURL: "https://w"},
			"https://h", "https://w",
		},
	} {
		if hook, web := tt.factory.HookURL(), tt.factory.WebAddress(); hook != tt.hook || web != tt.web {
			t.Errorf("%+v: got %q and %q, want %q and %q", tt.factory, hook, web, tt.hook, tt.web)
		}
	}
}

func TestHost(t *testing.T) {
	for want, h := range map[string]Host{
		"box":       {Address: "box"},
		"me@box":    {User: "me", Address: "box"},
		"me@box:22": {User: "me", Address: "box", Port: 22},
	} {
		if got := h.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Sessions run as their agent's account, else as that of the factory, unless their role has root = true.
func TestUserOf(t *testing.T) {
	c := Config{Factory: Factory{User: "factory"}}
	for _, tt := range []struct {
		user string
		root bool
		want string
	}{{"", false, "factory"}, {"own", false, "own"}, {"", true, ""}} {
		if got := c.UserOf(&agents.Agent{User: tt.user}, &agents.Role{Root: tt.root}); got != tt.want {
			t.Errorf("user %q, root %v: got %q, want %q", tt.user, tt.root, got, tt.want)
		}
	}
}

// An account is an agent's own if no other agent, no service and not the supervisor uses it.
func TestOwnUser(t *testing.T) {
	c := Config{
		Factory: Factory{User: "factory"},
		Agents: []agents.Agent{
			{User: "own"}, {User: "shared"}, {User: "shared"}, {User: "served"}, {User: "factory"}, {User: ""},
		},
		Services: []Service{{User: "served"}},
	}
	for i, want := range []bool{true, false, false, false, false, false} {
		if got := c.OwnUser(&c.Agents[i]); got != want {
			t.Errorf("%s: got %v, want %v", c.Agents[i].User, got, want)
		}
	}
}
