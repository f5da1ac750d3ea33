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
	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// checkout creates a folder like upstream's, with a project for the demo's repository. It is not in /tmp, except in
// the test for that.
func (f *testForge) checkout(base string, scripts map[string]string) (root string) {
	f.t.Helper()
	root, err := os.MkdirTemp(base, "upstream-test-")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { os.RemoveAll(root) })
	project := fmt.Sprintf("name = %q\nrepo = %q\nforge_url = %q\n", filepath.Base(root), demo.Repo, f.URL)
	f.write(filepath.Join(root, projectsDir, "demo.toml"), project)
	for path, text := range scripts {
		f.write(filepath.Join(root, path), text)
	}
	return root
}

func (f *testForge) write(path, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// script starts one of upstream's scripts as a supervisor does.
func (f *testForge) script(root, agent string, args ...string) *running {
	f.t.Helper()
	home := filepath.Join(root, "home", agent)
	if err := os.MkdirAll(home, 0o700); err != nil {
		f.t.Fatal(err)
	}
	environ := []string{
		"HOME=" + home, "FORGE_URL=" + f.URL, "FORGE_TOKEN=" + f.Tokens[agents.TokenVar(agent)], "FORGE_REPO=" + demo.Repo,
		"FORGE_API=" + forgejo.APIAddress(f.URL, demo.Repo), "DISINTO_REPO=" + demo.Repo, "DISINTO_AGENT=" + agent,
		"CLAUDE_CONFIG_DIR=", "DISINTO_WORKSPACE=", "DISINTO_RESULT=",
	}
	return startDisinto(f.t, environ, append([]string{"upstream", "--root", root}, args...)...)
}

// Upstream's developers use a lock file in /tmp, so that a second one ends as if there were no work. Here each agent
// has its own /tmp.
const lockingScript = `
lock=/tmp/dev-agent-$PROJECT_NAME.lock
if [ -e "$lock" ]; then echo "another one is at work"; exit 9; fi
echo $$ > "$lock"
cd "$PROJECT_REPO_ROOT" && git push -q origin "HEAD:refs/heads/by-$DISINTO_AGENT" || exit 8
touch "$(dirname "$0")/$DISINTO_AGENT"
n=0
until [ -e "$(dirname "$0")/dev-qwen" ] && [ -e "$(dirname "$0")/dev-kimi" ]; do
  sleep 0.05; n=$((n+1)); [ $n -lt 1000 ] || exit 7
done
rm "$lock"
`

func TestUpstreamScripts(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]string{"a private tmp": "/var/tmp", "a shared one": "/tmp"} {
		t.Run(name, func(t *testing.T) {
			if base == "/tmp" {
				leftToStorms(t, "a private tmp")
			}
			f := newTestForge(t)
			root := f.checkout(base, map[string]string{"dev/dev-agent.sh": lockingScript})
			both := []*running{
				f.script(root, "dev-qwen", "dev/dev-agent.sh", "8"),
				f.script(root, "dev-kimi", "dev/dev-agent.sh", "7"),
			}
			for _, r := range both {
				if code := r.wait(); code != 0 {
					t.Errorf("got exit code %d\n%s", code, r.read(r.stdout))
				}
				if said := strings.Contains(r.read(r.stdout), "no private /tmp here"); said && base == "/var/tmp" {
					t.Skip("no private /tmp: mount namespaces are not permitted here")
				} else if said == (base == "/var/tmp") {
					t.Errorf("got output %q", r.read(r.stdout))
				}
			}
			var branches []struct{ Name string }
			f.get("/branches?limit=50", &branches)
			if !strings.Contains(fmt.Sprint(branches), "by-dev-qwen") || !strings.Contains(fmt.Sprint(branches), "by-dev-kimi") {
				t.Errorf("got branches %v", branches)
			}
			f.noTokens(root)
			if left, _ := filepath.Glob("/tmp/dev-agent-" + filepath.Base(root) + "*"); len(left) > 0 {
				t.Errorf("got remaining files in /tmp: %q", left)
			}
		})
	}
}

