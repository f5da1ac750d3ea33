package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// roomFactory has one developer. Its stall is long enough for a clone on a busy machine, which was silent for two
// seconds, and in make check shorter than the commands of its repository are silent.
const roomFactory = `[forge]
url = %q
token = "$FORGE_TOKEN"
repos = [%q]

[threads.llama]
backend = "local"
interval = "500ms"
idle_interval = "500ms"
agents = ["dev-qwen"]

[roles.dev]
cli = "claude"
label = "picked"
stall = "10s"

[repos.%q]
`

// startRoom starts a factory with keys of the repository, which works on issue 8, and CLI is a script.
func (f *testForge) startRoom(state, script, keys string) *running {
	f.t.Helper()
	f.pick(8)
	path := factoryFile(f.t, fmt.Sprintf(roomFactory, f.URL, demo.Repo, demo.Repo)+keys)
	environ := withEnv(f.environ(nil), []string{"PATH=" + stub(f.t, script) + ":" + os.Getenv("PATH")})
	return startDisinto(f.t, environ, "run", "--yes", "--config", path, "--state", state)
}

// Commands that are silent for longer than a stall are not ended, the status says what happens, and a supervisor that
// is killed meanwhile changes nothing: they are not begun again, and there is one pull request.
func TestSupervisorKilledInSetup(t *testing.T) {
	t.Parallel()
	killedIn(t, "setup", "setting up, ", agents.PhaseSetup)
}

func TestSupervisorKilledInVerify(t *testing.T) {
	t.Parallel()
	killedIn(t, "verify", "verifying, ", agents.PhaseVerify)
}

func killedIn(t *testing.T, key, words string, phase agents.Phase) {
	f := newTestForge(t)
	state := t.TempDir()
	gate := filepath.Join(t.TempDir(), "gate")
	r := f.startRoom(state, writeOrder, fmt.Sprintf(
		"%s = [[\"sh\", \"-c\", \"echo begun >> ../runs; while ! test -e %s; do sleep 0.1; done\"]]\n", key, gate))
	during := func(d *control.Document) bool {
		return len(d.Sessions) == 1 && d.Sessions[0].Doing.Phase == phase && d.Sessions[0].PID > 0
	}
	status(t, state, "its commands run", during)
	if got := disinto(t.Context(), nil, "status", "--state", state).stdout; !strings.Contains(got, words) {
		t.Errorf("the status does not say what happens:\n%s", got)
	}
	old := r.supervisor()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
	status(t, state, "they still run", during)
	if storms() {
		time.Sleep(12 * time.Second) // longer than a stall; a slow machine makes it only longer
	}
	f.write(gate, "")
	var pull struct{ State string }
	eventually(t, "the work is handed in", func() bool { f.get("/pulls/12", &pull); return pull.State == "open" })
	d := status(t, state, "the session has ended", func(d *control.Document) bool { return len(d.Recent) > 0 })
	runs := r.read(filepath.Join(state, "work", "dev-qwen", strings.ReplaceAll(demo.Repo, "/", "_")+"_8", "runs"))
	if d.Recent[0].Outcome != agents.Done || strings.Count(runs, "begun") != 1 {
		t.Errorf("got %+v after %q", d.Recent[0], runs)
	}
	shown := disinto(t.Context(), nil, "show", "8", "--state", state).stdout
	if !strings.Contains(shown, "\n"+key+": sh -c echo begun") {
		t.Errorf("show lacks %s:\n%s", key, shown)
	}
	receipts, _ := filepath.Glob(filepath.Join(state, "receipts", "*.json"))
	if len(receipts) != 1 || !strings.Contains(r.read(receipts[0]), fmt.Sprintf(`"phase": %q`, phase)) {
		t.Errorf("the receipt lacks %s: %q", key, receipts)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}

// check --setup runs the setup of one repository, and says how long each command took, or how one failed.
func TestCheckSetup(t *testing.T) {
	f := newTestForge(t)
	for _, tt := range []struct {
		repo, keys string
		code       int
		want       []string
	}{
		{demo.Repo, `setup = [["test", "-f", "README.md"], ["git", "ls-remote", "origin"]]`, exitDone, []string{
			demo.Repo + " as dev-qwen: test -f README.md, ", demo.Repo + " as dev-qwen: git ls-remote origin, ",
		}},
		{demo.Repo, `setup = [["true"], ["sh", "-c", "echo no such package; exit 3"]]`, exitFailed, []string{
			demo.Repo + " as dev-qwen: true, ", "no such package; exit 3, exit 3", "no such package",
		}},
		{demo.Repo, "", exitFailed, []string{"has no setup"}},
		{"ada/other", `setup = [["true"]]`, exitFailed, []string{"none of the repositories"}},
	} {
		text := fmt.Sprintf(roomFactory, f.URL, demo.Repo, demo.Repo) + tt.keys
		if tt.keys == "" {
			text, _, _ = strings.Cut(text, "[repos.")
		}
		got := disinto(t.Context(), f.environ(nil), "check", "--setup", tt.repo, "--config", factoryFile(t, text),
			"--state", t.TempDir())
		for _, want := range tt.want {
			if got.code != tt.code || !strings.Contains(got.stdout, want) {
				t.Errorf("%s: got %d and %s%s, want %d and %q", tt.keys, got.code, got.stdout, got.stderr, tt.code, want)
			}
		}
	}
}
