package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// engine replaces docker and podman. It records its calls and behaves like a Forgejo without accounts; the test says
// what compose, the engine and the disk are like.
const engine = `#!/bin/sh
case "$*" in
"compose version --short") [ -n "$VERSION" ] && echo "$VERSION"; exit $? ;;
"compose version") echo "$COMPOSE version $VERSION"; exit 0 ;;
"info --format {{.DockerRootDir}}") echo /; exit 0 ;;
info) exit "$DOWN" ;;
"image inspect disinto-disinto") exit 1 ;;
"compose port forgejo 3000") echo "$PUBLISHED"; exit 0 ;;
esac
echo "${0##*/} $*" >>"$CALLS"
case "$*" in
*admin\ user\ create\ --admin*) echo "generated random password is 'secret'" ;;
*generate-access-token*) echo token ;;
esac
case "$*" in *curl*--config*) cat >/dev/null ;; esac
case "$*" in "compose build"*) exit "${BUILD:-0}" ;; "compose exec -T disinto disinto check") exit "${CHECK:-0}" ;; esac
`

// setupTest is a run of docker/setup.sh.
type setupTest struct {
	name, engine string
	env          string   // docker/.env
	file         string   // docker/etc/factory.toml
	environ      []string // beside what startSetup sets
	argv         []string
	typed        string   // what is typed at a terminal
	calls        []string // parts of the calls
	says         []string
	kept, wrote  []string // parts of docker/.env and docker/etc/factory.toml
}

