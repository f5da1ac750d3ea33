package main

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents/hire"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
)

// adminToken returns a new token of the forge's administrator.
func (f *testForge) adminToken() string {
	f.t.Helper()
	token, err := f.forge.AddToken(forgeAdmin)
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// lives reports whether the forge accepts a token.
func (f *testForge) lives(token string) bool {
	f.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, f.URL+"/api/v1/user", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// secretOf returns a variable of the secrets file beside a factory.toml.
func secretOf(t *testing.T, config, name string) string {
	t.Helper()
	text, err := readSecrets(filepath.Join(filepath.Dir(config), "secrets.env"))
	if err != nil {
		t.Fatal(err)
	}
	return hire.Secrets(text)[name]
}

// A running supervisor uses a new agent without a restart. A token that a session uses stays valid when the agent is
// hired again. Retiring the agent removes it without a restart.
func TestHireWhileRunning(t *testing.T) {
	leftToStorms(t, "the steps of a hire in agents/hire")
	t.Parallel()
	f := newTestForge(t)
	state := t.TempDir()
	path := f.file(state, `"demo-agent"`, `"demo-agent", "--think", "1h"`)
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", path)
	status(t, state, "an agent works", working)
	admin := f.environ(map[string]string{"FORGE_ADMIN_TOKEN": f.adminToken(), "FORGE_TOKEN": ""})
	do := func(code int, says string, args ...string) {
		t.Helper()
		got := disinto(t.Context(), admin, append(args, "--config", path, "--state", state)...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, says) {
			t.Fatalf("%q: got exit code %d, want %d and %q\n%s%s", args, got.code, code, says, got.stdout, got.stderr)
		}
		if token := secretOf(t, path, "FORGE_TOKEN_DEV_GLM"); token != "" && strings.Contains(got.stdout+got.stderr, token) {
			t.Error("the command prints the token")
		}
	}
	do(exitDone, "its token logs in as dev-glm", "hire-an-agent", "dev-glm", "--thread", "anthropic", "--model", "glm")
	token := secretOf(t, path, "FORGE_TOKEN_DEV_GLM")
	isGLM := func(s control.SessionDocument) bool { return s.Agent == "dev-glm" && s.PID > 0 }
	d := status(t, state, "dev-glm works", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Sessions, isGLM)
	})
	if d.Config.Generation < 2 || d.Config.Error != "" { // hiring may cause one or two reloads
		t.Errorf("got configuration %+v", d.Config)
	}
	seesItsToken(t, token)

	do(exitDone, "kept: dev-glm works on", "hire-an-agent", "dev-glm")
	if again := secretOf(t, path, "FORGE_TOKEN_DEV_GLM"); again == token || !f.lives(token) || !f.lives(again) {
		t.Errorf("want the session's token still valid, and a new valid one")
	}
	do(exitDone, "its profile repository stay", "retire-an-agent", "dev-glm")
	if f.lives(token) || secretOf(t, path, "FORGE_TOKEN_DEV_GLM") != "" {
		t.Error("want the token revoked and removed from the secrets file")
	}
	status(t, state, "dev-glm is gone", func(d *control.Document) bool {
		return !slices.ContainsFunc(d.Sessions, isGLM) && !slices.ContainsFunc(d.Agents,
			func(a control.AgentDocument) bool { return a.Name == "dev-glm" })
	})
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	nowhere(t, token, r.stdout, r.stderr, path, state)
}

// seesItsToken checks that a token is only in the environment of its agent's sessions, and in no process's arguments.
func seesItsToken(t *testing.T, token string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range dirs {
		args, _ := os.ReadFile(d + "/cmdline")
		env, _ := os.ReadFile(d + "/environ")
		if bytes.Contains(args, []byte(token)) {
			t.Errorf("the token is in the arguments of %q", args)
		}
		if !bytes.Contains(env, []byte(token)) {
			continue
		}
		if seen++; !bytes.Contains(env, []byte("DISINTO_AGENT=dev-glm\x00")) {
			t.Errorf("the token is in the environment of %q", args)
		}
	}
	if seen == 0 {
		t.Error("no process has the token")
	}
}

