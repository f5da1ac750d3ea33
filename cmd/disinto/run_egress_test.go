package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// A person who looks at the status of an issue whose sessions were refused a host sees that, and once agents have given
// up, under NEEDS YOU, the line to add to factory.toml, whole.
func TestEgressOnScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Slow()
		refused := agents.Refusals{
			{Host: "chatgpt.com:443", Rule: "chatgpt.com", Times: 40},
			{Host: "evil.example:443", Rule: "evil.example", Times: 3},
		}
		w.Exec.Script = func(agents.Job, int) simtest.Script {
			return simtest.Script{Takes: time.Second, Outcome: agents.Outcome{
				Result: agents.Failed, Refused: refused, Claimed: true,
				Reason: "npm ci, exit 1; it was " + refused.Telling().Words() + " (egress)",
			}}
		}
		w.Forge.Issue("one")
		l := w.Start()
		status := func() string {
			text := screen.View{Now: time.Now(), Width: 100}.Status(l.Document())
			return strings.Join(strings.Fields(text), " ") // a line may be wrapped
		}
		w.Until(time.Hour, "it waits for its next try", func() bool {
			return strings.Contains(status(), "it was refused evil.example:443, 3 times (egress)")
		})
		if early := status(); strings.Contains(early, "NEEDS YOU") {
			t.Errorf("people are asked before agents gave up: %s", early)
		}
		const line = "to allow them, add `egress = [\"evil.example\"]` in factory.toml"
		w.Until(12*time.Hour, "agents give up", func() bool {
			_, needs, _ := strings.Cut(status(), "NEEDS YOU")
			return strings.Contains(needs, "refused evil.example:443, 3 times") && strings.Contains(needs, line)
		})
		l.Stop()
	})
}

// A session with egress, also one in a network of its own, goes on through an upgrade in place and a kill of the
// supervisor: the forge can be reached before, between and after them, and what was refused in all three parts stands
// in the pull request and in `show`. Its log does not show the address of its proxy, which has a password.
func TestEgressThroughUpgrade(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"shared", "own"} {
		t.Run(network, func(t *testing.T) { throughUpgrade(t, network) })
	}
}

func throughUpgrade(t *testing.T, network string) {
	t.Parallel()
	if found, err := process.FindSandbox(); err != nil || found.Open != nil || found.Shared() != nil {
		t.Skip("no egress here: ", err, found.Open)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	f := newTestForge(t)
	f.pick(8)
	state, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	text := strings.Replace(fmt.Sprintf(roomFactory, f.URL, demo.Repo, demo.Repo), "[roles.dev]\n",
		"[factory]\negress = []\n\n[roles.dev]\nnetwork = \""+network+"\"\n", 1)
	script := fmt.Sprintf(`for n in 1 2 3; do
		while ! test -e %s$n; do sleep 0.1; done
		for to in %s http://evil$n.example; do
			curl -s -o /dev/null -w "%%{http_code} " --noproxy "" $to >>../codes
		done
	done; echo "by $HTTPS_PROXY"`, gate, f.URL)
	text += fmt.Sprintf("setup = [[\"sh\", \"-c\", %q]]\n", script)
	environ := withEnv(f.environ(nil), []string{"PATH=" + stub(t, writeOrder) + ":" + os.Getenv("PATH")})
	r := startDisinto(t, environ, "run", "--yes", "--config", factoryFile(t, text), "--state", state)
	during := func(d *control.Document) bool {
		return len(d.Sessions) == 1 && d.Sessions[0].Doing.Phase == agents.PhaseSetup && d.Sessions[0].PID > 0
	}
	status(t, state, "its commands run", during)
	codes := filepath.Join(state, "work", "dev-qwen", strings.ReplaceAll(demo.Repo, "/", "_")+"_8", "codes")
	step := func(n int) {
		t.Helper()
		f.write(gate+itoa(n), "")
		eventually(t, fmt.Sprintf("step %d", n), func() bool { return len(strings.Fields(r.read(codes))) == 2*n })
	}
	step(1)
	if got := disinto(t.Context(), nil, "upgrade", "--state", state); got.code != exitDone {
		t.Errorf("upgrade: got %+v", got)
	}
	status(t, state, "they still run", during)
	step(2)
	old := r.supervisor()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another supervisor runs", func() bool { now := r.supervisor(); return now != 0 && now != old })
	status(t, state, "they still run", during)
	step(3)
	if got := r.read(codes); strings.Join(strings.Fields(got), " ") != "404 403 404 403 404 403" {
		t.Errorf("got the answers %q", got)
	}
	var pull struct{ Body string }
	eventually(t, "the work is handed in", func() bool { f.get("/pulls/12", &pull); return pull.Body != "" })
	status(t, state, "the session has ended", func(d *control.Document) bool { return len(d.Recent) > 0 })
	shown := disinto(t.Context(), nil, "show", "8", "--state", state).stdout
	for _, host := range []string{"evil1.example:80", "evil2.example:80", "evil3.example:80"} {
		if !strings.Contains(pull.Body, host) || !strings.Contains(shown, host) {
			t.Errorf("no %s in the pull request\n%s\nor in show\n%s", host, pull.Body, shown)
		}
	}
	log := disinto(t.Context(), nil, "logs", "8", "--state", state).stdout
	if !strings.Contains(log, "by [secret]") {
		t.Errorf("the log shows\n%s", log)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}
