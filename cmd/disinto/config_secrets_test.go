package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A special or endless file is an error: no command waits for its content.
func TestOddFiles(t *testing.T) {
	const text = "[forge]\nurl = \"http://127.0.0.1:1\"\nrepos = [\"a/b\"]\ntoken = \"$FORGE_TOKEN\"\n"
	odd := map[string]struct {
		make func(t *testing.T, path string) error
		want string
	}{
		"pipe": {func(_ *testing.T, path string) error { return unix.Mkfifo(path, 0o600) }, "not a plain file"},
		"large": {func(_ *testing.T, path string) error {
			return os.WriteFile(path, make([]byte, longestConfig+1), 0o600)
		}, "longer than 1048576 bytes"},
	}
	for name, kind := range odd {
		for _, place := range []string{"factory.toml", "secrets.env", "projects/a.toml"} {
			t.Run(name+" "+place, func(t *testing.T) {
				dir := t.TempDir()
				config := filepath.Join(dir, "factory.toml")
				if place == "projects/a.toml" {
					config = filepath.Join(dir, "projects")
					if err := os.Mkdir(config, 0o700); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, place)
				_ = os.Remove(path)
				if err := kind.make(t, path); err != nil {
					t.Fatal(err)
				}
				got := disinto(t.Context(), nil, "check", "--config", config)
				if said := got.stdout + got.stderr; got.code != exitFailed || !strings.Contains(said, path) ||
					!strings.Contains(said, kind.want) {
					t.Errorf("check: got %+v, want %q for %s", got, kind.want, path)
				}
			})
		}
		t.Run(name+" of a token", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := kind.make(t, path); err != nil {
				t.Fatal(err)
			}
			got := disinto(t.Context(), nil, "status", "--address", "127.0.0.1:1", "--token-file", path)
			if got.code == exitDone || !strings.Contains(got.stderr, path) {
				t.Errorf("status: got %+v", got)
			}
		})
	}
}

// A secrets file may be a link, because container runtimes mount secrets as links.
func TestLinkedSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets.env")
	if err := os.WriteFile(path+".1", []byte("A=b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+".1", path); err != nil {
		t.Fatal(err)
	}
	if text, err := readSecrets(path); err != nil || text != "A=b\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

// A secrets file that an agent's account owns is refused, because mode 600 does not stop its owner. So is one that
// others can read, as the only error, if it is not the supervisor's to close.
func TestSecretsOfAgents(t *testing.T) {
	agent, err := user.Lookup("nobody")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and an account")
	}
	uid, err := strconv.Atoi(agent.Uid)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		owner      int
		mode       os.FileMode
		want       string
	}{
		{"the supervisor's", "[factory]\nuser = \"nobody\"\n", os.Geteuid(), 0o600, ""},
		{"the supervisor's, open", "", os.Geteuid(), 0o644, ""},
		{"the agents'", "[factory]\nuser = \"nobody\"\n", uid, 0o600, "chown root"},
		{"one agent's", "[agents.dev-x]\nuser = \"nobody\"\n", uid, 0o600, "chown root"},
		{"of no agent", "", uid, 0o600, ""},
		{"of an account outside of the container", "[factory]\nuser = \"nobody\"\n", 54321, 0o600, ""},
		{"of such an account, open", "", 54321, 0o604, "chmod 600"},
	} {
		config := factoryFile(t, "[forge]\nurl = \"http://127.0.0.1:1\"\nrepos = [\"a/b\"]\ntoken = \"$FORGE_TOKEN\"\n"+
			"[threads.x]\nbackend = \"anthropic\"\nagents = [\"dev-x\"]\n"+tt.text)
		path := filepath.Join(filepath.Dir(config), "secrets.env")
		if err := os.WriteFile(path, []byte("FORGE_TOKEN=boss\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(path, tt.owner, -1), os.Chmod(path, tt.mode)); err != nil {
			t.Fatal(err)
		}
		closed := closeSecrets(path)
		if want := tt.mode != 0o600 && tt.want == ""; closed != want {
			t.Errorf("%s: closed = %v, want %v", tt.name, closed, want)
		}
		_, _, err := readConfig(config, func(string) (string, bool) { return "", false })
		if text := fmt.Sprint(err); err != nil != (tt.want != "") || len(errorLines(err)) > 1 ||
			tt.want != "" && !strings.HasSuffix(text, tt.want+" "+path) {
			t.Errorf("%s: got error %v", tt.name, err)
		}
	}
}
