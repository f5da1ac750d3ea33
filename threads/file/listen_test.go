package file

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/threads"
)

func TestDecodeListeners(t *testing.T) {
	c, err := Decode("factory.toml", `[forge]
webhook_secret = "$HOOK"
[factory]
listen = "[::1]:7070"
listen_token = "$API"
listen_hosts = ["Factory.example", "10.0.0.7"]
listen_hooks = ":7071"
listen_metrics = ":7072"
`+worker, func(name string) (string, bool) {
		if name == "API" {
			return "0123456789abcdef", true
		}
		return inContainer(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	f := c.Factory
	if f.Listen != "[::1]:7070" || f.ListenToken.Reveal() != "0123456789abcdef" || f.ListenHooks != ":7071" ||
		f.ListenMetrics != ":7072" {
		t.Errorf("got %+v", f)
	}
	if diff := cmp.Diff([]string{"10.0.0.7", "factory.example"}, f.ListenHosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	// The token is a secret: no agent gets its variable.
	var named bool
	for _, s := range c.Secrets {
		named = named || s.Name == "API" && s.Agent == ""
	}
	if !named {
		t.Errorf("the token is not among the secrets: %+v", c.Secrets)
	}
}

func TestWebAddress(t *testing.T) {
	for _, tt := range []struct{ listen, url, want string }{
		{"", "", ""},
		{":7080", "", ""},
		{"0.0.0.0:7080", "", ""},
		{"127.0.0.1:7080", "", "http://127.0.0.1:7080"},
		{":7080", "https://room.example", "https://room.example"},
		{"", "https://room.example", "https://room.example"},
	} {
		f := threads.Factory{ListenWeb: tt.listen, WebURL: tt.url}
		if got := f.WebAddress(); got != tt.want {
			t.Errorf("listen_web %q, web_url %q: got %q, want %q", tt.listen, tt.url, got, tt.want)
		}
	}
}

func TestHookURL(t *testing.T) {
	for _, tt := range []struct{ listen, url, want string }{
		{"", "", ""},
		{":7071", "", ""},
		{"0.0.0.0:7071", "", ""},
		{"[::]:7071", "", ""},
		{"disinto:7071", "", "http://disinto:7071/v1/hook"},
		{"[::1]:7071", "", "http://[::1]:7071/v1/hook"},
		{":7071", "https://hooks.example/disinto", "https://hooks.example/disinto"},
		{"disinto:7071", "https://hooks.example/disinto", "https://hooks.example/disinto"},
	} {
		f := threads.Factory{ListenHooks: tt.listen, HooksURL: tt.url}
		if got := f.HookURL(); got != tt.want {
			t.Errorf("listen_hooks %q, hooks_url %q: got %q, want %q", tt.listen, tt.url, got, tt.want)
		}
	}
}
