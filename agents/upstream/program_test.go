package upstream_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/upstream"
)

// office is a checkout of upstream's repository with one project and a few scripts, and an agent's home.
type office struct {
	root, home string
	environ    []string
	cloned     []string // the addresses that git cloned
	fail       string   // the address that cannot be cloned
}

func newOffice(t *testing.T, more ...string) *office {
	t.Helper()
	o := &office{root: t.TempDir(), home: t.TempDir()}
	for path, text := range map[string]string{
		"projects/harb.toml": harb, "dev/dev-agent.sh": "",
		"gardener/gardener-step.sh": "", "dev/dev-poll.sh": "", "review/review-pr.sh": "", "state/.gitignore": "",
	} {
		path = filepath.Join(o.root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	o.environ = append([]string{
		"HOME=" + o.home, "FORGE_URL=http://forge", "FORGE_API=http://forge/api/v1/repos/Johba/harb", "FORGE_TOKEN=secret",
		"DISINTO_REPO=Johba/harb", "DISINTO_AGENT=llama",
		"FORGE_REPO=johba/harb", "OTHER=stays", "PROJECT_NAME=wrong",
	}, more...)
	return o
}

func (o *office) prepare(t *testing.T, private bool, script string, args ...string) (*upstream.Script, error) {
	p := &upstream.Program{
		Root: o.root, Script: script, Args: args, Environ: o.environ, Private: private, Out: io.Discard,
		Run: func(_ context.Context, cmd agents.Cmd) error {
			url, dir := cmd.Argv[3], cmd.Argv[4]
			o.cloned = append(o.cloned, url)
			if strings.Contains(strings.Join(cmd.Argv, " "), "secret") ||
				!slices.Contains(cmd.Env, "GIT_CONFIG_VALUE_0=Authorization: token secret") {
				t.Errorf("git %q did not get its token from the environment", cmd.Argv)
			}
			if url == o.fail {
				return errors.New("no such repository")
			}
			return os.MkdirAll(filepath.Join(dir, ".git"), 0o700)
		},
	}
	return p.Prepare(t.Context())
}

// value returns the value of a variable, which must be set exactly once.
func value(t *testing.T, env []string, name string) string {
	t.Helper()
	var all []string
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			all = append(all, v)
		}
	}
	if len(all) != 1 {
		t.Errorf("%s has the values %q, want one", name, all)
		return ""
	}
	return all[0]
}

