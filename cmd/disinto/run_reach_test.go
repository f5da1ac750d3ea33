package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
)

// prey is an agent that sleeps for an hour, with files in its own folders.
const prey = `
echo secret >"$HOME/file"; echo secret >file
echo $$ >"$SHARE/prey.new"; chmod 644 "$SHARE/prey.new"; mv "$SHARE/prey.new" "$SHARE/prey"
sleep 3600`

// probe is an agent that tries to reach the supervisor, the process that started it, another agent, and their files.
// It tries each access on itself first. That must work, or the test would prove nothing.
const probe = `
until [ -e "$SHARE/prey" ]; do sleep 0.1; done
look() { # NAME PID: everything that the kernel guards as it guards ptrace, and signals
	for f in environ mem maps; do (: <"/proc/$2/$f") 2>/dev/null && echo "$1 $f"; done
	readlink "/proc/$2/fd/0" >/dev/null 2>&1 && echo "$1 fd"
	ls "/proc/$2/cwd/" >/dev/null 2>&1 && echo "$1 cwd"
	kill -0 "$2" 2>/dev/null && echo "$1 signal"
}
parent() { cut -d' ' -f4 "/proc/$1/stat"; }
{
	look self $$
	[ -r "$HOME/file" ] || echo mine >"$HOME/file"
	for f in "$HOME" "$HOME/file" .; do (cat "$f" || ls "$f/") >/dev/null 2>&1 && echo "own file"; done
	look shim $PPID
	look supervisor "$(parent $PPID)"
	prey=$(cat "$SHARE/prey") && echo "prey found"
	look prey "$prey"
	for f in "$STATE/disinto.sock" "$STATE/journal.jsonl" "$STATE/status.json" "$STATE/instance" "$CONFIG" "$HIDDEN" \
		"$STATE" "$STATE/logs/dev-kimi" "$STATE/home/dev-kimi" "$STATE/home/dev-kimi/file" "$STATE/work/dev-kimi" \
		"$STATE"/work/dev-kimi/*/file "/proc/$prey/cwd/file"; do
		(cat "$f" || ls "$f/") >/dev/null 2>&1 && echo "read $f"
		(: >>"$f" || : >"$f/new") 2>/dev/null && echo "write $f"
	done
	curl -s --unix-socket "$STATE/disinto.sock" http://x/v1/state 2>/dev/null | grep -q '"agents"' && echo "control socket"
	grep NoNewPrivs /proc/self/status
} >"$SHARE/reached" 2>&1
cat /proc/[0-9]*/cmdline >"$SHARE/arguments" 2>/dev/null
mv "$SHARE/reached" "$SHARE/done"
sleep 3600`

// Two agents in the real program: neither reaches the other or the supervisor, by processes, files or sockets.
// Separate accounts ensure that, or a sandbox on the supervisor's own account.
func TestReach(t *testing.T) {
	t.Run("accounts", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root, to start agents under other accounts")
		}
		for _, name := range []string{"nobody", "daemon"} {
			if _, err := user.Lookup(name); err != nil {
				t.Skip(err)
			}
		}
		if _, err := process.FindSandbox(); err == nil {
			leftToStorms(t, "a sandbox")
		}
		testReach(t, "user = \"daemon\"\n", "user = \"nobody\"\n", "sandbox = \"off\"\n")
	})
	t.Run("sandbox", func(t *testing.T) {
		if _, err := process.FindSandbox(); err != nil {
			t.Skip(err)
		}
		testReach(t, "", "", "sandbox = \"strict\"\nsandbox_write = [%q]\n")
	})
}

func testReach(t *testing.T, preyKeys, probeKeys, factoryKeys string) {
	t.Parallel()
	f := newTestForge(t)
	dir, err := os.MkdirTemp("", "disinto") // not t.TempDir(), whose parent other accounts may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	state, share, etc := filepath.Join(dir, "state"), filepath.Join(dir, "share"), filepath.Join(dir, "etc")
	config, secrets := filepath.Join(etc, "factory.toml"), filepath.Join(etc, "secrets.env")
	var left []string
	for name, token := range f.Tokens {
		left = append(left, name+"="+token)
	}
	if strings.Contains(factoryKeys, "%q") {
		factoryKeys = fmt.Sprintf(factoryKeys, share)
	}
	text := fmt.Sprintf(`
[forge]
url = %q
token = "$FORGE_TOKEN"
repos = [%q]
[factory]
state = %q
min_free_memory = "0"
min_free_disk = "0"
%s[threads.api]
backend = "anthropic"
agents = ["dev-kimi", "dev-qwen"]
[agents.dev-kimi]
role = "prey"
%s[agents.dev-qwen]
role = "probe"
%s[roles.prey]
on = "schedule"
every = "24h"
command = ["sh", "-c", '''%s''']
[roles.probe]
on = "schedule"
every = "24h"
command = ["sh", "-c", '''%s''']
`, f.URL, demo.Repo, state, factoryKeys, preyKeys, probeKeys, prey, probe)
	for path, mode := range map[string]os.FileMode{dir: 0o755, share: 0o777, etc: 0o755} {
		if err := os.MkdirAll(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{config: text, secrets: strings.Join(left, "\n") + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := startDisinto(t, []string{"STATE=" + state, "SHARE=" + share, "CONFIG=" + config, "HIDDEN=" + secrets}, "run",
		"--yes", "--config", config)
	eventually(t, "the probe has tried everything", func() bool { return r.read(filepath.Join(share, "done")) != "" })
	want := "self environ\nself mem\nself maps\nself fd\nself cwd\nself signal\nown file\nown file\nown file\n" +
		"prey found\nNoNewPrivs:\t1\n"
	if got := r.read(filepath.Join(share, "done")); got != want {
		t.Errorf("the probe reached\n%s\nwant\n%s", got, want)
	}
	arguments := r.read(filepath.Join(share, "arguments"))
	if !strings.Contains(arguments, "--config") {
		t.Errorf("the probe saw no process's arguments: %q", arguments)
	}
	for name, token := range f.Tokens {
		if strings.Contains(arguments, token) {
			t.Errorf("%s is among the arguments of a process", name)
		}
	}
}