// nowhere fails for each file in places that contains a token.
func nowhere(t *testing.T, token string, places ...string) {
	t.Helper()
	for _, place := range places {
		err := filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			raw, err := os.ReadFile(path)
			if bytes.Contains(raw, []byte(token)) {
				t.Errorf("the token is in %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// hire-an-agent does not need the supervisor's environment, and each documented way to sign in works.
func TestHireSignsIn(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	token := f.adminToken()
	if err := f.forge.AddUser("disinto-admin", "upstream-password", true); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		vars  map[string]string
		args  string
		stdin string
		err   string // empty if the sign-in works
	}{
		{name: "nothing", err: "forgejo admin user generate-access-token"},
		{name: "token", args: "--admin-token " + token},
		{name: "token on stdin", args: "--admin-token -", stdin: token + "\n"},
		{name: "empty stdin", args: "--admin-token -", err: "cannot sign in"},
		{name: "variable", vars: map[string]string{"FORGE_ADMIN_TOKEN": token}},
		{name: "upstream's variable", vars: map[string]string{"FORGE_ADMIN_PAT": token}},
		{name: "ours first", vars: map[string]string{"FORGE_ADMIN_TOKEN": token, "FORGE_ADMIN_PAT": "wrong"}},
		{name: "flag first", vars: map[string]string{"FORGE_ADMIN_TOKEN": "wrong"}, args: "--admin-token " + token},
		{name: "password", args: "--admin-user disinto-admin --admin-password upstream-password"},
		{name: "password on stdin", args: "--admin-user disinto-admin --admin-password -", stdin: "upstream-password"},
		{name: "password variables", vars: map[string]string{
			"FORGE_ADMIN_USER":     "disinto-admin",
			"FORGE_ADMIN_PASSWORD": "upstream-password",
		}},
		{name: "upstream's password", vars: map[string]string{"FORGE_ADMIN_PASS": "upstream-password"}},
		{
			name: "user before token variable", vars: map[string]string{"FORGE_ADMIN_TOKEN": "wrong"},
			args: "--admin-user disinto-admin --admin-password upstream-password",
		},
		{name: "user without password", args: "--admin-user disinto-admin", err: "cannot sign in"},
		{
			name: "wrong password", args: "--admin-user disinto-admin --admin-password guess-guess",
			err: "the password is wrong",
		},
		{name: "wrong token", args: "--admin-token 0123456789", err: "the forge does not know this token"},
		{name: "two on stdin", args: "--admin-user x --admin-token - --admin-password -", err: "only one of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			vars := map[string]string{"FORGE_TOKEN": ""}
			maps.Copy(vars, tt.vars)
			c := testCLI(f.environ(vars))
			var out bytes.Buffer
			c.stdout, c.stderr, c.stdin = &out, &out, strings.NewReader(tt.stdin)
			args := append(strings.Fields("hire-an-agent dev-x dev --thread llama --dry-run "+tt.args), "--config",
				f.file(t.TempDir()))
			code := c.run(t.Context(), args)
			said := out.String()
			if (code == exitDone) != (tt.err == "") || !strings.Contains(said, tt.err) {
				t.Errorf("got exit code %d, want %q in\n%s", code, tt.err, said)
			}
			for _, secret := range []string{token, "upstream-password", "guess-guess", "0123456789"} {
				if strings.Contains(said, secret) {
					t.Errorf("the command prints a secret:\n%s", said)
				}
			}
		})
	}
}

// TestHireOptions covers options that have several forms, conflict or are missing.
func TestHireOptions(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	environ := f.environ(map[string]string{"FORGE_ADMIN_TOKEN": f.adminToken()})
	const more = "[agents.dev-qwen]\nmodel = \"old\"\nskills = [\"go\"]\n"
	for _, tt := range []struct {
		name, args string
		code       int
		says       string
		file       string // texts of factory.toml afterwards, with | between them
	}{
		{
			name: "upstream's spelling, and skills",
			args: "dev-glm dev --thread llama --local-model http://localhost:9/v1 --poll-interval 60 --skills sql,go,go",
			file: "base_url = \"http://localhost:9/v1\"\n|skills = [\"go\", \"sql\"]\n", says: "--poll-interval has no effect",
		},
		{
			name: "an existing agent keeps the values not given", args: "dev-qwen",
			file: "model = \"old\"\nskills = [\"go\"]\ntoken = \"$FORGE_TOKEN_DEV_QWEN\"\nrole = \"dev\"\n",
		},
		{
			name: "a new model, and another place for secrets", args: "dev-qwen --model new --secrets SECRETS",
			file: "model = \"new\"\n", says: "set $DISINTO_SECRETS",
		},
		{
			name: "two roles", args: "dev-glm dev --type review", code: exitUsage,
			says: "cannot use two roles: dev and --type review",
		},
		{
			name: "no role", args: "glm --thread llama", code: exitFailed,
			says: "cannot derive a role from the name glm: use --type ROLE",
		},
		{name: "no thread", args: "dev-glm", code: exitFailed, says: "--thread anthropic or --thread llama"},
		{
			name: "no formula", args: "dev-glm --thread llama --formula /no/such/file", code: exitFailed,
			says: "cannot read the formula",
		},
		{
			name: "no repository", args: "dev-glm --thread llama --repo harb", code: exitFailed,
			says: `cannot give access to "harb"`,
		},
		{name: "retire nobody", args: "retire dev-nobody", code: exitFailed, says: "there is no agent dev-nobody"},
		{name: "retire a mistyped name", args: "retire dev-qwne", code: exitFailed, says: "forge, did you mean dev-qwen?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := f.file(t.TempDir(), "[agents.dev-qwen]\n", more)
			args := strings.Fields("hire-an-agent " + strings.ReplaceAll(tt.args, "SECRETS",
				filepath.Join(t.TempDir(), "x.env")))
			if args[1] == "retire" {
				args = []string{"retire-an-agent", args[2]}
			}
			got := disinto(t.Context(), environ, append(args, "--config", path, "--state", t.TempDir())...)
			if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.says) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", got.code, tt.code, tt.says, got.stdout, got.stderr)
			}
			raw, err := os.ReadFile(path)
			for want := range strings.SplitSeq(tt.file, "|") {
				if err != nil || !strings.Contains(string(raw), want) {
					t.Errorf("%v; want %q in\n%s", err, want, raw)
				}
			}
		})
	}
}

