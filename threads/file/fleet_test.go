package file

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/threads"
)

func TestDecodeFleet(t *testing.T) {
	c, err := Decode("factory.toml", worker+`
[fleet]
hub = true
[[fleet.hosts]]
name = "spark"
ssh = "disinto@192.168.1.12"
[[fleet.hosts]]
name = "loom"
ssh = "disinto@[fd00::7]:2222"
[[fleet.hosts]]
name = "iris"
ssh = "disinto@iris.lan:2222"
`, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	want := threads.Fleet{Hub: true, Hosts: []threads.Host{
		{Name: "iris", User: "disinto", Address: "iris.lan", Port: 2222},
		{Name: "loom", User: "disinto", Address: "fd00::7", Port: 2222},
		{Name: "spark", User: "disinto", Address: "192.168.1.12"},
	}}
	if diff := cmp.Diff(want, c.Fleet); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeFleetMistakes(t *testing.T) {
	const host = "[[fleet.hosts]]\nname = \"a\"\nssh = \"u@a\"\n" // three lines, after two of [fleet] and four of worker
	tests := []struct{ name, text, want string }{
		{
			"hub alone", "hub = true\n",
			`:6: fleet.hub: is true, and no other hosts are set: add [[fleet.hosts]] with name and ssh = "user@host" for each`,
		},
		{"no hub", "\n" + host, `:7: fleet.hosts: have no effect without hub = true: only a hub reads other hosts`},
		{"hub is a word", "hub = \"yes\"\n" + host, `:6: fleet.hub: is a string, want true or false`},
		{"hosts are a word", "hub = true\nhosts = \"a\"\n", `:7: fleet.hosts: is a string, want [[fleet.hosts]] tables`},
		{
			"second host without ssh", "hub = true\n" + host + "[[fleet.hosts]]\nname = \"b\"\n",
			`:10: fleet.hosts.ssh: is not set, want "user@host", "user@host:port", "user@[IPv6]:port", or a Host of the ssh configuration`,
		},
		{
			"second host without a name", "hub = true\n" + host + "[[fleet.hosts]]\nssh = \"u@b\"\n",
			`:10: fleet.hosts.name: is not set, want a name for the host`,
		},
		{
			"mistake in the second", "hub = true\n" + host + "[[fleet.hosts]]\nname = \"b\"\nssh = \"b!\"\n",
			`:12: fleet.hosts.ssh: is "b!", want "user@host", "user@host:port", "user@[IPv6]:port", or a Host of the ssh configuration`,
		},
		{
			"name twice", "hub = true\n" + host + "[[fleet.hosts]]\nname = \"a\"\nssh = \"u@b\"\n",
			`:11: fleet.hosts.name: is "a", which another host has too`,
		},
		{
			"host twice", "hub = true\n" + host + "[[fleet.hosts]]\nname = \"b\"\nssh = \"u@a\"\n",
			`:12: fleet.hosts.ssh: is "u@a", which a has too: its agents would count twice`,
		},
		{
			"name of a thread", "hub = true\n[[fleet.hosts]]\nname = \"llama\"\nssh = \"u@a\"\n",
			`:8: fleet.hosts.name: is "llama", the name of a thread or an agent here`,
		},
		{
			"name with a slash", "hub = true\n[[fleet.hosts]]\nname = \"a/b\"\nssh = \"u@a\"\n",
			`:8: fleet.hosts.name: is "a/b", want letters, digits, dots, dashes and underscores`,
		},
		{
			"name is a number", "hub = true\n[[fleet.hosts]]\nname = 1\nssh = \"u@a\"\n",
			`:8: fleet.hosts.name: is a number, want a string`,
		},
		{
			"unknown key of the third",
			"hub = true\n" + host +
				"[[fleet.hosts]]\nname = \"b\"\nssh = \"u@b\"\n[[fleet.hosts]]\nname = \"c\"\nssh = \"u@c\"\nport = 1\n",
			`:16: fleet.hosts.port: unknown key`,
		},
		{
			"no such port", "hub = true\n[[fleet.hosts]]\nname = \"a\"\nssh = \"u@a:65536\"\n",
			`:9: fleet.hosts.ssh: is "u@a:65536", want a port from 1 to 65535`,
		},
		{
			"no address", "hub = true\n[[fleet.hosts]]\nname = \"a\"\nssh = \"u@[::1::2]\"\n",
			`:9: fleet.hosts.ssh: is "u@[::1::2]", want an IPv6 address in the brackets`,
		},
		{
			"inline", "hub = true\nhosts = [{ name = \"a\", ssh = \"u@a\" }, { name = \"b\", ssh = \"-b\" }]\n",
			`:7: fleet.hosts.ssh: is "-b", want "user@host", "user@host:port", "user@[IPv6]:port", or a Host of the ssh configuration`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode("f", worker+"\n[fleet]\n"+tt.text, inContainer)
			if err == nil || err.Error() != "f"+tt.want {
				t.Errorf("got  %v\nwant f%s", err, tt.want)
			}
		})
	}
}

// TestDecodeFleetPlace checks that no text reaches ssh as an option, or a shell as anything but a name.
func TestDecodeFleetPlace(t *testing.T) {
	place := regexp.MustCompile(sshPlace)
	for _, s := range []string{
		"", "-host", "host -v", "host;id", "host:", "host:ssh", "@host", "user@", "-oProxyCommand=id",
		"-oProxyCommand=id@host", "user@-oProxyCommand=id", "u@h -v", "u@h\n", "u@h;id", "u@$(id)",
		"u@h`id`", "u@h:", "u@h:22x", "u@h:-1", "u@h:022222", "u@h/x", "u@a@b", "ssh://u@h", "u@h%h", "ü@h", "u@::1",
		"u@[::1", "u@[-oProxyCommand=id]", "u@[::1]:", "u@[fe80::1%id]", " u@h", "u@h ",
	} {
		if place.MatchString(s) {
			t.Errorf("%q passes for a host", s)
		}
	}
	for _, s := range []string{
		"u@h", "disinto@10.0.0.7", "disinto@iris.lan:2222", "_svc@host_alias", "7@7", "iris",
		"iris.lan", "iris:2222", "u@[::1]", "[2001:db8::7]:2222",
	} {
		if !place.MatchString(s) {
			t.Errorf("%q does not pass for a host", s)
		}
	}
}
