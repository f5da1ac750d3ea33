package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
)

// taskDir returns the NOMAD_TASK_DIR of the session that began last.
func (b *bench) taskDir() string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "task-dir"))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

// TestDataDirHidden: a session without an account of its own reads nothing in the data_dir of Nomad's client, where the
// orders of other sessions and the node's secret id are, even if data_dir is in a folder of programs such as /opt.
func TestDataDirHidden(t *testing.T) {
	if _, err := process.FindSandbox(); err != nil {
		t.Skip(err)
	}
	onBoth(t, func(b *bench) {
		job := b.job(untilEnd + `cat "$(cat $T/path)" 2>&1`)
		job.Sandbox.Read = []string{filepath.Dir(b.dir), "/opt"} // as if the data_dir were in a folder of programs
		out, _ := b.run(job)
		allocs := filepath.Dir(filepath.Dir(filepath.Dir(b.taskDir())))
		secret := filepath.Join(filepath.Dir(allocs), "client/secret-id")
		if text, err := os.ReadFile(secret); err != nil || len(text) == 0 {
			b.Fatalf("the node has no secret id: %v", err)
		}
		if err := os.WriteFile(filepath.Join(b.dir, "path"), []byte(secret), 0o644); err != nil {
			b.Fatal(err)
		}
		o := b.wait(out, func() { b.touch("end") })
		if o.Result != agents.Failed || !strings.Contains(o.Tail, "ermission denied") {
			b.Errorf("reading %s: got %s, %q, want no permission", secret, o.Result, o.Tail)
		}
	})
}

// TestExposed: without an account of its own a session starts only in a sandbox.
func TestExposed(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("true")
		job.Sandbox = agents.Sandbox{Mode: agents.SandboxOff}
		b.want(b.exec.Run(b.Context(), job, nil), agents.NoPlace, "a session without `user` needs a sandbox", 0)
		if left, err := b.client().rebuildOrder(b.Context(), jobID(job.RunID)); left != nil || err != nil {
			b.Errorf("the job is %v, %v, want none submitted", left, err)
		}
	})
	p := &SessionRun{NoSandbox: func() error { return errors.New("the kernel has no Landlock") }}
	for user, want := range map[string]string{
		"": "a session without `user` needs a sandbox on a node, because it could read the tokens of other sessions there, " +
			"and this node has none: the kernel has no Landlock",
		"agent": "<nil>",
	} {
		err := p.checkExposed(&agents.Job{User: user, Sandbox: agents.Sandbox{Mode: agents.SandboxAuto}})
		if got := fmt.Sprint(err); got != want {
			t.Errorf("with user %q and no sandbox: got %s, want %s", user, got, want)
		}
	}
}

// TestOrderDeleted: while a session runs, its order is not on its node. A restarted allocation has no second session:
// it is lost, which counts as nobody's failure.
func TestOrderDeleted(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job(untilEnd)
		job.Grace = 5 * time.Second
		out, _ := b.run(job)
		order := filepath.Join(filepath.Dir(b.taskDir()), "secrets", orderFile)
		if _, err := os.Lstat(order); !errors.Is(err, os.ErrNotExist) {
			b.Errorf("%s: got %v, want no such file", order, err)
		}
		if err := os.WriteFile(order, []byte("{}"), 0o600); err != nil { // as a client does that was started again
			b.Fatal(err)
		}
		b.eventually("the order that was written again is deleted", func() bool {
			_, err := os.Lstat(order)
			return errors.Is(err, os.ErrNotExist)
		})
		o := b.wait(out, func() {
			path := "/client/allocation/" + b.list(job)[0].ID + "/restart"
			if _, err := b.client().call(b.Context(), http.MethodPut, path, nil, table{}, nil); err != nil {
				b.Fatal(err)
			}
		})
		b.want(o, agents.Lost, "its allocation was restarted", 1)
		b.wantNothingLeft(job)
	})
}

// TestKilledLog: the next session on a node removes the log of a killed one, which contains secrets.
func TestKilledLog(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := b.job("echo the secret of $DISINTO_RUN_ID; touch $T/said; " + untilEnd)
		out, _ := b.run(job)
		b.eventually("it prints", func() bool { _, err := os.Stat(filepath.Join(b.dir, "said")); return err == nil })
		if n := logsWith(job.RunID); n != 1 {
			b.Errorf("found %d logs of a running session, want 1", n)
		}
		next := b.job("true")
		b.want(b.exec.Run(b.Context(), next, nil), agents.Done, "", 2)
		if n := logsWith(job.RunID); n != 1 {
			b.Errorf("found %d logs of a running session after another session's start, want 1", n)
		}
		path := "/client/allocation/" + b.list(job)[0].ID + "/signal"
		signal := table{"Signal": "SIGKILL"}
		if _, err := b.client().call(b.Context(), http.MethodPut, path, nil, signal, nil); err != nil {
			b.Fatal(err)
		}
		b.want(<-out, agents.Killed, "killed by SIGKILL", 2)
		b.want(b.exec.Run(b.Context(), b.job("true"), nil), agents.Done, "", 3)
		if n := logsWith(job.RunID); n != 0 {
			b.Errorf("found %d logs of a killed session after the next session, want none", n)
		}
	})
}

// logsWith counts the logs of this node that contain a text.
func logsWith(text string) (n int) {
	logs, _ := filepath.Glob(filepath.Join(os.TempDir(), logFolders+"*", "log"))
	for _, path := range logs {
		if log, err := os.ReadFile(path); err == nil && strings.Contains(string(log), text) {
			n++
		}
	}
	return n
}