// A poller's session lasts as long as the processes that it started. Its exit code is the script's.
func TestUpstreamPoller(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	root := f.checkout("/var/tmp", map[string]string{
		"dev/dev-poll.sh": `(sleep 0.5; touch "$(dirname "$0")/ended") >/dev/null 2>&1 & exit 0`,
		"dev/broken.sh":   `mkdir -p "$HOME/data/logs/dev"; echo "it broke" >> "$HOME/data/logs/dev/dev-agent.log"; exit 7`,
	})
	if code := f.script(root, "dev-qwen", "dev/dev-poll.sh").wait(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	if _, err := os.Stat(filepath.Join(root, "dev/ended")); err != nil {
		t.Error("the poller ended before its agent")
	}
	r := f.script(root, "dev-qwen", "dev/broken.sh")
	if code := r.wait(); code != 7 || !strings.Contains(r.read(r.stdout), "it broke\n") {
		t.Errorf("got exit code %d, want the script's and the text of its log\n%s", code, r.read(r.stdout))
	}
}

// Upstream's projects serve as the configuration if there is no other.
func TestUpstreamProjects(t *testing.T) {
	f := newTestForge(t)
	root := f.checkout("/var/tmp", nil)
	projects := filepath.Join(root, projectsDir)
	environ := f.environ(map[string]string{"FORGE_TOKEN": f.Tokens["FORGE_TOKEN_DEV_QWEN"], "AGENT_ROLES": "dev"})
	says := func(code int, want string, environ []string, args ...string) {
		t.Helper()
		got := disinto(t.Context(), environ, args...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, want) {
			t.Errorf("%q: got exit code %d, want %d and %q\n%s%s", args, got.code, code, want, got.stdout, got.stderr)
		}
	}
	says(exitDone, "dev/dev-agent.sh", environ, "upstream", "--root", root)
	mode := func(word string) []string { return withEnv(environ, []string{"DISINTO_SCHEDULER=" + word}) }
	poll := mode("poll")
	says(exitDone, "dev/dev-poll.sh", poll, "upstream", "--root", root)
	says(exitFailed, "want poll or threads", mode("cron"), "upstream", "--root", root)
	says(exitFailed, "its token belongs to dev-qwen", environ, "check", "--config", projects)
	says(exitFailed, "upstream > factory.toml", environ, "hire-an-agent", "dev-glm", "--config", projects)
	says(exitFailed, "DISINTO_SCHEDULER is poll, which works only with upstream's projects", poll, "check", "--config",
		f.file(t.TempDir()))
	f.write(filepath.Join(projects, "bad.toml"), "name = 1")
	says(exitFailed, "bad.toml", environ, "check", "--config", projects)
	t.Chdir(root)
	if p := (&location{}).configFile(); p != projectsDir && p != systemConfig {
		t.Errorf("in upstream's checkout: got configuration %s", p)
	}
}

// A project that changes or becomes unreadable changes the configuration.
func TestUpstreamReload(t *testing.T) {
	f := newTestForge(t)
	root := f.checkout("/var/tmp", nil)
	path := filepath.Join(root, projectsDir)
	environ := testCLI(f.environ(map[string]string{"AGENT_ROLES": "dev"}))
	fac, err := newFactory(path, t.TempDir(), true, environ.environ, environ.lookup, oneReaper(t),
		newLog(environ.stderr, pid1.LineForm{}))
	if err != nil {
		t.Fatal(err)
	}
	if fac.ConfigError != nil || fac.changed() {
		t.Fatalf("at the start: got error %v, changed %v", fac.ConfigError, fac.changed())
	}
	f.write(filepath.Join(path, "other.toml"), "name =")
	if !fac.changed() {
		t.Error("changed() = false after a project became invalid")
	}
	f.write(filepath.Join(path, "other.toml"), "name = \"o\"\nrepo = \"a/b\"")
	if !fac.changed() {
		t.Error("changed() = false after a new project")
	}
}

// upstreamClaude is a stub for Claude Code that obeys upstream's prompts: it pushes work or writes a verdict.
const upstreamClaude = `#!/bin/bash
sid=11111111-2222-3333-4444-555555555555
while [ $# -gt 0 ]; do case "$1" in -p) prompt="$2"; shift 2;; *) shift;; esac; done
case "$prompt" in
*"You are the review agent"*)
  verdict=REQUEST_CHANGES; [[ "$prompt" == *"This is a RE-REVIEW"* ]] && verdict=APPROVE
  echo '{"verdict":"'$verdict'","verdict_reason":"As I see it","review_markdown":"Seen."}' > "$(sed -n 's/^REVIEW_OUTPUT_FILE=//p' <<<"$prompt")";;
*)
  echo "$RANDOM" >> "work-$(git branch --show-current | tr / -).txt"; git add .; git commit -q -m "fix: work"; git push -q "$FORGE_REMOTE" HEAD;;
esac
echo '{"type":"system","subtype":"init","session_id":"'$sid'"}'
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"'$sid'","result":"done"}'
`

// Upstream's own scripts, unmodified, take issues through a review with requested changes to the merge: a developer
// on an API and one with a local model, at the same time.
func TestUpstreamItself(t *testing.T) {
	from := os.Getenv("DISINTO_UPSTREAM")
	if from == "" {
		t.Skip("$DISINTO_UPSTREAM names no checkout of upstream's disinto")
	}
	f := newTestForge(t)
	root := f.checkout("/var/tmp", nil)
	if err := os.CopyFS(root, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(root, "state-of-ours")
	owner, repo, _ := strings.Cut(demo.Repo, "/")
	environ := []string{"AGENT_ROLES=dev,review"}
	for variable, login := range map[string]string{
		"FORGE_TOKEN": "dev-bot", "FORGE_REVIEW_TOKEN": "review-bot",
		"FORGE_TOKEN_DEV_LOCAL": "dev-local",
	} {
		if err := f.forge.AddUser(login, "", false); err != nil {
			t.Fatal(err)
		}
		if err := f.forge.AddCollaborator(owner, repo, login, "write"); err != nil {
			t.Fatal(err)
		}
		token, err := f.forge.AddToken(login)
		if err != nil {
			t.Fatal(err)
		}
		f.Tokens[variable] = token
	}
	for name, token := range f.Tokens {
		environ = append(environ, name+"="+token)
	}
	for _, agent := range []string{"dev-bot", "llama", "review-bot"} { // the first place where upstream looks
		bin := filepath.Join(state, "home", agent, ".local/bin")
		f.write(filepath.Join(bin, "claude"), upstreamClaude)
		// Upstream waits for reviews in steps of 5 min.
		f.write(filepath.Join(bin, "sleep"), "#!/bin/sh\nexec /usr/bin/sleep 1\n")
	}
	project := filepath.Join(root, projectsDir, "demo.toml")
	text, err := os.ReadFile(project)
	if err != nil {
		t.Fatal(err)
	}
	f.write(project, string(text)+"[agents.llama]\nbase_url = \"http://"+deadAddress(t)+
		"\"\nroles = [\"dev\"]\nforge_user = \"dev-local\"\nmodel = \"qwen\"\n")
	r := startDisinto(t, environ, "run", "--yes", "--config", filepath.Join(root, projectsDir), "--state", state)
	closed := func(number int) bool {
		var issue struct{ State string }
		f.get(fmt.Sprintf("/issues/%d", number), &issue)
		return issue.State == "closed"
	}
	for deadline := time.Now().Add(3 * time.Minute); !closed(8) || !closed(7); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Errorf("issues 7 and 8 are still open\n%s", disinto(t.Context(), nil, "status", "--state", state).stdout)
			break
		}
	}
	status(t, state, "both agents have worked", func(d *control.Document) bool {
		return strings.Contains(fmt.Sprint(d.Recent), "merged #")
	})
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	if left := mentions(t, state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	f.noTokens(state)
}