// startSetup runs the script in a copy of its folder. got has the output, the calls and the two files.
func startSetup(t *testing.T, tt *setupTest) (code int, got map[string]string) {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(path(name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"setup.sh", "factory.toml"} {
		text, err := os.ReadFile("../../docker/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text))
	}
	for _, name := range []string{"bin", "etc"} {
		if err := os.Mkdir(path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if tt.env != "" {
		write(".env", tt.env)
	}
	if tt.file != "" {
		write("etc/factory.toml", tt.file)
	}
	if tt.engine != "none" {
		write("bin/"+max(tt.engine, "docker"), engine)
	}
	write("bin/id", "#!/bin/sh\necho root\n") // also if another account runs the tests
	write("bin/df", "#!/bin/sh\necho header; echo disk 0 0 $FREE 0 /\n")
	for _, name := range []string{
		"sh", "bash", "cat", "sed", "grep", "awk", "tail", "tr", "head", "base64", "date", "mkdir", "mv", "chmod",
		"dirname", "sleep",
	} {
		for _, from := range []string{"/usr/bin/", "/bin/"} {
			if _, err := os.Stat(from + name); err == nil {
				_ = os.Symlink(from+name, path("bin/"+name))
			}
		}
	}
	environ := []string{
		"PATH=" + path("bin"), "CALLS=" + path("calls"), "VERSION=2.24.0", "COMPOSE=Docker Compose", "DOWN=0",
		"PUBLISHED=", "FREE=9000000",
	}
	for _, name := range []string{
		"SUDO_USER", "SSH_CONNECTION", "FORGE_PORT", "FORGE_ROOT_URL", "ENGINE", "MODEL",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	} {
		environ = append(environ, name+"=")
	}
	environ = append(environ, tt.environ...)
	argv := append([]string{"/bin/bash", path("setup.sh")}, tt.argv...)
	var r *running
	if tt.typed == "" {
		r = start(t, environ, argv...)
	} else {
		terminal, screen := pseudoTerminal(t, 120)
		if _, err := screen.WriteString(tt.typed); err != nil {
			t.Fatal(err)
		}
		r = startWith(t, terminal, open(t, path("said"), os.O_CREATE|os.O_WRONLY), environ, argv...)
	}
	code = r.wait()
	read := func(name string) string {
		text, _ := os.ReadFile(name) // what is missing is empty
		return string(text)
	}
	if info, err := os.Stat(path(".env")); code == 0 && (err != nil || info.Mode().Perm() != 0o600) {
		t.Errorf("got .env with %v (%v), want mode 0600", info, err)
	}
	return code, map[string]string{
		"output": read(r.stdout) + read(path("said")) + read(r.stderr), "calls": read(path("calls")),
		".env": read(path(".env")), "factory.toml": read(path("etc/factory.toml")),
	}
}

// setup.sh sets up a first factory: for root on a rented machine, on another port, behind proxies, with podman, and
// with each vendor's key.
func TestSetup(t *testing.T) {
	tests := []setupTest{
		{
			name: "root without a name", env: "ANTHROPIC_API_KEY=sk\n",
			environ: []string{"SSH_CONNECTION=10.0.0.1 5000 10.0.0.2 22"},
			calls: []string{
				"docker compose exec -T -u git forgejo forgejo admin user create --admin --username owner ",
				"hire-an-agent dev-sonnet --model sonnet --thread anthropic",
			},
			says: []string{
				"disk     4 GB",
				"sign in at http://localhost:3000/ as owner with the password secret",
				"ssh -N -L 3000:localhost:3000 root@10.0.0.2\n",
			},
			wrote: []string{`cli = "claude"`, "[threads.anthropic]"},
		},
		{
			name:    "another port and added variables",
			env:     "# mine\nFORGE_PORT=3001\nCLAUDE_CODE_OAUTH_TOKEN=\"sk-ant-oat01-x\"",
			environ: []string{"FORGE_PORT=3002", "SUDO_USER=ada"},
			calls:   []string{"--username ada ", "http://localhost:3000/api/v1/repos/ada/hello"},
			says:    []string{"http://localhost:3002/ada/hello/issues/new"},
			kept: []string{
				"# mine\nCLAUDE_CODE_OAUTH_TOKEN=\"sk-ant-oat01-x\"\nFORGE_PORT=3002\n" +
					"FORGE_ROOT_URL=http://localhost:3002/\n",
			},
		},
		{
			name: "podman and OpenAI", engine: "podman", env: "OPENAI_API_KEY=sk-proj-1",
			environ: []string{"SUDO_USER=ada", "COMPOSE=podman-compose", "VERSION=1.3.0"},
			calls: []string{
				"podman compose up -d forgejo", "hire-an-agent dev-gpt-5-codex --model gpt-5-codex --thread openai",
				"hire-an-agent review-gpt-5-codex ",
			},
			says:  []string{"podman compose -f docker/compose.yaml exec disinto disinto status --watch"},
			kept:  []string{"OPENAI_API_KEY=sk-proj-1\nCLIS=@openai/codex@"},
			wrote: []string{`cli = "codex"`, "[threads.openai]\nbackend = \"api\""},
		},
		{
			name: "OpenRouter, behind a reverse proxy and a proxy", env: "OPENROUTER_API_KEY=sk-or-v1-1",
			environ: []string{
				"FORGE_ROOT_URL=https://git.example.org/", "https_proxy=http://proxy.lan:3128", "no_proxy=.lan",
				"MODEL=openrouter/qwen/qwen3.5-coder",
			},
			calls: []string{
				"hire-an-agent dev-qwen3-5-coder --model openrouter/qwen/qwen3.5-coder --thread openrouter",
				"compose build --build-arg HTTP_PROXY --build-arg HTTPS_PROXY --build-arg NO_PROXY disinto",
			},
			says: []string{
				"your reverse proxy must send https://git.example.org/ to http://localhost:3000",
				"https://git.example.org/owner/hello/issues/new",
			},
			kept: []string{
				"CLIS=opencode-ai@", "FORGE_ROOT_URL=https://git.example.org/\n",
				"HTTPS_PROXY=http://proxy.lan:3128\nNO_PROXY=.lan\n",
			},
			wrote: []string{`cli = "opencode"`, "[threads.openrouter]"},
		},
		{
			name: "a key that is typed", env: "PACKAGES=make\n", typed: "sk-ant-api03-1\ny\n",
			says: []string{"key: Go on? [Y/n]"},
			kept: []string{"PACKAGES=make\nANTHROPIC_API_KEY=sk-ant-api03-1\n"},
		},
		{
			name: "again", env: "ANTHROPIC_API_KEY=sk\n", file: "[threads.paid]\n[roles.dev]\ncli = \"claude\"\n",
			calls: []string{"hire-an-agent dev-sonnet --model sonnet --thread paid"},
			wrote: []string{"[threads.paid]\n[roles.dev]\n"},
		},
	}
	storm := []string{"another port and added variables", "again"} // only in make check
	for _, tt := range tests {
		if !storms() && slices.Contains(storm, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			code, got := startSetup(t, &tt)
			if code != 0 {
				t.Fatalf("got exit code %d: %s", code, got["output"])
			}
			want := map[string][]string{"output": tt.says, "calls": tt.calls, ".env": tt.kept, "factory.toml": tt.wrote}
			for where, parts := range want {
				for _, part := range parts {
					if !strings.Contains(got[where], part) {
						t.Errorf("want %q in the %s:\n%s", part, where, got[where])
					}
				}
			}
			for _, secret := range []string{"secret\n", "secret ", "sk-"} {
				if strings.Contains(got["calls"], secret) {
					t.Errorf("a command line contains the password or the key:\n%s", got["calls"])
				}
			}
		})
	}
}

// If the check at the end fails, for example because the model does not answer, the script still says how to sign in:
// the password is printed only once.
func TestSetupCheckFails(t *testing.T) {
	code, got := startSetup(t, &setupTest{env: "ANTHROPIC_API_KEY=sk\n", environ: []string{"CHECK=1"}})
	for _, part := range []string{
		"It runs. Sign in at http://localhost:3000/ as owner with the password secret.", "If the model did not answer",
		"disinto disinto check\n",
	} {
		if code != 1 || !strings.Contains(got["output"], part) {
			t.Errorf("got exit code %d, want 1, and %q in the output:\n%s", code, part, got["output"])
		}
	}
}

// setup.sh looks before it acts: what would stop it later stops it before it has changed anything.
func TestSetupRefuses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	const key = "ANTHROPIC_API_KEY=sk\n"
	tests := []setupTest{
		{name: "no engine", engine: "none", says: []string{"there is no docker here"}},
		{name: "no plugin", environ: []string{"VERSION="}, says: []string{"there is no docker compose: install Docker's"}},
		{name: "Debian 12's", environ: []string{"VERSION=1.29.2"}, says: []string{"compose 1.29.2 is too old: install"}},
		{name: "an old plugin", environ: []string{"VERSION=v2.23.3-ds1"}, says: []string{"compose v2.23.3-ds1 is too old"}},
		{
			name: "an old podman", engine: "podman", environ: []string{"VERSION="},
			says: []string{"there is no podman compose: podman 4.7"},
		},
		{
			name: "an old podman-compose", engine: "podman", environ: []string{"VERSION=1.0.6", "COMPOSE=podman-compose"},
			says: []string{"podman-compose 1.0.6 is too old: podman 4.7"},
		},
		{name: "no daemon", environ: []string{"DOWN=1"}, says: []string{"start it, or run this with sudo"}},
		{name: "no key", env: "OPENAI_API_KEY=\n", says: []string{"agents have no model"}},
		{name: "the README's key", env: "ANTHROPIC_API_KEY=sk-ant-...\n", says: []string{"is an example's"}},
		{
			name: "another vendor's key", env: "ANTHROPIC_API_KEY=sk-or-v1-1\n",
			says: []string{"ANTHROPIC_API_KEY in docker/.env has the form of OPENROUTER_API_KEY: rename it there"},
		},
		{
			name: "a key for another file", env: "OPENAI_API_KEY=sk-proj-1\n",
			file: "[threads.a]\n[roles.dev]\ncli = \"claude\"\n",
			says: []string{"docker/etc/factory.toml has no agents with codex, but the key is OPENAI_API_KEY"},
		},
		{name: "no key at all", typed: "hello\n", says: []string{"that is no key of Anthropic (sk-ant-)"}},
		{name: "no", typed: "sk-ant-api03-1\nn\n", says: []string{"nothing was changed"}},
		{name: "no port", env: key, environ: []string{"FORGE_PORT=x;y"}, says: []string{"FORGE_PORT=x;y: want a number"}},
		{
			name: "a port that is taken", env: key, environ: []string{"FORGE_PORT=" + port},
			says: []string{"listens on port " + port + ": choose another for Forgejo, FORGE_PORT="},
		},
		{
			name: "no address", env: key, environ: []string{"FORGE_ROOT_URL=git.example.org"},
			says: []string{"FORGE_ROOT_URL=git.example.org: want http:// or https://"},
		},
		{
			name: "a proxy of this machine", env: key, environ: []string{"https_proxy=http://u:p@127.0.0.1:3128"},
			says: []string{"HTTPS_PROXY is on this machine's loopback, which containers do not reach"},
		},
		{name: "a full disk", env: key, environ: []string{"FREE=3000000"}, says: []string{"has only 2 GB left"}},
		{name: "a name that is taken", env: key, argv: []string{"root"}, says: []string{"the name root is taken"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, got := startSetup(t, &tt)
			if code != 1 || !strings.Contains(got["output"], tt.says[0]) {
				t.Errorf("got exit code %d, want 1 and %q: %s", code, tt.says[0], got["output"])
			}
			if got["calls"] != "" || got[".env"] != tt.env || got["factory.toml"] != tt.file {
				t.Errorf("it changed something: %q", got)
			}
			if strings.Contains(got["output"], "u:p") {
				t.Errorf("it shows the proxy's password: %s", got["output"])
			}
		})
	}
	tt := setupTest{env: key, environ: []string{"FORGE_PORT=" + port, "PUBLISHED=127.0.0.1:" + port}}
	if code, got := startSetup(t, &tt); code != 0 {
		t.Errorf("its own Forgejo has the port: got exit code %d: %s", code, got["output"])
	}
	tt = setupTest{env: key, environ: []string{"BUILD=1"}}
	if code, got := startSetup(t, &tt); code != 1 || !strings.Contains(got["output"], "run this again with the password") {
		t.Errorf("an image that does not build: got exit code %d: %s", code, got["output"])
	}
}