// The secrets file beside factory.toml takes precedence over the environment for every secret. A file that others can
// read is refused.
func TestSecretsFile(t *testing.T) {
	dir := t.TempDir()
	config, path := filepath.Join(dir, "factory.toml"), filepath.Join(dir, "secrets.env")
	text := "[forge]\nurl = \"http://f\"\nrepos = [\"a/b\"]\n[threads.a]\nbackend = \"local\"\n" +
		"agents = [\"dev-x\", \"dev-y\"]\n"
	for name, text := range map[string]string{config: text, path: "FORGE_TOKEN=boss\nFORGE_TOKEN_DEV_X=new\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := testCLI([]string{"FORGE_TOKEN_DEV_X=old", "FORGE_TOKEN_DEV_Y=why"})
	f := &factory{
		Supervisor: new(supervisor.Supervisor), path: config, lookupEnv: c.lookup, kind: forges[0].made,
	}
	got, _, err := f.read()
	if err != nil || got.Forge.Token != "boss" || got.Agents[0].Token != "new" || got.Agents[1].Token != "why" {
		t.Fatalf("got %v, %+v", err, got)
	}
	if f.changed() {
		t.Error("changed() = true without a change")
	}
	if err := os.WriteFile(path, []byte("FORGE_TOKEN=boss\nFORGE_TOKEN_DEV_X=newer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !f.changed() {
		t.Error("changed() = false after a new secret")
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if !f.changed() {
		t.Error("changed() = false although others can read the secrets")
	}
	for range 2 { // it is told until there are new secrets
		if _, _, err := f.read(); err != nil || f.changed() || *f.exposed.Load() != path {
			t.Errorf("readable by others: got %v, changed %v, exposed %q", err, f.changed(), *f.exposed.Load())
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("readable by others: got mode %v, %v, want 0600 again", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("FORGE_TOKEN=boss\nFORGE_TOKEN_DEV_X=new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.read(); err != nil || *f.exposed.Load() != "" {
		t.Errorf("after a new secret: got %v, exposed %q", err, *f.exposed.Load())
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if f.changed() {
		t.Error("changed() = true at the first look after the file was deleted: an editor may be replacing it")
	}
	if !f.changed() {
		t.Error("changed() = false after the file was deleted")
	}
	if _, _, err := f.read(); err == nil || f.changed() {
		t.Errorf("after a read without the file: got %v, changed again", err)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if !f.changed() {
		t.Error("changed() = false after the file came back")
	}
	elsewhere := filepath.Join(t.TempDir(), "s")
	c = testCLI([]string{"DISINTO_SECRETS=" + elsewhere, "FORGE_TOKEN=env"})
	if got, _, err := readConfig(config, c.lookup); err != nil || got.Forge.Token != "env" {
		t.Errorf("with $DISINTO_SECRETS naming a missing file: got %v", err)
	}
}

// Only one command at a time may hire or retire: two would overwrite each other's lines.
func TestHireAlone(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	path := f.file(t.TempDir())
	unlock, err := hire.Lock(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	environ := f.environ(map[string]string{"FORGE_ADMIN_TOKEN": f.adminToken()})
	for _, args := range [][]string{{"hire-an-agent", "dev-glm", "--thread", "llama"}, {"retire-an-agent", "dev-qwen"}} {
		got := disinto(t.Context(), environ, append(args, "--config", path, "--state", t.TempDir())...)
		if got.code != exitFailed || !strings.Contains(got.stderr, "another command is hiring or retiring") {
			t.Errorf("%q: got exit code %d, %s", args, got.code, got.stderr)
		}
	}
}

// A command that hires need not know the supervisor's variables, whatever key has them.
func TestHireKnowsNoSecrets(t *testing.T) {
	t.Parallel()
	path := factoryFile(t, `[forge]
url = "http://127.0.0.1:9"
token = "$A"
repos = ["johba/harb"]
webhook_secret = "$B"
[factory]
listen = "127.0.0.1:8080"
listen_token = "$C"
[threads.api]
backend = "api"
agents = ["dev-a"]
env = { ANTHROPIC_API_KEY = "$D" }
[roles.dev]
cli = "claude"
[notify]
urls = ["$E"]
`)
	c := &cli{}
	if _, _, err := readConfig(path, c.lookupOrPlaceholder); err != nil {
		t.Error(err)
	}
}

// Before factory.toml exists, the command reports the forge's problem and which token it used. Without a token it
// says how to give one. Upstream's own tests expect these words.
func TestHireBeforeFactory(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	none := filepath.Join(t.TempDir(), "factory.toml")
	for _, tt := range []struct {
		name    string
		environ []string
		args    []string
		says    []string
	}{
		{"no arguments", nil, nil, []string{"--admin-token <pat>"}},
		{"no forge", []string{"FORGE_URL=http://127.0.0.1:1"}, []string{"dev-x", "dev"}, []string{"Connection refused"}},
		{
			"no forge, and a token in the environment",
			[]string{"FORGE_URL=http://127.0.0.1:1", "FORGE_ADMIN_PAT=x", "FORGE_ADMIN_PASS=y"},
			[]string{"dev-x", "dev"},
			[]string{"Auth: PAT from FORGE_ADMIN_PAT", "Connection refused"},
		},
		{
			"a token that is no administrator's",
			[]string{"FORGE_URL=" + f.URL},
			[]string{"dev-x", "dev", "--admin-token", f.Tokens["FORGE_TOKEN_DEV_QWEN"]},
			[]string{"Auth: PAT from --admin-token", "is not an administrator", "admin scope"},
		},
		{
			"no administrator",
			[]string{"FORGE_URL=" + f.URL},
			[]string{"dev-x", "dev"},
			[]string{"cannot sign in", "FORGE_ADMIN_TOKEN"},
		},
		{
			"only the file is missing",
			[]string{"FORGE_URL=" + f.URL, "FORGE_ADMIN_TOKEN=" + f.adminToken()},
			[]string{"dev-x", "dev"},
			[]string{"there is no such file"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"hire-an-agent"}
			if tt.args != nil {
				args = append(append(args, tt.args...), "--config", none)
			}
			got := disinto(t.Context(), tt.environ, args...)
			for _, want := range tt.says {
				if !strings.Contains(got.stdout+got.stderr, want) {
					t.Errorf("the output lacks %q:\n%s%s", want, got.stdout, got.stderr)
				}
			}
			if got.code == exitDone || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("got exit code %d, %q", got.code, got.stderr)
			}
		})
	}
}

// The supervisor's own account is created like an agent's, but without a profile and without lines in factory.toml.
// Its token becomes [forge] token, and hiring it again replaces that.
func TestHireSupervisor(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	path := f.file(t.TempDir(), "", "")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	admin := f.environ(map[string]string{"FORGE_ADMIN_TOKEN": f.adminToken(), "FORGE_TOKEN": ""})
	hire := func(code int, says string, args ...string) {
		t.Helper()
		got := disinto(t.Context(), admin, append([]string{"hire-an-agent", "--supervisor", "--config", path}, args...)...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, says) {
			t.Fatalf("%q: got exit code %d, want %d and %q\n%s%s", args, got.code, code, says, got.stdout, got.stderr)
		}
	}
	hire(exitDone, "its token logs in as disinto-own", "disinto-own")
	token := secretOf(t, path, "FORGE_TOKEN")
	hire(exitDone, "revoked 1", "disinto-own")
	if again := secretOf(t, path, "FORGE_TOKEN"); again == token || f.lives(token) || !f.lives(again) {
		t.Error("want the old token revoked and the new one valid")
	}
	hire(exitFailed, "it is an agent's", "dev-qwen")
	hire(exitFailed, "administrator's", forgeAdmin)
	hire(exitUsage, "takes only a name", "disinto-own", "--model", "m")
	if after, _ := os.ReadFile(path); !bytes.Equal(after, before) {
		t.Errorf("factory.toml changed:\n%s", after)
	}
	got := disinto(t.Context(), slices.DeleteFunc(f.environ(nil), func(kv string) bool {
		return strings.HasPrefix(kv, "FORGE_TOKEN=")
	}), "check", "--config", path)
	if strings.Contains(got.stdout+got.stderr, "$FORGE_TOKEN is not set") || !strings.Contains(got.stdout, f.URL) {
		t.Errorf("got check's output\n%s%s", got.stdout, got.stderr)
	}
}