func TestPrepare(t *testing.T) {
	o := newOffice(t)
	if err := os.MkdirAll(filepath.Join(o.home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(o.home, "tmp", "dev-agent-harb.lock")
	if err := os.WriteFile(lock, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := o.prepare(t, true, "dev/dev-agent.sh", "17")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"bash", filepath.Join(o.root, "dev/dev-agent.sh"), "17"}, s.Argv); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"PROJECT_NAME": "harb", "PROJECT_TOML": filepath.Join(o.root, "projects/harb.toml"),
		"PROJECT_REPO_ROOT": filepath.Join(o.home, "repos/harb"),
		"OPS_REPO_ROOT":     filepath.Join(o.home, "repos/harb-ops"), "PRIMARY_BRANCH": "main", "WOODPECKER_REPO_ID": "7",
		"DISINTO_CONTAINER": "1",
		"FORGE_OPS_REPO":    "johba/harb-ops", "FORGE_REVIEW_TOKEN": "secret", "FORGE_REPO": "johba/harb", "OTHER": "stays",
		"USER":              "agent",
		"CLAUDE_CONFIG_DIR": filepath.Join(o.home, ".claude"), "FORGE_API_BASE": "http://forge/api/v1",
	} {
		if got := value(t, s.Env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(lock); err == nil || s.Waits || s.Dir != o.root || s.Tmp != filepath.Join(o.home, "tmp") {
		t.Errorf("the lock of an ended session exists (%v), or the script is wrong: %+v", err, s)
	}
	want := []string{"http://forge/johba/harb.git", "http://forge/johba/harb-ops.git"}
	if s, err = o.prepare(t, true, "gardener/gardener-step.sh"); err != nil ||
		s.Argv[2] != filepath.Join(o.root, "projects/harb.toml") {
		t.Errorf("Prepare without arguments = %+v, %v, want the project's path as an argument", s, err)
	}
	if diff := cmp.Diff(want, o.cloned); diff != "" { // each clone is made only once
		t.Error(diff)
	}
	if s, err = o.prepare(t, true, "dev/dev-poll.sh"); err != nil || !s.Waits {
		t.Errorf("Prepare of a poller = %+v, %v, want Waits", s, err)
	}
	if _, err = o.prepare(t, true, "review/review-pr.sh", "3"); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"dev", "reviewer", "gardener"} {
		if _, err := os.Stat(filepath.Join(o.root, "state", "."+role+"-active")); err != nil {
			t.Errorf("%s is switched off: %v", role, err)
		}
	}
}

// Without a private /tmp, an agent's lock has a unique name.
func TestPrepareShared(t *testing.T) {
	o := newOffice(t, "USER=ada", "CLAUDE_CONFIG_DIR=/claude")
	t.Setenv("TMPDIR", t.TempDir())
	ours, theirs := filepath.Join(os.TempDir(), "dev-agent-harb-llama.lock"),
		filepath.Join(os.TempDir(), "dev-agent-harb-glm.lock")
	for _, lock := range []string{ours, theirs} {
		if err := os.WriteFile(lock, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := o.prepare(t, false, "dev/dev-agent.sh", "17")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"PROJECT_NAME": "harb-llama", "PROJECT_REPO_ROOT": filepath.Join(o.home, "repos/harb"), "TMPDIR": s.Tmp,
		"USER": "ada", "CLAUDE_CONFIG_DIR": "/claude",
	} {
		if got := value(t, s.Env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(ours); err == nil {
		t.Error("the agent's own lock still exists")
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error("another agent's lock was removed")
	}
}

func TestPrepareModel(t *testing.T) {
	o := newOffice(t, "DISINTO_BACKEND=local", "DISINTO_MODEL=qwen", "DISINTO_BASE_URL=http://llama:8081/v1/")
	s, err := o.prepare(t, true, "review/review-pr.sh", "3")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ANTHROPIC_BASE_URL": "http://llama:8081", "ANTHROPIC_API_KEY": "sk-none", "CLAUDE_MODEL": "qwen",
		"ANTHROPIC_DEFAULT_SONNET_MODEL": "qwen", "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "60", "CLAUDE_TIMEOUT": "900",
	} {
		if got := value(t, s.Env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	o = newOffice(t, "DISINTO_BACKEND=anthropic", "CLAUDE_TIMEOUT=60", "ANTHROPIC_API_KEY=mine")
	if s, err = o.prepare(t, true, "review/review-pr.sh", "3"); err != nil {
		t.Fatal(err)
	}
	if value(t, s.Env, "CLAUDE_TIMEOUT") != "60" || value(t, s.Env, "ANTHROPIC_API_KEY") != "mine" {
		t.Error("Prepare changed variables that a person set")
	}
}

func TestPrepareRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		more   []string
		fail   string
		want   string
	}{
		"by hand":       {"dev/dev-agent.sh", []string{"HOME="}, "", "$HOME is not set"},
		"outside":       {"../x.sh", nil, "", "want a path below"},
		"no script":     {"dev/none.sh", nil, "", "--root says where"},
		"other project": {"dev/dev-agent.sh", []string{"DISINTO_REPO=a/b"}, "", "is for a/b"},
		"no repository": {
			"dev/dev-agent.sh", nil, "http://forge/johba/harb.git",
			"cannot clone johba/harb: no such repository",
		},
		"no operations":  {"dev/dev-agent.sh", nil, "http://forge/johba/harb-ops.git", ""},
		"a clone broken": {"dev/dev-agent.sh", nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, test.more...)
			o.fail = test.fail
			if err := os.MkdirAll(filepath.Join(o.home, "repos/harb.cloning/.git"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := o.prepare(t, true, test.script, "1")
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestReadProjects(t *testing.T) {
	o := newOffice(t)
	dir := filepath.Join(o.root, "projects")
	for name, text := range map[string]string{"bad.toml": "name =", "x.toml.example": "name ="} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := upstream.ReadProjects(dir)
	if len(all) != 1 || err == nil || !strings.Contains(err.Error(), "bad.toml") ||
		strings.Contains(err.Error(), "example") {
		t.Errorf("ReadProjects = %+v, %v, want one project and an error about bad.toml", all, err)
	}
	if _, err := upstream.ReadProjects(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has no *.toml") {
		t.Errorf("ReadProjects of an empty folder: %v, want an error", err)
	}
}

func TestFits(t *testing.T) {
	if !upstream.Fits("/home/x", "", "/tmpfs/x") || upstream.Fits("/home/x", "/tmp/state") || upstream.Fits("/tmp") {
		t.Error("Fits is wrong about paths that a private /tmp hides")
	}
}
