package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// engine replaces docker and podman. It records its calls and behaves like a Forgejo without accounts.
const engine = `#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
case "$*" in
*admin\ user\ create\ --admin*) echo "generated random password is 'secret'" ;;
*generate-access-token*) echo token ;;
esac
case "$*" in *curl*--config*) cat >/dev/null ;; esac
`

// setup.sh sets up a first factory: for root on a rented machine, on another port, with podman, and with OpenAI only.
func TestSetup(t *testing.T) {
	tests := []struct {
		name, engine string
		env          string // docker/.env
		environ      []string
		code         int
		calls        []string // parts of the calls
		says         []string
		kept, file   string // parts of docker/.env and docker/etc/factory.toml
	}{
		{
			name: "root without a name", engine: "docker", env: "ANTHROPIC_API_KEY=sk\n",
			environ: []string{"SSH_CONNECTION=10.0.0.1 5000 10.0.0.2 22"},
			calls: []string{
				"docker compose exec -T -u git forgejo forgejo admin user create --admin --username owner ",
				"hire-an-agent dev-sonnet --model sonnet",
			},
			says: []string{
				"sign in at http://localhost:3000 as owner with the password secret",
				"ssh -N -L 3000:localhost:3000 root@10.0.0.2\n",
			},
			file: "cli = \"claude\"",
		},
		{
			name: "another port", engine: "docker", env: "FORGE_PORT=3001\nCLAUDE_CODE_OAUTH_TOKEN=sk",
			environ: []string{"FORGE_PORT=3002", "SUDO_USER=ada"},
			calls:   []string{"--username ada ", "http://localhost:3000/api/v1/repos/ada/hello"},
			says:    []string{"http://localhost:3002/ada/hello/issues/new"},
			kept:    "CLAUDE_CODE_OAUTH_TOKEN=sk\nFORGE_PORT=3002\n",
		},
		{
			name: "podman and OpenAI", engine: "podman", env: "OPENAI_API_KEY=sk", environ: []string{"SUDO_USER=ada"},
			calls: []string{
				"podman compose up -d forgejo", "hire-an-agent dev-gpt --model gpt-5-codex --thread anthropic",
				"hire-an-agent review-gpt ",
			},
			says: []string{"podman compose -f docker/compose.yaml exec disinto disinto status --watch"},
			kept: "OPENAI_API_KEY=sk\nCLIS=@openai/codex@", file: "cli = \"codex\"",
		},
		{
			name: "no key", engine: "docker", env: "OPENAI_API_KEY=\n", code: 1,
			says: []string{"agents have no model: write ANTHROPIC_API_KEY"},
		},
		{
			name: "no port", engine: "docker", env: "OPENAI_API_KEY=sk\n", environ: []string{"FORGE_PORT=x;y"}, code: 1,
			says: []string{"FORGE_PORT=x;y in docker/.env: want a number"},
		},
		{
			name: "a name that is taken", engine: "docker", env: "OPENAI_API_KEY=sk\n", code: 1,
			says: []string{"the name root is taken"},
		},
	}
	storm := []string{"another port", "a name that is taken"} // only in make check
	for _, tt := range tests {
		if !storms() && slices.Contains(storm, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := func(name string) string { return filepath.Join(dir, name) }
			for _, name := range []string{"setup.sh", "factory.toml"} {
				text, err := os.ReadFile("../../docker/" + name)
				if err == nil {
					err = os.WriteFile(path(name), text, 0o755)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			write := func(name, text string) {
				if err := os.WriteFile(path(name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			write(".env", tt.env)
			if err := os.Mkdir(path("bin"), 0o700); err != nil {
				t.Fatal(err)
			}
			write("bin/"+tt.engine, engine)
			write("bin/id", "#!/bin/sh\necho root\n") // also if another account runs the tests
			for _, name := range []string{
				"sh", "bash", "cat", "sed", "grep", "awk", "tail", "tr", "head", "base64", "date",
				"mkdir", "chmod", "dirname", "sleep",
			} {
				for _, from := range []string{"/usr/bin/", "/bin/"} {
					if _, err := os.Stat(from + name); err == nil {
						_ = os.Symlink(from+name, path("bin/"+name))
					}
				}
			}
			environ := append([]string{
				"PATH=" + path("bin"), "CALLS=" + path("calls"), "SUDO_USER=", "SSH_CONNECTION=",
				"FORGE_PORT=", "ENGINE=",
			}, tt.environ...)
			argv := []string{"/bin/bash", path("setup.sh")}
			if tt.name == "a name that is taken" {
				argv = append(argv, "root")
			}
			r := start(t, environ, argv...)
			code, said := r.wait(), r.read(r.stdout)+r.read(r.stderr)
			if code != tt.code {
				t.Fatalf("got exit code %d, want %d: %s", code, tt.code, said)
			}
			all := map[string]string{
				"output": said, "calls": r.read(path("calls")), ".env": r.read(path(".env")),
				"factory.toml": r.read(path("etc/factory.toml")),
			}
			want := map[string][]string{"output": tt.says, "calls": tt.calls, ".env": {tt.kept}, "factory.toml": {tt.file}}
			for where, parts := range want {
				for _, part := range parts {
					if !strings.Contains(all[where], part) {
						t.Errorf("want %q in the %s:\n%s", part, where, all[where])
					}
				}
			}
			if strings.Contains(all["calls"], "secret\n") || strings.Contains(all["calls"], "secret ") {
				t.Errorf("a command line contains the password:\n%s", all["calls"])
			}
			if info, err := os.Stat(path(".env")); err != nil || tt.code == 0 && info.Mode().Perm() != 0o600 {
				t.Errorf("got .env with mode %v (%v)", info.Mode(), err)
			}
		})
	}
}
